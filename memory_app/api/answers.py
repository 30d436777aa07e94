"""What the API answers: the core's outcomes with what a reader without the core's code would miss."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import ConfigDict, Field, RootModel

from charactermemory import (
    CandidateValidation,
    LifecycleMutationOutcome,
    LinkOutcome,
    RememberOutcome,
    Stored,
)
from charactermemory.domain.model import Instant, Model
from charactermemory.domain.objects import MemoryObject
from charactermemory.ids import MemoryId, MemoryObjectRef, ObjectType
from charactermemory.recall.outcome import RetrievalOutcome
from charactermemory.recall.render import LeftOut, Rendered
from charactermemory.recall.roads.road import Degradation
from charactermemory.remember.outcome import Outcome
from memory_app.models import ExternalKey, MemoryCollection, RepairMarker

# The outcomes compute `complete` as a property, which no field of a subclass may be called.
_Complete = Annotated[
    bool, Field(alias="complete", description="Whether graph, index and statistics agree on this write now.")
]


class _Completed(Model):
    model_config = ConfigDict(serialize_by_alias=True)

    is_complete: _Complete

    @classmethod
    def of(cls, outcome: Outcome) -> Self:
        """Make the answer of an outcome."""
        return cls.model_validate({**dict(outcome), "complete": outcome.complete})


class RememberAnswer(_Completed, RememberOutcome):
    """What a commit stored, and whether everything could be derived from it."""


class LinkAnswer(_Completed, LinkOutcome):
    """The link as stored, and whether everything could be derived from it."""


class LifecycleAnswer(_Completed, LifecycleMutationOutcome):
    """What a correction or forget changed, or would change, and whether everything could be derived from it."""


class PlanVerdict(Model):
    """The verdict on a plan: valid if no candidate has an error."""

    valid: bool
    validations: tuple[CandidateValidation, ...]


class PromptAnswer(Model):
    """A pack as prompt text.

    Attributes:
        text: both blocks, the stable one first.
        stable: the block to place first; its bytes stay while the beliefs in it do.
        volatile: the block to place last.
        tokens: what both cost, estimated.
        left_out: the memories for which the budget had no room.
        degraded: what recall had to do without; empty if nothing failed.
    """

    text: str
    stable: str
    volatile: str
    tokens: int
    left_out: tuple[LeftOut, ...] = ()
    degraded: tuple[Degradation, ...] = ()

    @classmethod
    def of(cls, rendered: Rendered, outcome: RetrievalOutcome) -> Self:
        """Make the answer of a rendering."""
        return cls(**dict(rendered), text=rendered.text, degraded=outcome.rationale.degraded)


class StoredObject(Model):
    """One stored object with its lifecycle; `authored` is what was written where a forget made it differ."""

    object: MemoryObject
    authored: MemoryObject | None = None
    digest: str
    superseded_by: tuple[MemoryId, ...] = ()
    suppressed: bool
    superseded: bool
    current: bool

    @classmethod
    def of(cls, stored: Stored) -> Self:
        """Make the answer of a stored object."""
        return cls(
            **dict(stored), suppressed=stored.suppressed, superseded=stored.superseded, current=stored.current
        )


class History(Model):
    """A chain of memories that superseded one another, oldest first."""

    results: tuple[StoredObject, ...]


class ObjectPage(Model):
    """One page of stored objects. `next` continues it; a page may hold fewer than asked for, even none."""

    results: tuple[StoredObject, ...]
    next: str | None = None


class KeyTarget(RootModel[MemoryObjectRef]):
    """The object that a key of the host's is to stand for."""


class ExternalKeyAnswer(Model):
    """A key of the host's and the object it stands for."""

    key: str
    object: MemoryObjectRef
    created_at: Instant

    @classmethod
    def of(cls, row: ExternalKey) -> Self:
        """Make the answer of a row."""
        return cls.model_validate(
            {"key": row.key, "object": _ref(row.object_type, row.object_id), "created_at": row.created_at}
        )


class DerivedStore(Model):
    """How far a derived store is: commits up to `applied` are reflected in it."""

    applied: int
    lag: int


class StatisticsAnswer(Model):
    """Where the memory and what is derived from it stand; no text and no ids.

    Attributes:
        head: the number of the last commit.
        vectors: how far the index is.
        indexed: how many objects it holds.
        statistics: how far the statistics are.
        statistics_state: whether recall trusts their counters.
    """

    head: int
    vectors: DerivedStore
    indexed: int
    statistics: DerivedStore
    statistics_state: Literal["healthy", "lagging", "unhealthy"]


class RepairAnswer(Model):
    """One object that a derived store may not have as the graph says."""

    id: int
    store: Literal["vector", "statistics"]
    status: Literal["pending", "claimed", "succeeded", "dead", "cancelled"]
    object: MemoryObjectRef
    origin: str
    cause: str
    retryable: bool
    attempts: int
    max_attempts: int
    due_since: Instant
    available_at: Instant
    completed_at: Instant | None = None

    @classmethod
    def of(cls, row: RepairMarker) -> Self:
        """Make the answer of a row; its detail may name addresses and stays with the operators' admin."""
        same = ("id", "store", "status", "origin", "retryable", "attempts", "max_attempts")
        times = ("due_since", "available_at", "completed_at")
        values: dict[str, Any] = {name: getattr(row, name) for name in (*same, *times)}
        return cls(**values, cause=row.cause_code, object=_ref(row.object_type, row.object_id))


class RepairPage(Model):
    """One page of repairs, the newest first."""

    results: tuple[RepairAnswer, ...]
    next: str | None = None


class RepairSummary(Model):
    """How many repairs are in each state, and since when the longest waiting one waits."""

    pending: int = 0
    claimed: int = 0
    succeeded: int = 0
    dead: int = 0
    cancelled: int = 0
    waiting_since: Instant | None = None


class CollectionAnswer(Model):
    """One character's memory."""

    name: str
    language: str
    archived: bool
    created_at: Instant

    @classmethod
    def of(cls, row: MemoryCollection) -> Self:
        """Make the answer of a row."""
        return cls(name=row.name, language=row.language, archived=row.archived, created_at=row.created_at)


class CollectionPage(Model):
    """One page of collections by name."""

    results: tuple[CollectionAnswer, ...]
    next: str | None = None


class Alive(Model):
    """The server answers."""

    status: Literal["ok"] = "ok"


def _ref(object_type: str, id: UUID) -> MemoryObjectRef:

    return MemoryObjectRef.of(ObjectType(object_type), id)
