"""Makers of drafts and plans: ids one can read, everything a candidate must have filled in."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, TypeVar
from uuid import UUID

from charactermemory.domain.beliefs import BeliefAssertion
from charactermemory.domain.kinds import SCHEMA_VERSION, DerivedType, RelationType
from charactermemory.domain.provenance import CandidateProvenance
from charactermemory.domain.scene import Scene
from charactermemory.ids import MemoryObjectRef, ObjectType
from charactermemory.remember.drafts import (
    DerivedMemoryDraft,
    EntityDraft,
    EpisodeDraft,
    MemoryLinkDraft,
    MemoryThreadDraft,
    ObservationDraft,
)
from charactermemory.remember.plan import RememberWritePlan, candidate

AT = datetime(2026, 1, 1, 9, 30, 15, 123456, tzinfo=UTC)
"""When everything below was made, unless said otherwise."""
BY_TEST = CandidateProvenance.caller("the test says so")

D = TypeVar("D")


def uid(number: int) -> UUID:
    """Return the id whose last digits are `number`, in hexadecimal."""
    return UUID(int=number)


def episode_ref(number: int) -> MemoryObjectRef:
    """Return the reference of episode `number`."""
    return MemoryObjectRef.of(ObjectType.EPISODE, uid(number))


def observation_ref(number: int) -> MemoryObjectRef:
    """Return the reference of observation `number`."""
    return MemoryObjectRef.of(ObjectType.OBSERVATION, uid(number))


def notion_ref(number: int) -> MemoryObjectRef:
    """Return the reference of notion `number`."""
    return MemoryObjectRef.of(ObjectType.ENTITY, uid(number))


def thread_ref(number: int) -> MemoryObjectRef:
    """Return the reference of thread `number`."""
    return MemoryObjectRef.of(ObjectType.MEMORY_THREAD, uid(number))


def memory_ref(number: int) -> MemoryObjectRef:
    """Return the reference of derived memory `number`."""
    return MemoryObjectRef.of(ObjectType.DERIVED_MEMORY, uid(number))


def link_ref(id: UUID) -> MemoryObjectRef:
    """Return the reference of the link `id`."""
    return MemoryObjectRef.of(ObjectType.MEMORY_LINK, id)


def complete(draft: D, at: datetime = AT) -> D:
    """Return the draft with its times and schema version filled in where they are missing."""
    values: dict[str, Any] = {name: getattr(draft, name) or at for name in draft.timestamps}  # type: ignore[attr-defined]
    return draft.replace(schema_version=draft.schema_version or SCHEMA_VERSION, **values)  # type: ignore[attr-defined,no-any-return]


def episode(number: int, summary: str | None = None, **fields: Any) -> EpisodeDraft:
    """An episode at `AT`."""
    return complete(EpisodeDraft(id=uid(number), summary=summary, **({"scene": Scene(time=AT)} | fields)))


def observation(number: int, of: int, text: str, position: int = 0, **fields: Any) -> ObservationDraft:
    """An observation in episode `of`."""
    return complete(
        ObservationDraft(id=uid(number), episode_id=uid(of), text=text, position=position, **fields)
    )


def notion(number: int) -> EntityDraft:
    """A notion."""
    return complete(EntityDraft(id=uid(number)))


def thread(number: int, title: str = "Garden", summary: str = "what grows") -> MemoryThreadDraft:
    """A thread."""
    return complete(MemoryThreadDraft(id=uid(number), title=title, summary=summary))


def belief(number: int, text: str, about: tuple[int, ...] = (), **fields: Any) -> DerivedMemoryDraft:
    """A memory given by the application about these notions; `sources` would make it an ordinary one."""
    values = {
        "derived_type": DerivedType.CLAIM,
        "given_by_application": True,
        "entity_ids": tuple(uid(n) for n in about),
    }
    return complete(DerivedMemoryDraft(id=uid(number), text=text, **(values | fields)))


def naming(number: int, of: int, *names: str, **fields: Any) -> DerivedMemoryDraft:
    """A given belief that notion `of` is known as `names`."""
    assertions = tuple(BeliefAssertion.known_as(uid(of), name) for name in names)
    return belief(number, f"It is called {', '.join(names)}.", (of,), assertions=assertions, **fields)


def link(
    id: UUID, source: MemoryObjectRef, relation: RelationType, target: MemoryObjectRef, **fields: Any
) -> MemoryLinkDraft:
    """A link a caller authors."""
    return complete(
        MemoryLinkDraft(
            id=id,
            from_type=source.object_type,
            from_id=source.id,
            relation=relation,
            to_type=target.object_type,
            to_id=target.id,
            **fields,
        )
    )


def plan(*drafts: Any) -> RememberWritePlan:
    """A plan of these drafts, without vector or statistics candidates."""
    return RememberWritePlan(candidates=tuple(candidate(draft, BY_TEST) for draft in drafts))
