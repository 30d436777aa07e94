"""The six memory objects (memory-core §3, DESIGN R9). Values; nothing here stores or reads anything."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import cached_property
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from charactermemory.domain.beliefs import BeliefAssertion, check_belief
from charactermemory.domain.kinds import (
    SCHEMA_VERSION,
    DerivedType,
    Modality,
    RelationType,
    RetentionState,
    ThreadStatus,
)
from charactermemory.domain.model import Instant, Key, Listed, Model, Name, Score, Text, says_nothing
from charactermemory.domain.scene import Scene
from charactermemory.errors import (
    AuthoredBeliefAboutLink,
    AuthoredSupersedesLink,
    EmptyEpisodeSummary,
    InvalidScore,
    MissingDerivedSource,
    MissingEpisodeReference,
    SelfLink,
    UnsupportedMemoryLinkEndpoint,
)
from charactermemory.ids import NIL_ID, MemoryId, MemoryObjectRef, ObjectType

DEFAULT_SALIENCE = 0.5
"""Salience of an object whose draft names none (memory-core §1.4)."""


def sorted_ids(ids: Iterable[MemoryId]) -> tuple[MemoryId, ...]:
    """Return `ids` as a set: ascending, without repeats."""
    return tuple(sorted(set(ids), key=lambda item: item.int))


IdSet = Annotated[tuple[MemoryId, ...], Listed, AfterValidator(sorted_ids)]
"""Ids with set semantics: stored ascending and without repeats."""
Assertions = Annotated[tuple[BeliefAssertion, ...], Listed]
"""Assertions in order, repeats kept."""


class _Stored(Model):
    id: MemoryId
    created_at: Instant
    schema_version: Name = SCHEMA_VERSION

    @cached_property
    def ref(self) -> MemoryObjectRef:
        """The typed reference to this object; asked for some fifteen times a commit and object."""
        return MemoryObjectRef(object_type=self.object_type, id=self.id)  # type: ignore[attr-defined]


class Episode(_Stored):
    """What happened: one event or interaction in its scene. Without a summary it is described by its scene."""

    object_type: Literal[ObjectType.EPISODE] = ObjectType.EPISODE
    modality: Modality = Modality.CHAT
    scene: Scene
    summary: Text | None = None
    source_conversation_id: Key | None = None
    raw_ref: Key | None = None
    salience_score: Score = DEFAULT_SALIENCE
    retention_state: RetentionState = RetentionState.ACTIVE


class Observation(_Stored):
    """Something noticed within an episode, at a position that is unique there."""

    object_type: Literal[ObjectType.OBSERVATION] = ObjectType.OBSERVATION
    episode_id: MemoryId
    position: Annotated[int, Field(ge=0, le=2**31 - 1)]
    speaker_entity_id: MemoryId | None = None
    observed_at: Instant | None = None
    modality: Modality = Modality.CHAT
    text: Text
    raw_ref: Key | None = None
    salience_score: Score = DEFAULT_SALIENCE
    retention_state: RetentionState = RetentionState.ACTIVE


class Entity(_Stored):
    """A notion: someone or something the character has in mind. It has no name; beliefs name it."""

    object_type: Literal[ObjectType.ENTITY] = ObjectType.ENTITY


class MemoryThread(_Stored):
    """A soft continuity over memories. It is never suppressed."""

    object_type: Literal[ObjectType.MEMORY_THREAD] = ObjectType.MEMORY_THREAD
    title: Name
    summary: Text
    status: ThreadStatus = ThreadStatus.ACTIVE
    last_touched_at: Instant
    salience_score: Score = DEFAULT_SALIENCE
    canonical_key: Key | None = None
    updated_at: Instant


class DerivedMemory(_Stored):
    """An interpreted memory, a belief: grounded in experiences or given by the application."""

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
    updated_at: Instant


class MemoryLink(_Stored):
    """A directed relation between two objects that are no links."""

    object_type: Literal[ObjectType.MEMORY_LINK] = ObjectType.MEMORY_LINK
    from_id: MemoryId
    from_type: ObjectType
    to_id: MemoryId
    to_type: ObjectType
    relation: RelationType
    rationale: Text | None = None

    @property
    def source(self) -> MemoryObjectRef:
        """Where the link starts."""
        return MemoryObjectRef(object_type=self.from_type, id=self.from_id)

    @property
    def target(self) -> MemoryObjectRef:
        """Where the link ends."""
        return MemoryObjectRef(object_type=self.to_type, id=self.to_id)


MemoryObject = Annotated[
    Episode | Observation | Entity | MemoryThread | DerivedMemory | MemoryLink,
    Field(discriminator="object_type"),
]
"""Any memory object, told apart by `object_type`."""

Rememberable = Episode | Observation | DerivedMemory
"""The objects that have a retention state."""


def check_object(item: MemoryObject) -> None:
    """Judge the rules of one object (memory-core §3) in their order.

    Raises:
        DomainValidationError: the first rule broken.
    """
    match item:
        case Episode():
            if item.summary is not None and says_nothing(item.summary):
                raise EmptyEpisodeSummary()
            item.scene.check()
            _check_score("episode_salience", item.salience_score)
        case Observation():
            if item.episode_id == NIL_ID:
                raise MissingEpisodeReference()
            _check_score("observation_salience", item.salience_score)
        case MemoryThread():
            _check_score("memory_thread_salience", item.salience_score)
        case DerivedMemory():
            _check_derived(item)
        case MemoryLink():
            _check_link(item)
        case Entity():
            pass


def check_authored_link(link: MemoryLink) -> None:
    """Judge a link that a caller authored: prohibitions first, then the rules of every link.

    Raises:
        AuthoredSupersedesLink, AuthoredBeliefAboutLink, UnsupportedMemoryLinkEndpoint, SelfLink.
    """
    if link.relation is RelationType.SUPERSEDES:
        raise AuthoredSupersedesLink()
    ends = {link.from_type, link.to_type}
    if link.relation is RelationType.ABOUT and ends == {ObjectType.DERIVED_MEMORY, ObjectType.ENTITY}:
        raise AuthoredBeliefAboutLink()
    _check_link(link)


def memory_time(item: MemoryObject, episode_instant: datetime | None = None) -> datetime:
    """Return when the memory happened: scene instant, observed time, else creation (recall.md §16.3).

    Args:
        item: the object.
        episode_instant: for an observation without `observed_at`, its episode's scene instant.
    """
    if isinstance(item, Episode):
        return item.scene.instant
    if isinstance(item, Observation):
        return item.observed_at or episode_instant or item.created_at
    return item.created_at


def _check_score(field: str, value: float) -> None:
    if not 0.0 <= value <= 1.0:
        raise InvalidScore(field, value)


def _check_derived(item: DerivedMemory) -> None:
    has_sources = bool(item.derived_from_episode_ids or item.derived_from_observation_ids)
    check_belief(item.entity_ids, has_sources, item.given_by_application, item.assertions)
    if not has_sources and not item.given_by_application:
        raise MissingDerivedSource()
    if item.id in item.supersedes:
        raise SelfLink(ObjectType.DERIVED_MEMORY, item.id)
    _check_score("derived_memory_salience", item.salience_score)


def _check_link(link: MemoryLink) -> None:
    if link.from_type is ObjectType.MEMORY_LINK:
        raise UnsupportedMemoryLinkEndpoint("MemoryLink.from_type")
    if link.to_type is ObjectType.MEMORY_LINK:
        raise UnsupportedMemoryLinkEndpoint("MemoryLink.to_type")
    if link.source == link.target:
        raise SelfLink(link.from_type, link.from_id)
