"""The statistics port: derived counters, edges and object states that steer recall (DESIGN R11).

Rebuildable from the graph at any time and never the judge of inclusion. The store keeps its own place in
the commit log (`Cursor`), written in the same transaction as the rows it speaks of.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple, Protocol

from charactermemory.domain.kinds import RelationType
from charactermemory.errors import RetrievalStatsStoreError
from charactermemory.ids import MemoryObjectRef, ObjectType
from charactermemory.ports.vectors import Cursor

CountScope = Literal["total", "active", "current"]
"""Which edges count: all, those of active objects, or those of current ones (recall.md §12.6)."""


@dataclass(frozen=True, slots=True)
class ObjectState:
    """One episode, observation, derived memory or thread as recall needs it.

    Attributes:
        ref: the object.
        suppressed: its effective retention.
        current: active and not superseded.
        salience: its salience score.
        memory_time: when it happened (UTC).
        month_day: local month and day as `MM-DD`, at the scene's offset where there is one.
    """

    ref: MemoryObjectRef
    suppressed: bool
    current: bool
    salience: float
    memory_time: datetime
    month_day: str


@dataclass(frozen=True, slots=True)
class HubEdge:
    """One object at a hub (a notion, thread or episode). A triple counts once, whatever asserts it."""

    hub: MemoryObjectRef
    relation: RelationType
    object: MemoryObjectRef


@dataclass(frozen=True, slots=True)
class Projection:
    """What some stored objects contribute: their states, and edges from their fields and links.

    Every object of an edge that has a retention has its state here too.
    """

    states: tuple[ObjectState, ...]
    edges: tuple[HubEdge, ...]


@dataclass(frozen=True, slots=True)
class Count:
    """How many distinct edges there are, by scope; total >= active >= current >= 0."""

    total: int
    active: int
    current: int


@dataclass(frozen=True, slots=True)
class Health:
    """`lagging`: commits wait, counters are used. `unhealthy`: not to be trusted until rebuilt."""

    state: Literal["healthy", "lagging", "unhealthy"]
    cause: str | None = None


Pair = tuple[RelationType, ObjectType]
"""A relation, and the type of the objects that it connects with hubs."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What is recorded of some hubs and pairs, from one snapshot.

    Attributes:
        health: whether any of it may be relied on; lag is not looked at.
        overall: the count over all hubs by pair; a pair without any has no key.
        at: the count of a hub by pair; an unknown hub has no key.
        error: why a pair could not be read; it and those asked for after it are missing.
    """

    health: Health
    overall: Mapping[Pair, Count] = field(default_factory=dict)
    at: Mapping[tuple[MemoryObjectRef, Pair], Count] = field(default_factory=dict)
    error: RetrievalStatsStoreError | None = None


HubKey = tuple[MemoryObjectRef, RelationType, ObjectType]
"""A hub, and what at it: objects of one type by one relation."""


class Hint(NamedTuple):
    """What recall needs of a recorded state, and no more: one retrieve reads a hundred and more.

    Attributes:
        suppressed: its effective retention.
        current: active and not superseded.
        salience: its salience score.
        when: its memory time in seconds since 1970.
    """

    suppressed: bool
    current: bool
    salience: float
    when: float


class Best(NamedTuple):
    """The best objects of some hubs, and hints at those and at others, from one snapshot.

    A notion has no state, so nothing hints at one.
    """

    objects: dict[HubKey, list[MemoryObjectRef]]
    hints: dict[MemoryObjectRef, Hint]


class StatisticsStore(Protocol):
    """One collection's statistics. Thread-safe. Everything raises `RetrievalStatsStoreError`."""

    def apply(self, projection: Projection, high: int, applied: int = 0) -> str | None:
        """Record a projection and raise the marks, in one transaction; repeating it changes nothing.

        A state only restricts: suppressed stays suppressed, superseded stays superseded.

        Args:
            projection: what is recorded; perhaps only some of the objects that a commit touched.
            high: the commit as of which the graph was read.
            applied: the commit up to which every one is reflected, this projection included; 0 leaves it.

        Returns:
            The cause for which the store is not to be trusted, None if it is (see `health`).
        """
        ...

    def advance(self, applied: int) -> None:
        """Record that every commit up to `applied` is reflected; lowers neither mark, raises `high` to it."""
        ...

    def cursor(self) -> Cursor:
        """Return the store's place in the commit log."""
        ...

    def counts(self, hubs: Collection[MemoryObjectRef], pairs: Sequence[Pair]) -> Counts:
        """Return how common hubs are, and whether that may be relied on; pairs are read in their order."""
        ...

    def best(
        self,
        hubs: Collection[HubKey],
        scope: CountScope,
        limit: int,
        others: Collection[MemoryObjectRef] = (),
    ) -> Best:
        """Return each hub's best objects in scope: salience, then memory time, both descending, then id.

        A hub without any has no key. Hints at `others` are read along.
        """
        ...

    def hints(self, refs: Collection[MemoryObjectRef]) -> dict[MemoryObjectRef, Hint]:
        """Return what recall needs of the recorded states among `refs`."""
        ...

    def states(self, refs: Collection[MemoryObjectRef]) -> dict[MemoryObjectRef, ObjectState]:
        """Return the recorded states among `refs`."""
        ...

    def scan(self, after: MemoryObjectRef | None, limit: int) -> list[ObjectState]:
        """Page through all states in ref order, starting behind `after`."""
        ...

    def edges_of(self, refs: Collection[MemoryObjectRef]) -> dict[MemoryObjectRef, frozenset[HubEdge]]:
        """Return the recorded edges of each object among `refs`; one without edges has no key."""
        ...

    def health(self, head: int) -> Health:
        """Return the store's health, given the graph's last commit number."""
        ...

    def mark_unhealthy(self, cause: str) -> None:
        """Record why the store is not to be trusted; kept until `rebuild`."""
        ...

    def rebuild(self, projections: Iterable[Projection], applied: int) -> None:
        """Replace everything by `projections`, set the cursor to `applied`, and become healthy.

        The old rows serve until the new ones are complete; what is applied meanwhile goes into both. What
        `projections` raises passes through and leaves the old rows.
        """
        ...

    def close(self) -> None:
        """Release; a second call does nothing."""
        ...
