"""Derive: make vectors and statistics match the graph for some objects (consistency.md R5).

The one function behind commits, replays, sweeps, rebuilds and repairs. It never replays a stored payload:
it reads the graph and makes the derived store equal.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from charactermemory.domain.lifecycle import Stored
from charactermemory.domain.repair import Cause, StatsUpdateStatus
from charactermemory.errors import StoreError
from charactermemory.ids import MemoryObjectRef
from charactermemory.ports.stores import Stores
from charactermemory.upkeep.indexing import (
    Embedded,
    IndexReport,
    Known,
    Reading,
    embed_lacking,
    read_synced,
    synced_head,
    unreadable,
    write_points,
)
from charactermemory.upkeep.projection import MissingEnds, project, wanted_ends

logger = logging.getLogger(__name__)

FLUSH_COMMITS = 32
FLUSH_SECONDS = 2.0
"""The index is flushed, and its `applied` moved, every so many commits or seconds (consistency.md R5)."""

_PENDING = StatsUpdateStatus(status="pending")


@dataclass(frozen=True)
class DeriveReport(IndexReport):
    """What one derive step did and what it could not do.

    Attributes:
        statistics: how the statistics step went.
    """

    statistics: StatsUpdateStatus = field(default_factory=StatsUpdateStatus)


def derive(
    stores: Stores,
    refs: Collection[MemoryObjectRef],
    *,
    known: Known | None = None,
    vectors: bool = True,
    statistics: bool = True,
    isolate: bool = False,
    replay: bool = False,
) -> DeriveReport:
    """Make the derived stores equal to the graph for `refs`. Failures are reported, not raised.

    Args:
        stores: the bundle.
        refs: objects and links that commits wrote or touched.
        known: objects that were just added: their texts need not be read again, nor the index asked for them.
        vectors: whether to write the index now.
        statistics: whether to write the statistics now, if the bundle does not put them off.
        isolate: after a failed batch go on object by object, so that one poison text holds up no other
            (sweeps and repairs); a commit reports its batch whole. In an outage each object would only fail
            again, so the batch's failure stands for all.
        replay: whether a write is repeated to be sure of it; the index's place in the log then moves at once.
    """
    ordered = sorted(set(refs))
    if not ordered:
        return DeriveReport()
    statistics = statistics and not stores.postpone_statistics(ordered)
    report = _derive_once(stores, ordered, known, vectors, statistics)
    poisoned = all(
        failure.cause.cause != "graph_query" and failure.cause.fault != "outage"
        for failure in report.failures
    )
    if report.failures and poisoned and isolate and len(ordered) > 1:
        report = _merged(report, [_derive_once(stores, [ref], None, vectors, False) for ref in ordered])
    if vectors and not report.failures:
        _move_vector_mark(stores, at_once=replay)
    return report


def _derive_once(
    stores: Stores,
    refs: Sequence[MemoryObjectRef],
    known: Known | None,
    vectors: bool,
    statistics: bool,
) -> DeriveReport:
    embedded = embed_lacking(stores, stores.vectors, refs, known) if vectors else Embedded()
    indexed, status = IndexReport(), _PENDING
    with stores.deriving:
        try:
            reading = read_synced(stores, refs)
        except StoreError as error:
            if vectors:
                indexed = unreadable(refs, error, known)
            if statistics:
                status = _statistics_failed(refs, (Cause.of("graph_read", error),))
            return _reported(indexed, status)
        if vectors:
            indexed = write_points(stores.vectors, refs, reading, embedded)
            failed = {ref for failure in indexed.failures for ref in failure.objects}
            stores.vector_ledger.settle([ref for ref in refs if ref not in failed], reading.as_of)
        if statistics:
            status = _write_statistics(stores, refs, reading)
    return _reported(indexed, status)


def _reported(indexed: IndexReport, statistics: StatsUpdateStatus) -> DeriveReport:
    return DeriveReport(indexed.indexed, indexed.deleted, indexed.changed, indexed.failures, statistics)


def _merged(batch: DeriveReport, singles: Sequence[DeriveReport]) -> DeriveReport:
    """Put together what the batch changed before it failed and what its objects then came to singly."""
    changed = {ref for report in (batch, *singles) for ref in report.changed}
    return DeriveReport(
        indexed=tuple(ref for report in singles for ref in report.indexed),
        deleted=tuple(ref for report in singles for ref in report.deleted),
        changed=tuple(sorted(changed)),
        failures=tuple(failure for report in singles for failure in report.failures),
        statistics=batch.statistics,
    )


def _move_vector_mark(stores: Stores, at_once: bool) -> None:
    """Flush the index and move its `applied`, at once or when enough commits or seconds have passed.

    With several processes only the sweeper moves the mark. A mark that cannot be moved stays behind; what it
    speaks of is looked at again by a sweep.
    """
    if stores.shared:
        return
    with stores.deriving:
        applied, ledger = stores.vector_ledger.applied(), stores.vector_ledger
        try:
            ahead = applied - stores.vectors.cursor().applied
            due = at_once or ahead >= FLUSH_COMMITS or ledger.seconds_since_mark() >= FLUSH_SECONDS
            if ahead > 0 and due:
                stores.vectors.flush(applied)
                ledger.marked()
        except StoreError as error:
            logger.warning("the index's place in the log was not written: %s", error)


def _write_statistics(stores: Stores, refs: Sequence[MemoryObjectRef], reading: Reading) -> StatsUpdateStatus:
    causes: list[Cause] = []
    try:
        ends = read_ends(stores.graph.read, reading.stored)
        high = synced_head(stores) if ends else reading.high
    except StoreError as error:
        return _statistics_failed(refs, (Cause.of("graph_read", error),))
    try:
        projection = project(reading.stored.values(), ends)
    except MissingEnds as missing:
        causes.append(Cause.of("graph_read", missing))
        projection = missing.projection
    ledger, settled = stores.statistics_ledger, () if causes else refs
    applied = 0 if stores.shared else ledger.applied_after(settled, reading.as_of)
    try:
        distrusted = stores.statistics.apply(projection, high, applied)
    except StoreError as error:
        causes.append(Cause.of("stats_write", error))
        return _statistics_failed(refs, tuple(causes))
    ledger.settle(settled, reading.as_of)
    if distrusted is not None:
        causes.append(Cause(cause="store_unhealthy", detail=distrusted))
    if causes:
        return _statistics_failed(refs, tuple(causes))
    return StatsUpdateStatus(updated_object_ids=tuple(refs))


def read_ends(
    read: Callable[[Collection[MemoryObjectRef]], Mapping[MemoryObjectRef, Stored]],
    stored: Mapping[MemoryObjectRef, Stored],
) -> dict[MemoryObjectRef, Stored]:
    """Read what a projection of `stored` looks up beside it: link ends, and episodes of observations."""
    ends: dict[MemoryObjectRef, Stored] = {}
    while wanted := wanted_ends(stored.values(), ends) - ends.keys():
        found = read(wanted)
        ends |= found
        if len(found) < len(wanted):
            break
    return ends


def _statistics_failed(refs: Iterable[MemoryObjectRef], causes: tuple[Cause, ...]) -> StatsUpdateStatus:
    return StatsUpdateStatus(status="failed", failed_object_ids=tuple(refs), causes=causes)
