"""Indexing: what a vector index lacks of the graph, and what it holds too much (consistency.md R5).

Texts are embedded before any lock is taken. The lifecycle is read again under the derive lock, so that a
write that lost a race against a forget leaves nothing behind.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from charactermemory.domain.kinds import RetentionState
from charactermemory.domain.lifecycle import Stored
from charactermemory.domain.objects import MemoryObject
from charactermemory.domain.repair import Cause, VectorMaintenanceItem, VectorMaintenanceOperation
from charactermemory.errors import EmbeddingError, StoreError
from charactermemory.ids import MemoryObjectRef
from charactermemory.ports.embedding import Vector
from charactermemory.ports.stores import Stores
from charactermemory.ports.vectors import Surface, VectorRecord
from charactermemory.upkeep.surfaces import INDEXED_TYPES, surface_of

READ_IS_FRESH_SECONDS = 30.0
"""A derived write rests on a graph read at most this old with servers."""

DELETE, UPSERT = VectorMaintenanceOperation.DELETE, VectorMaintenanceOperation.UPSERT
_LATE = Cause(cause="graph_query", detail="stored while others were embedded; it is derived again")

Known = Mapping[MemoryObjectRef, MemoryObject]
"""Objects just written, whose texts need not be read again."""


class IndexTarget(Protocol):
    """Where vectors are written: the serving index, or a rebuild beside it."""

    def present(self, refs: Sequence[MemoryObjectRef]) -> dict[MemoryObjectRef, str]:
        """Return the stored embedding text of those refs that have a point."""
        ...

    def write(self, upserts: Sequence[VectorRecord], deletes: Sequence[MemoryObjectRef], high: int) -> None:
        """Write points."""
        ...


@dataclass(frozen=True)
class IndexReport:
    """What an index came to, and what it could not.

    Attributes:
        indexed: current objects that now stand in the index, written or already there.
        deleted: objects that now stand outside it because they are absent, suppressed or superseded.
        changed: those of both that were not so before.
        failures: index operations that failed.
    """

    indexed: tuple[MemoryObjectRef, ...] = ()
    deleted: tuple[MemoryObjectRef, ...] = ()
    changed: tuple[MemoryObjectRef, ...] = ()
    failures: tuple[VectorMaintenanceItem, ...] = ()


@dataclass(frozen=True)
class Reading:
    """What the graph said, and when (monotonic seconds).

    Commits land while it is read: it holds all up to `as_of`, perhaps some up to `high`, and none after that.
    """

    stored: Mapping[MemoryObjectRef, Stored]
    as_of: int
    high: int
    read_at: float

    @property
    def fresh(self) -> bool:
        """Whether a derived write may still rest on it."""
        return time.monotonic() - self.read_at <= READ_IS_FRESH_SECONDS


@dataclass(frozen=True)
class Embedded:
    """Vectors by text; `lacking` are the objects that got none, because of `cause`.

    `fresh` are the surfaces, if any, of objects that were just written: the index cannot have them yet.
    """

    vectors: Mapping[str, Vector] = field(default_factory=dict)
    lacking: frozenset[MemoryObjectRef] = frozenset()
    cause: Cause = _LATE
    fresh: Mapping[MemoryObjectRef, Surface | None] = field(default_factory=dict)


def index(stores: Stores, target: IndexTarget, refs: Sequence[MemoryObjectRef]) -> IndexReport:
    """Make `target` (an index or a rebuild) equal to the graph for `refs`."""
    embedded = embed_lacking(stores, target, refs)
    with stores.deriving:
        try:
            reading = read_synced(stores, refs)
        except StoreError as error:
            return unreadable(refs, error)
        return write_points(target, refs, reading, embedded)


def read_synced(stores: Stores, refs: Sequence[MemoryObjectRef]) -> Reading:
    """Read lifecycle and content, then make durable what was read, so no derived store runs ahead of it.

    Raises:
        StoreError: the graph could not be read or synced.
    """
    as_of, read_at = stores.graph.head(), time.monotonic()
    stored = stores.graph.read(refs)
    return Reading(stored, as_of, synced_head(stores), read_at)


def synced_head(stores: Stores) -> int:
    """Return the greatest commit that what was read so far may hold, once it is durable.

    Raises:
        StoreError: the graph could not be read or synced.
    """
    high = stores.graph.head()
    stores.graph.sync()
    return high


def embed_lacking(
    stores: Stores, target: IndexTarget, refs: Sequence[MemoryObjectRef], known: Known | None = None
) -> Embedded:
    """Embed the texts of current objects that `target` lacks. Failures are reported, not raised."""
    candidates, written = _indexable(refs), known or {}
    if not candidates:
        return Embedded()
    fresh = {ref: _surface(written[ref]) for ref in candidates if ref in written}
    stored = [ref for ref in candidates if ref not in written]
    try:
        current = {ref: item.object for ref, item in stores.graph.read(stored).items() if item.current}
    except StoreError as error:
        return Embedded(lacking=frozenset(candidates), cause=Cause.of("graph_query", error))
    surfaces = {ref: surface for ref, item in current.items() if (surface := _surface(item)) is not None}
    try:
        present = target.present(list(surfaces))
    except StoreError as error:
        return Embedded(lacking=frozenset(candidates), cause=Cause.of("vector_database", error))
    lacking = {ref: item for ref, item in surfaces.items() if present.get(ref) != item.embedding_text}
    lacking |= {ref: surface for ref, surface in fresh.items() if surface is not None}
    try:
        return Embedded(_embed(stores, list(lacking.values())), fresh=fresh)
    except _Unembeddable as problem:
        return Embedded(lacking=frozenset(lacking), cause=problem.cause)


def write_points(
    target: IndexTarget, refs: Sequence[MemoryObjectRef], reading: Reading, embedded: Embedded
) -> IndexReport:
    """Delete what the graph no longer has as current, then write what was embedded; call under the lock."""
    candidates = _indexable(refs)
    outside = {ref for ref in candidates if not _current(reading.stored.get(ref))}
    fresh = embedded.fresh.keys() - outside
    surfaces = {
        ref: embedded.fresh[ref] if ref in fresh else surface_of(reading.stored[ref].object)
        for ref in candidates
        if ref not in outside
    }
    wanted = {ref: surface for ref, surface in surfaces.items() if surface is not None}
    try:
        present = target.present([ref for ref in candidates if ref not in fresh])
    except StoreError as error:
        cause = Cause.of("vector_database", error)
        return IndexReport(failures=(*_failed(outside, cause, DELETE), *_failed(wanted, cause, UPSERT)))
    there = {ref for ref, surface in wanted.items() if present.get(ref) == surface.embedding_text}
    ready = {
        ref
        for ref, surface in wanted.items()
        if surface.embedding_text in embedded.vectors and ref not in there
    }
    unready = wanted.keys() - there - ready
    unwanted = [ref for ref in candidates if ref in present and ref not in wanted]
    upserts = [
        VectorRecord(wanted[ref], embedded.vectors[wanted[ref].embedding_text]) for ref in sorted(ready)
    ]
    not_deleted = _attempt(target, (), unwanted, reading)
    not_written = _attempt(target, upserts, (), reading)
    deleted = () if not_deleted else unwanted
    written = () if not_written else ready
    return IndexReport(
        indexed=tuple(sorted({*there, *written})),
        deleted=tuple(sorted({*(outside - present.keys()), *deleted})),
        changed=tuple(sorted({*deleted, *written})),
        failures=(
            *_failed(unready & embedded.lacking, embedded.cause, UPSERT),
            *_failed(unready - embedded.lacking, _LATE, UPSERT),
            *not_deleted,
            *not_written,
        ),
    )


def unreadable(refs: Sequence[MemoryObjectRef], error: StoreError, known: Known | None = None) -> IndexReport:
    """Report that the graph could not say which of `refs` are current; what has no text is left out."""
    texts = known or {}
    lost = [ref for ref in _indexable(refs) if ref not in texts or _surface(texts[ref]) is not None]
    return IndexReport(failures=_failed(lost, Cause.of("graph_query", error), UPSERT))


def _attempt(
    target: IndexTarget,
    upserts: Sequence[VectorRecord],
    deletes: Sequence[MemoryObjectRef],
    reading: Reading,
) -> tuple[VectorMaintenanceItem, ...]:
    refs = [*deletes, *(record.surface.ref for record in upserts)]
    operation = DELETE if deletes else UPSERT
    if not refs:
        return ()
    if not reading.fresh:
        detail = "the graph read this write rests on is too old; it is tried again"
        return _failed(refs, Cause(cause="graph_query", detail=detail), operation)
    try:
        target.write(upserts, deletes, reading.high)
    except StoreError as error:
        return _failed(refs, Cause.of("vector_database", error), operation)
    return ()


def _indexable(refs: Iterable[MemoryObjectRef]) -> list[MemoryObjectRef]:
    return [ref for ref in refs if ref.object_type in INDEXED_TYPES]


def _surface(item: MemoryObject) -> Surface | None:
    suppressed = getattr(item, "retention_state", None) is RetentionState.SUPPRESSED
    return None if suppressed else surface_of(item)


def _current(stored: Stored | None) -> bool:
    return stored is not None and stored.current


def _failed(
    refs: Collection[MemoryObjectRef], cause: Cause, operation: VectorMaintenanceOperation
) -> tuple[VectorMaintenanceItem, ...]:
    if not refs:
        return ()
    return (VectorMaintenanceItem(operation=operation, objects=tuple(sorted(refs)), cause=cause),)


class _Unembeddable(Exception):
    def __init__(self, cause: Cause) -> None:
        super().__init__(cause.cause)
        self.cause = cause


def _embed(stores: Stores, surfaces: Sequence[Surface]) -> dict[str, Vector]:
    """Embed the distinct texts of `surfaces` in one batch."""
    texts = list(dict.fromkeys(surface.embedding_text for surface in surfaces))
    if not texts:
        return {}
    try:
        vectors = stores.embedder.bulk_generate_embeddings(texts)
    except EmbeddingError as error:
        if error.kind == "count_mismatch":
            mismatch = Cause.of("cardinality_mismatch", error)
            raise _Unembeddable(mismatch.replace(**dict(error.details))) from error
        raise _Unembeddable(Cause.of("embedding", error)) from error
    made = dict(zip(texts, vectors, strict=True))
    for surface in surfaces:
        if not any(made[surface.embedding_text]):
            zero = Cause(cause="zero_norm_embedding", detail="all components are zero", object=surface.ref)
            raise _Unembeddable(zero)
    return made
