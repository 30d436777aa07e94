"""Derive: make vectors and statistics match the graph for some objects (consistency.md R5).

The one function behind commits, replays, sweeps, rebuilds and repairs. It never replays a stored payload:
it reads the graph and makes the derived store equal. Texts are embedded outside the lock; the lifecycle is
read again inside it, so that a write that lost a race against a forget leaves nothing behind.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from charactermemory.domain.kinds import RetentionState
from charactermemory.domain.lifecycle import Stored
from charactermemory.domain.objects import MemoryObject
from charactermemory.domain.repair import (
    Cause,
    StatsUpdateStatus,
    VectorMaintenanceItem,
    VectorMaintenanceOperation,
)
from charactermemory.errors import (
    CollectionIncompatible,
    EmbeddingError,
    StoreError,
)
from charactermemory.ids import MemoryObjectRef
from charactermemory.ports.embedding import Vector
from charactermemory.ports.graph import GraphStore
from charactermemory.ports.stores import Stores
from charactermemory.ports.vectors import Surface, VectorRecord
from charactermemory.upkeep.projection import MissingEnds, project, wanted_ends
from charactermemory.upkeep.surfaces import INDEXED_TYPES, surface_of

READ_IS_FRESH_SECONDS = 30.0
"""A derived write rests on a graph read at most this old (consistency.md R5, service form)."""
FLUSH_COMMITS = 32
FLUSH_SECONDS = 2.0
"""The index is flushed, and its `applied` moved, every so many commits or seconds (consistency.md R5)."""


class IndexTarget(Protocol):
    """Where vectors are written: the serving index, or a rebuild beside it."""

    def present(self, refs: Sequence[MemoryObjectRef]) -> dict[MemoryObjectRef, str]:
        """Return the stored embedding text of those refs that have a point."""
        ...

    def write(self, upserts: Sequence[VectorRecord], deletes: Sequence[MemoryObjectRef], high: int) -> None:
        """Write points."""
        ...


_PENDING = StatsUpdateStatus(status="pending")


@dataclass(frozen=True)
class DeriveReport:
    """What one derive step did and what it could not do.

    Attributes:
        indexed: current objects that now stand in the index, written or already there.
        deleted: objects that now stand outside it because they are absent, suppressed or superseded.
        changed: those of both that were not so before.
        failures: index operations that failed.
        statistics: how the statistics step went.
    """

    indexed: tuple[MemoryObjectRef, ...] = ()
    deleted: tuple[MemoryObjectRef, ...] = ()
    changed: tuple[MemoryObjectRef, ...] = ()
    failures: tuple[VectorMaintenanceItem, ...] = ()
    statistics: StatsUpdateStatus = field(default_factory=StatsUpdateStatus)


def derive(
    stores: Stores,
    refs: Collection[MemoryObjectRef],
    *,
    known: Mapping[MemoryObjectRef, MemoryObject] | None = None,
    vectors: bool = True,
    statistics: bool = True,
    isolate: bool = False,
) -> DeriveReport:
    """Make the derived stores equal to the graph for `refs`. Failures are reported, not raised.

    Args:
        stores: the bundle.
        refs: objects and links that commits wrote or touched.
        known: objects just written, whose texts need not be read again.
        vectors: whether to write the index now.
        statistics: whether to write the statistics now.
        isolate: after a failed batch go on object by object, so that one poison text holds up no other
            (sweeps and repairs); a commit reports its batch whole.
    """
    ordered = sorted(set(refs))
    report = _derive_once(stores, ordered, known, vectors, statistics)
    if report.failures and isolate and len(ordered) > 1:
        singles = [_derive_once(stores, [ref], None, vectors, False) for ref in ordered]
        report = _merged(singles, report.statistics)
    if vectors and not report.failures:
        _move_vector_mark(stores)
    return report


def index(stores: Stores, target: IndexTarget, refs: Sequence[MemoryObjectRef]) -> DeriveReport:
    """Make `target` (an index or a rebuild) equal to the graph for `refs`; statistics are left alone."""
    embedded = _embed_lacking(stores, target, refs, None)
    with stores.deriving:
        try:
            state = _read(stores, refs)
        except StoreError as error:
            return _failed(refs, _cause(error), VectorMaintenanceOperation.UPSERT)
        return _write_vectors(target, refs, state, embedded)


@dataclass(frozen=True)
class _State:
    """What the graph said, when, and as of which commit at least."""

    stored: Mapping[MemoryObjectRef, Stored]
    as_of: int
    read_at: float

    @property
    def fresh(self) -> bool:
        return time.monotonic() - self.read_at <= READ_IS_FRESH_SECONDS


@dataclass(frozen=True)
class _Embedded:
    """Vectors by text; or why there are none, and whose."""

    vectors: Mapping[str, Vector] = field(default_factory=dict)
    cause: Cause | None = None
    lacking: tuple[MemoryObjectRef, ...] = ()


def _derive_once(
    stores: Stores,
    refs: Sequence[MemoryObjectRef],
    known: Mapping[MemoryObjectRef, MemoryObject] | None,
    vectors: bool,
    statistics: bool,
) -> DeriveReport:
    embedded = _embed_lacking(stores, stores.vectors, refs, known) if vectors else _Embedded()
    with stores.deriving:
        try:
            state = _read(stores, refs)
        except StoreError as error:
            failures = _failed(_indexable(refs), _cause(error), VectorMaintenanceOperation.UPSERT).failures
            status = _statistics_failed(refs, (Cause.of("graph_read", error),))
            return DeriveReport(
                failures=failures if vectors else (), statistics=status if statistics else _PENDING
            )
        report = DeriveReport()
        if vectors:
            report = _write_vectors(stores.vectors, refs, state, embedded)
            failed = {ref for failure in report.failures for ref in failure.objects}
            stores.vector_ledger.settle([ref for ref in refs if ref not in failed], state.as_of)
        status = _write_statistics(stores, refs, state) if statistics else _PENDING
    return DeriveReport(report.indexed, report.deleted, report.changed, report.failures, status)


def _read(stores: Stores, refs: Sequence[MemoryObjectRef]) -> _State:
    """Read lifecycle and content, then make durable what was read, so no derived store runs ahead of it."""
    as_of = stores.graph.head()
    state = _State(stores.graph.read(refs), as_of, time.monotonic())
    stores.graph.sync()
    return state


def _embed_lacking(
    stores: Stores,
    target: IndexTarget,
    refs: Sequence[MemoryObjectRef],
    known: Mapping[MemoryObjectRef, MemoryObject] | None,
) -> _Embedded:
    """Embed the texts that `target` lacks, before any lock is taken."""
    indexable = _indexable(refs)
    if not indexable:
        return _Embedded()
    try:
        objects = dict(known or {})
        unread = [ref for ref in indexable if ref not in objects]
        objects |= {ref: item.object for ref, item in stores.graph.read(unread).items() if item.current}
        surfaces = [surface for ref in indexable if (surface := _surface(objects.get(ref))) is not None]
        present = target.present([surface.ref for surface in surfaces])
    except StoreError as error:
        return _Embedded(cause=_cause(error), lacking=tuple(indexable))
    lacking = [surface for surface in surfaces if present.get(surface.ref) != surface.embedding_text]
    try:
        return _Embedded(_embed(stores, lacking))
    except _Unembeddable as problem:
        return _Embedded(cause=problem.cause, lacking=tuple(surface.ref for surface in lacking))


def _surface(item: MemoryObject | None) -> Surface | None:
    if item is None or getattr(item, "retention_state", None) is RetentionState.SUPPRESSED:
        return None
    return surface_of(item)


def _write_vectors(
    target: IndexTarget, refs: Sequence[MemoryObjectRef], state: _State, embedded: _Embedded
) -> DeriveReport:
    indexable = _indexable(refs)
    wanted = {ref: surface for ref in indexable if (surface := _wanted(state.stored.get(ref))) is not None}
    failures: list[VectorMaintenanceItem] = []
    if embedded.cause is not None:
        lost = [ref for ref in embedded.lacking if ref in wanted]
        failures += _failed(lost, embedded.cause, VectorMaintenanceOperation.UPSERT).failures
    try:
        present = target.present(indexable)
    except StoreError as error:
        lost = [ref for ref in indexable if ref not in embedded.lacking]
        more = _failed(lost, _cause(error), VectorMaintenanceOperation.UPSERT).failures
        return DeriveReport(failures=(*failures, *more))
    there = [ref for ref, surface in wanted.items() if present.get(ref) == surface.embedding_text]
    upserts = [
        VectorRecord(surface, embedded.vectors[surface.embedding_text])
        for ref, surface in wanted.items()
        if ref not in there and surface.embedding_text in embedded.vectors
    ]
    unwanted = [ref for ref in indexable if ref not in wanted]
    deleted, failed = _attempt(target, (), unwanted, state, VectorMaintenanceOperation.DELETE)
    failures += failed
    indexed, failed = _attempt(target, upserts, (), state, VectorMaintenanceOperation.UPSERT)
    failures += failed
    changed = [*(ref for ref in deleted if ref in present), *indexed]
    return DeriveReport(
        indexed=tuple(sorted([*there, *indexed])),
        deleted=tuple(sorted(deleted)),
        changed=tuple(sorted(changed)),
        failures=tuple(failures),
    )


def _attempt(
    target: IndexTarget,
    upserts: Sequence[VectorRecord],
    deletes: Sequence[MemoryObjectRef],
    state: _State,
    operation: VectorMaintenanceOperation,
) -> tuple[list[MemoryObjectRef], tuple[VectorMaintenanceItem, ...]]:
    refs = [*deletes, *(record.surface.ref for record in upserts)]
    if not refs:
        return [], ()
    if not state.fresh:
        stale = Cause(
            cause="graph_query", detail="the graph read this write rests on is too old; it is tried again"
        )
        return [], _failed(refs, stale, operation).failures
    try:
        target.write(upserts, deletes, state.as_of)
    except StoreError as error:
        return [], _failed(refs, _cause(error), operation).failures
    return refs, ()


def _wanted(stored: Stored | None) -> Surface | None:
    return surface_of(stored.object) if stored is not None and stored.current else None


def _indexable(refs: Iterable[MemoryObjectRef]) -> list[MemoryObjectRef]:
    return [ref for ref in refs if ref.object_type in INDEXED_TYPES]


def _merged(reports: Sequence[DeriveReport], statistics: StatsUpdateStatus) -> DeriveReport:
    return DeriveReport(
        indexed=tuple(ref for report in reports for ref in report.indexed),
        deleted=tuple(ref for report in reports for ref in report.deleted),
        changed=tuple(ref for report in reports for ref in report.changed),
        failures=tuple(failure for report in reports for failure in report.failures),
        statistics=statistics,
    )


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
            values = dict(error.details)
            mismatch = Cause(
                cause="cardinality_mismatch",
                code=error.code,
                detail=str(error),
                expected=values.get("expected"),
                actual=values.get("actual"),
            )
            raise _Unembeddable(mismatch) from error
        raise _Unembeddable(Cause.of("embedding", error)) from error
    made = dict(zip(texts, vectors, strict=True))
    for surface in surfaces:
        if not any(made[surface.embedding_text]):
            zero = Cause(cause="zero_norm_embedding", detail="all components are zero", object=surface.ref)
            raise _Unembeddable(zero)
    return made


def _move_vector_mark(stores: Stores) -> None:
    """Flush the index and move its `applied`, once enough commits or seconds have passed.

    With several processes only the sweeper moves the mark.
    """
    if stores.shared:
        return
    with stores.deriving:
        applied, marked = stores.vector_ledger.applied(), stores.vectors.cursor().applied
        if applied <= marked:
            return
        if applied - marked >= FLUSH_COMMITS or stores.vector_ledger.seconds_since_mark() >= FLUSH_SECONDS:
            stores.vectors.flush(applied)
            stores.vector_ledger.marked()


def _write_statistics(stores: Stores, refs: Sequence[MemoryObjectRef], state: _State) -> StatsUpdateStatus:
    causes: list[Cause] = []
    try:
        ends = read_ends(stores.graph, state.stored)
    except StoreError as error:
        return _statistics_failed(refs, (Cause.of("graph_read", error),))
    try:
        projection = project(state.stored.values(), ends)
    except MissingEnds as missing:
        causes.append(Cause.of("graph_read", missing))
        projection = missing.projection
    try:
        stores.statistics.apply(projection, state.as_of)
        if not causes:
            stores.statistics_ledger.settle(refs, state.as_of)
        if not stores.shared:
            stores.statistics.advance(stores.statistics_ledger.applied())
        health = stores.statistics.health(state.as_of)
    except StoreError as error:
        causes.append(Cause.of("stats_write", error))
        return _statistics_failed(refs, tuple(causes))
    if health.state == "unhealthy":
        causes.append(Cause(cause="store_unhealthy", detail=health.cause or ""))
    if causes:
        return _statistics_failed(refs, tuple(causes))
    return StatsUpdateStatus(updated_object_ids=tuple(refs))


def read_ends(graph: GraphStore, stored: Mapping[MemoryObjectRef, Stored]) -> dict[MemoryObjectRef, Stored]:
    """Read what a projection of `stored` looks up beside it: link ends, and episodes of observations."""
    ends: dict[MemoryObjectRef, Stored] = {}
    while wanted := wanted_ends(stored.values(), ends) - ends.keys():
        found = graph.read(wanted)
        ends |= found
        if len(found) < len(wanted):
            break
    return ends


def _statistics_failed(refs: Iterable[MemoryObjectRef], causes: tuple[Cause, ...]) -> StatsUpdateStatus:
    return StatsUpdateStatus(status="failed", failed_object_ids=tuple(refs), causes=causes)


def _failed(
    refs: Sequence[MemoryObjectRef], cause: Cause, operation: VectorMaintenanceOperation
) -> DeriveReport:
    if not refs:
        return DeriveReport()
    item = VectorMaintenanceItem(operation=operation, objects=tuple(sorted(refs)), cause=cause)
    return DeriveReport(failures=(item,))


def _cause(error: StoreError) -> Cause:
    vectors = error.code == "vector_database" or isinstance(error, CollectionIncompatible)
    return Cause.of("vector_database" if vectors else "graph_query", error)
