"""The graph port: the authority on existence, links, currency and lifecycle (DESIGN R2-R4).

A collection's graph only grows (consistency.md R4). Every write is one numbered, guarded insert; every
read is set-based, and every read of a node's neighbours is capped inside the store.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, Protocol

from charactermemory.domain.kinds import RelationType
from charactermemory.domain.lifecycle import LifecycleEvent, Stored
from charactermemory.domain.objects import MemoryObject
from charactermemory.ids import MemoryId, MemoryObjectRef

Operation = Literal["commit", "link", "correct", "forget"]

MAX_OBJECTS = 500
"""Objects and links one commit may bring; about one second of work (consistency.md R4)."""
MAX_CASCADE = 10_000
"""Objects one forget or correct may change (decisions R10)."""


@dataclass(frozen=True, slots=True)
class WriteBatch:
    """What one commit adds.

    Attributes:
        operation: which use case writes.
        plan_digest: digest of the plan or draft, kept in the receipt.
        at: when, kept in the receipt.
        objects: objects and links to store; those already stored with the same digest are replays.
        event: the forget or correct event, if the operation leaves one.
        requires: references that must be stored for the write to be sound, with the role that names them.
        touched: stored objects, beyond those written, whose derived state changes (predecessors, suppressed).
    """

    operation: Operation
    plan_digest: str
    at: datetime
    objects: tuple[MemoryObject, ...] = ()
    event: LifecycleEvent | None = None
    requires: tuple[tuple[str, MemoryObjectRef], ...] = ()
    touched: tuple[MemoryObjectRef, ...] = ()


@dataclass(frozen=True, slots=True)
class Receipt:
    """The record of one commit: its number and every object whose derived state it may have changed."""

    token: int
    operation: Operation
    at: datetime
    objects: tuple[MemoryObjectRef, ...]


class Edge(NamedTuple):
    """One relation triple; however many links assert it, it counts once."""

    source: MemoryObjectRef
    relation: RelationType
    target: MemoryObjectRef

    def other(self, node: MemoryObjectRef) -> MemoryObjectRef:
        """The end that is not `node`."""
        return self.target if self.source == node else self.source


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """The edges that touch one node, in either direction.

    `capped` holds the (relation, outgoing) reads that met the cap: there is more than was read. `turns` holds,
    of an episode, the observation at each position that was asked for and is taken; their edges are among
    `edges`, whatever the cap.
    """

    edges: tuple[Edge, ...] = ()
    capped: frozenset[tuple[RelationType, bool]] = field(default_factory=frozenset)
    turns: Mapping[int, MemoryObjectRef] = field(default_factory=dict)


class Place(NamedTuple):
    """Where an observation stands, and the notion that spoke it, if any.

    Where speakers were not asked for, None tells nothing.
    """

    episode: MemoryObjectRef
    position: int
    speaker: MemoryObjectRef | None = None


Spot = tuple[MemoryObjectRef, int]
"""An episode and a position in it."""


class GraphWriter(Protocol):
    """The right to write, held. Reads made while holding it see the state the write will meet."""

    @property
    def token(self) -> int:
        """The number this write will carry."""
        ...

    @property
    def added(self) -> Collection[MemoryObjectRef]:
        """What `apply` has added; objects of its batch that were stored already are not among it."""
        ...

    def apply(self, batch: WriteBatch) -> int | None:
        """Write the batch, whole or not at all, and return its token.

        Returns None, and writes nothing, if the batch brings no event and all its objects are already
        stored equal (a replay).

        Raises:
            UnsupportedSchemaVersion: before anything else, an object of another schema version.
            PlanTooLarge: more than `MAX_OBJECTS` objects, or too many triples.
            DeterministicIdCollision: an id is stored, or twice in the batch, with another content, or was
                suppressed since.
            UnknownObjectRef: something in `requires` is not stored and not in the batch.
            DuplicatePosition: an observation's position is taken in its episode.
            StoreUnavailable, CommitOutcomeUnknown, DatabaseError: the store failed; see their texts.
        """
        ...


class GraphStore(Protocol):
    """One collection's graph. Thread-safe.

    Reads raise `GraphQueryError` (selection, hydration), `StoredConflict` (one id, two digests),
    `StoreUnavailable`, `StoreClosedError`, `StoreForkedError`. Empty input selects nothing.
    """

    @property
    def collection(self) -> str:
        """The collection's name."""
        ...

    def writing(self) -> AbstractContextManager[GraphWriter]:
        """Take the writer lock; on leaving, release it and make what was applied durable.

        Not re-entrant. Covers graph reads and the one update, never embedding or derived stores.

        Raises:
            StoreUnavailable: the lock was not free within 10 s.
        """
        ...

    def sync(self) -> None:
        """Make everything applied so far durable; cheap when nothing is pending."""
        ...

    def head(self) -> int:
        """Return the number of the last commit; 0 for an empty graph."""
        ...

    def settled(self) -> int:
        """Return the last commit that the writer lock knows to be stored; 0 where it keeps no memory.

        A head below it means that the graph went back (consistency.md R5).
        """
        ...

    def receipts(self, after: int, upto: int) -> list[Receipt]:
        """Return the receipts numbered in (after, upto], ascending, asked for by name; gaps are left out."""
        ...

    def read(self, refs: Collection[MemoryObjectRef], anew: bool = False) -> dict[MemoryObjectRef, Stored]:
        """Return the stored objects among `refs` with digest and lifecycle, all from one snapshot.

        Contents too, unless one is known that has the digest found there: under it nothing ever changes. With
        `anew` every content is read, whatever is known of it.
        """
        ...

    def existing(self, refs: Collection[MemoryObjectRef], anew: bool = False) -> set[MemoryObjectRef]:
        """Return those of `refs` that are stored.

        What was met before is taken to be there still, for a graph only grows, and a write asks once more
        under the lock. With `anew` the store is asked about each.
        """
        ...

    def notions_known_as(self, names: Collection[str]) -> dict[str, tuple[MemoryId, ...]]:
        """Return, by normalised name, the sorted notions that a current belief names so; no bearer, no key."""
        ...

    def names_of(self, notions: Collection[MemoryId]) -> dict[MemoryId, tuple[str, ...]]:
        """Return the spellings under which current beliefs know each notion, sorted; none, no key."""
        ...

    def observed_from(self, raw_refs: Collection[str]) -> set[str]:
        """Return those of `raw_refs` that some observation carries, whatever its lifecycle."""
        ...

    def memories_from(
        self, episode_ids: Collection[MemoryId], observation_ids: Collection[MemoryId]
    ) -> tuple[MemoryId, ...]:
        """Return the sorted derived memories that rest on any of these sources, whatever their lifecycle.

        By their own source lists or by derived_from links in either direction. Complete, paged inside.
        """
        ...

    def observations_of(self, episode_ids: Collection[MemoryId]) -> tuple[MemoryId, ...]:
        """Return the sorted observations of these episodes, whatever their lifecycle. Complete."""
        ...

    def members_of(self, thread_id: MemoryId) -> tuple[MemoryId, ...]:
        """Return the sorted derived memories whose own thread_ids name the thread. Complete."""
        ...

    def neighbours(
        self,
        nodes: Collection[MemoryObjectRef],
        relations: Collection[RelationType],
        cap: int,
        turns: Collection[Spot] = (),
        sparing: Collection[tuple[MemoryObjectRef, RelationType]] = (),
    ) -> dict[MemoryObjectRef, Neighbourhood]:
        """Return the edges touching each node, in one round trip.

        At most `cap` + 1 edges are read per (node, relation, direction); the one over tells that there is more
        and is left out. `turns` are positions in episodes among the nodes, looked up exactly.
        `sparing` are (node, relation) pairs of which the caller knows a better choice: where more than `cap`
        edges come in, `capped` says so and none is returned, nor read once that is known.
        """
        ...

    def places(
        self, observations: Collection[MemoryObjectRef], speakers: bool = False
    ) -> dict[MemoryObjectRef, Place]:
        """Return where each observation stands, with `speakers` who spoke it; one not stored has no key."""
        ...

    def turns(self, spots: Collection[Spot]) -> dict[Spot, MemoryObjectRef]:
        """Return the observation at each position in an episode that has one."""
        ...

    def link_ids(self, edges: Collection[Edge]) -> dict[Edge, tuple[MemoryId, ...]]:
        """Return the ids of the link nodes that assert each edge, sorted; a field's edge may have none."""
        ...

    def scan(self, after: str | None, limit: int) -> tuple[list[MemoryObjectRef], str | None]:
        """Page through every object and link, each once, in a stable order.

        `after` is what the previous page returned second, None at the start; a second value of None ends.
        """
        ...

    def raise_head(self, token: int) -> None:
        """Add a fence at `token`, so that every later commit is numbered above it.

        For a graph that went back behind what a derived store has seen (consistency.md R5).
        """
        ...

    def export(self) -> Iterator[bytes]:
        """Yield the collection's graph as N-Quads lines, sorted, with receipts, events and fences."""
        ...

    def load(self, file: BinaryIO) -> int:
        """Add every triple of a TriG file with one graph, an export; return their number. For an empty graph.

        The receipts come last, so a load that was cut off left no commit and is repeated.

        Raises:
            InvalidInput: the file is no TriG, or holds more than one graph.
        """
        ...

    def backup(self, folder: Path) -> bool:
        """Copy the store into `folder`, which must not exist, as of one moment, while it serves.

        False, and nothing done, where the engine is another process with means of its own.
        """
        ...

    def close(self) -> None:
        """Release the store; a second call does nothing."""
        ...
