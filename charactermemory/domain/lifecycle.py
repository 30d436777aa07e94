"""Currency and suppression (memory-core §3.10): which memories have influence now.

The graph only grows: a memory is suppressed because a forget event points at it (or it was born so),
superseded because a derived memory supersedes it. Nothing stores a current flag.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from charactermemory.domain.kinds import RelationType, RetentionState
from charactermemory.domain.model import Instant, Key, Listed, Model, Text
from charactermemory.domain.objects import DerivedMemory, MemoryLink, MemoryObject
from charactermemory.domain.provenance import ExternalSourceReference
from charactermemory.ids import MemoryId, MemoryObjectRef, ObjectType, about_link_id, supersedes_link_id

References = Annotated[tuple[MemoryObjectRef, ...], Listed]
"""A list of typed references."""


class LifecyclePolicy(Model):
    """What default readers leave out and may ask for; the two switches are independent."""

    include_suppressed: bool = False
    include_superseded: bool = False


class LifecycleEvent(Model):
    """The record of one forget or correct call that changed something (DESIGN R2)."""

    id: MemoryId
    operation: Literal["forget", "correct"]
    at: Instant
    rationale: Text
    requested_by: Key | None = None
    external_refs: Annotated[tuple[ExternalSourceReference, ...], Listed] = ()
    targets: References = ()
    suppresses: References = ()


class Stored(Model):
    """One stored object with its lifecycle as the graph holds it.

    `object` carries the effective retention state and `updated_at`; `authored` is the value as written where
    a forget event made the two differ; `digest` is that of the value as written.
    """

    object: MemoryObject
    authored: MemoryObject | None = None
    digest: str
    superseded_by: Annotated[tuple[MemoryId, ...], Field(strict=False)] = ()

    @property
    def ref(self) -> MemoryObjectRef:
        """The typed reference."""
        return self.object.ref

    @property
    def suppressed(self) -> bool:
        """Whether it was forgotten, or born suppressed."""
        return getattr(self.object, "retention_state", None) is RetentionState.SUPPRESSED

    @property
    def superseded(self) -> bool:
        """Whether any derived memory, itself suppressed or not, supersedes it."""
        return bool(self.superseded_by)

    @property
    def current(self) -> bool:
        """Active and not superseded."""
        return not self.suppressed and not self.superseded

    def omitted_as(self, policy: LifecyclePolicy) -> Literal["suppressed", "superseded"] | None:
        """Why default readers leave it out; suppression takes precedence (memory-core §3.10)."""
        if self.suppressed and not policy.include_suppressed:
            return "suppressed"
        if self.superseded and not policy.include_superseded:
            return "superseded"
        return None


def derived_links(memory: DerivedMemory) -> tuple[MemoryLink, ...]:
    """Return the links that follow from a memory's own lists, sorted by id.

    One Supersedes link per predecessor, one About link per notion.
    """

    def link(id_: MemoryId, relation: RelationType, to_id: MemoryId, to_type: ObjectType) -> MemoryLink:
        return MemoryLink(
            id=id_,
            from_id=memory.id,
            from_type=ObjectType.DERIVED_MEMORY,
            to_id=to_id,
            to_type=to_type,
            relation=relation,
            created_at=memory.created_at,
            schema_version=memory.schema_version,
        )

    links = [
        link(supersedes_link_id(memory.id, old), RelationType.SUPERSEDES, old, ObjectType.DERIVED_MEMORY)
        for old in memory.supersedes
    ] + [
        link(about_link_id(memory.id, notion), RelationType.ABOUT, notion, ObjectType.ENTITY)
        for notion in memory.entity_ids
    ]
    return tuple(sorted(links, key=lambda item: item.id.int))
