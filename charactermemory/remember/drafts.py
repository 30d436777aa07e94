"""Drafts: objects before they are stored, with ids, times and versions optional (memory-core §4).

A draft's shape is checked at construction; its meaning when it becomes an object, that is at plan
validation and in `link`.
"""

from __future__ import annotations

from datetime import datetime
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field

from charactermemory.domain.kinds import (
    SCHEMA_VERSION,
    DerivedType,
    Modality,
    RelationType,
    RetentionState,
    ThreadStatus,
)
from charactermemory.domain.model import Instant, Key, Model, Name, Saying, Score, Text
from charactermemory.domain.objects import (
    DEFAULT_SALIENCE,
    Assertions,
    DerivedMemory,
    Entity,
    Episode,
    IdSet,
    MemoryLink,
    MemoryObject,
    MemoryThread,
    Observation,
    check_authored_link,
    check_object,
)
from charactermemory.domain.scene import Scene
from charactermemory.ids import NIL_ID, MemoryId, MemoryObjectRef, ObjectType, new_id


class _Draft(Model):
    produces: ClassVar[type[Model]]
    timestamps: ClassVar[tuple[str, ...]] = ("created_at",)

    id: MemoryId | None = None
    created_at: Instant | None = None
    schema_version: Name | None = None

    @cached_property
    def ref(self) -> MemoryObjectRef | None:
        """The typed reference, once the draft has a legal id."""
        if self.id is None or self.id == NIL_ID:
            return None
        return MemoryObjectRef(object_type=self.object_type, id=self.id)  # type: ignore[attr-defined]

    def to_object(self, now: datetime) -> MemoryObject:
        """Make the object: supplied values are kept, missing ones filled (id v4, `now`, current version).

        Raises:
            DomainValidationError: the first rule of the domain broken.
        """
        item: Any = self.produces(**self._values(now))
        check_object(item)
        return item  # type: ignore[no-any-return]

    def _values(self, now: datetime) -> dict[str, Any]:
        values: dict[str, Any] = {name: getattr(self, name) for name in type(self).model_fields}
        values["id"] = self.id if self.id is not None else new_id()
        values["created_at"] = self.created_at or now
        values["schema_version"] = self.schema_version or SCHEMA_VERSION
        return values


class EpisodeDraft(_Draft):
    """An episode to be remembered; without a scene it takes the input's, without a summary it has none."""

    produces: ClassVar[type[Model]] = Episode

    object_type: Literal[ObjectType.EPISODE] = ObjectType.EPISODE
    modality: Modality = Modality.CHAT
    scene: Scene | None = None
    summary: Text | None = None
    source_conversation_id: Key | None = None
    raw_ref: Key | None = None
    salience_score: Score = DEFAULT_SALIENCE
    retention_state: RetentionState = RetentionState.ACTIVE

    @classmethod
    def new(cls, summary: str | None = None) -> Self:
        """An episode with a summary."""
        return cls(summary=summary)

    def _values(self, now: datetime) -> dict[str, Any]:
        return super()._values(now) | {"scene": self.scene or Scene(time=now)}


class ObservationDraft(_Draft):
    """Something noticed; without an episode id it belongs to the plan's episode."""

    produces: ClassVar[type[Model]] = Observation

    object_type: Literal[ObjectType.OBSERVATION] = ObjectType.OBSERVATION
    episode_id: MemoryId | None = None
    position: Annotated[int | None, Field(ge=0, le=2**31 - 1)] = None
    speaker_entity_id: MemoryId | None = None
    observed_at: Instant | None = None
    modality: Modality = Modality.CHAT
    text: Saying
    raw_ref: Key | None = None
    salience_score: Score = DEFAULT_SALIENCE
    retention_state: RetentionState = RetentionState.ACTIVE

    @classmethod
    def new(cls, text: str, episode_id: MemoryId | None = None) -> Self:
        """An observation of `text`."""
        return cls(text=text, episode_id=episode_id)

    def _values(self, now: datetime) -> dict[str, Any]:
        place = {"episode_id": self.episode_id or NIL_ID, "position": self.position or 0}
        return super()._values(now) | place


class EntityDraft(_Draft):
    """A notion; it has nothing but its identity."""

    produces: ClassVar[type[Model]] = Entity

    object_type: Literal[ObjectType.ENTITY] = ObjectType.ENTITY


class MemoryThreadDraft(_Draft):
    """A thread; its times default to one another: touched to updated, updated to created."""

    produces: ClassVar[type[Model]] = MemoryThread
    timestamps: ClassVar[tuple[str, ...]] = ("created_at", "updated_at", "last_touched_at")

    object_type: Literal[ObjectType.MEMORY_THREAD] = ObjectType.MEMORY_THREAD
    title: Name
    summary: Text
    status: ThreadStatus = ThreadStatus.ACTIVE
    last_touched_at: Instant | None = None
    salience_score: Score = DEFAULT_SALIENCE
    canonical_key: Key | None = None
    updated_at: Instant | None = None

    @classmethod
    def new(cls, title: str, summary: str) -> Self:
        """A thread with title and summary."""
        return cls(title=title, summary=summary)

    def _values(self, now: datetime) -> dict[str, Any]:
        values = super()._values(now)
        values["updated_at"] = self.updated_at or values["created_at"]
        values["last_touched_at"] = self.last_touched_at or values["updated_at"]
        return values


class DerivedMemoryDraft(_Draft):
    """An interpreted memory; without sources it takes the plan's experiences unless given by the application."""

    produces: ClassVar[type[Model]] = DerivedMemory
    timestamps: ClassVar[tuple[str, ...]] = ("created_at", "updated_at")

    object_type: Literal[ObjectType.DERIVED_MEMORY] = ObjectType.DERIVED_MEMORY
    derived_type: DerivedType
    text: Text
    derived_from_episode_ids: IdSet = ()
    derived_from_observation_ids: IdSet = ()
    thread_ids: IdSet = ()
    entity_ids: IdSet = ()
    assertions: Assertions = ()
    given_by_application: bool = False
    salience_score: Score = DEFAULT_SALIENCE
    supersedes: IdSet = ()
    retention_state: RetentionState = RetentionState.ACTIVE
    updated_at: Instant | None = None

    @classmethod
    def new(cls, derived_type: DerivedType, text: str) -> Self:
        """A derived memory of `derived_type` saying `text`."""
        return cls(derived_type=derived_type, text=text)

    def with_source_episode(self, episode_id: MemoryId) -> Self:
        """Return a copy that also rests on this episode."""
        return self.replace(derived_from_episode_ids=(*self.derived_from_episode_ids, episode_id))

    def with_source_observation(self, observation_id: MemoryId) -> Self:
        """Return a copy that also rests on this observation."""
        return self.replace(derived_from_observation_ids=(*self.derived_from_observation_ids, observation_id))

    def _values(self, now: datetime) -> dict[str, Any]:
        values = super()._values(now)
        values["updated_at"] = self.updated_at or values["created_at"]
        return values


class MemoryLinkDraft(_Draft):
    """A link that a caller authors."""

    produces: ClassVar[type[Model]] = MemoryLink

    object_type: Literal[ObjectType.MEMORY_LINK] = ObjectType.MEMORY_LINK
    from_id: MemoryId
    from_type: ObjectType
    to_id: MemoryId
    to_type: ObjectType
    relation: RelationType
    rationale: Text | None = None

    @classmethod
    def new(
        cls,
        from_type: ObjectType,
        from_id: MemoryId,
        relation: RelationType,
        to_type: ObjectType,
        to_id: MemoryId,
    ) -> Self:
        """A link from one object to another."""
        return cls(from_type=from_type, from_id=from_id, relation=relation, to_type=to_type, to_id=to_id)

    def to_object(self, now: datetime) -> MemoryLink:
        """Make the link; prohibitions on authored links are judged first."""
        link = MemoryLink(**self._values(now))
        check_authored_link(link)
        return link


MemoryObjectDraft = Annotated[
    EpisodeDraft | ObservationDraft | EntityDraft | MemoryThreadDraft | DerivedMemoryDraft | MemoryLinkDraft,
    Field(discriminator="object_type"),
]
"""Any draft, told apart by `object_type`."""
