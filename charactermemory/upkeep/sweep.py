"""Sweep: catch the derived stores up with the commits they have not yet reflected (consistency.md R5)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta

from charactermemory.domain.lifecycle import References
from charactermemory.domain.model import Model
from charactermemory.domain.repair import RepairMarkers, StatsUpdateMarker, VectorMaintenanceMarker
from charactermemory.ids import MemoryObjectRef
from charactermemory.ports.graph import Receipt
from charactermemory.ports.stores import Stores
from charactermemory.upkeep.derive import DeriveReport, derive
from charactermemory.upkeep.reading import sliced
from charactermemory.upkeep.verify import VerifyReport, recover, went_back

SWEEP_COMMITS = 100
"""Commits derived in one step; bounds memory and the time other writers wait."""
SETTLED_AGE = timedelta(seconds=60)
"""With several processes a commit is passed only when it is this old."""


class SweepReport(Model):
    """What a sweep did.

    Attributes:
        commits: commits looked at.
        repaired: objects that a derived store did not have as the graph says, and now has.
        repair_needed: what still failed.
        vector_backlog: commits the index does not yet reflect, after the sweep.
        statistics_backlog: the same for the statistics.
        verified: the check of the whole, where the graph had gone back.
    """

    commits: int = 0
    repaired: References = ()
    repair_needed: RepairMarkers = ()
    vector_backlog: int = 0
    statistics_backlog: int = 0
    verified: VerifyReport | None = None

    @property
    def complete(self) -> bool:
        """Whether nothing is left to repair."""
        return not self.repair_needed and not (self.verified and self.verified.left)


@dataclass
class _Mark:
    """How far one derived store's place may move; it stops before the first commit it lacks."""

    applied: int
    stopped: bool = False

    def pass_over(self, token: int, equal: bool) -> None:
        if token <= self.applied:
            return
        if not equal:
            self.stopped = True
        if not self.stopped:
            self.applied = token


def sweep(
    stores: Stores,
    parked: Collection[MemoryObjectRef] = (),
    waiting: Collection[MemoryObjectRef] = (),
) -> SweepReport:
    """Derive every commit that a derived store does not yet reflect, and move its mark.

    In one process a commit is passed as soon as its objects are derived. With several, only when it is 60 s
    old and its objects were found equal without a change, so that no late write of another process can undo
    what the mark says. A graph that went back is verified and repaired as a whole first;
    while that does not succeed, nothing else is done.

    Args:
        stores: the bundle.
        parked: objects that the index cannot hold for a permanent cause; they are not tried and hold up no mark.
        waiting: objects whose index entry a repair queue tries by its own schedule; they are not tried here
            and hold the mark up, parked ones among them too.

    Raises:
        StoreError: a store could not be read, or its mark not be written.
    """
    verified = recover(stores)
    if verified is not None and went_back(stores) is not None:
        return SweepReport(verified=verified)
    vectors = _Mark(stores.vectors.cursor().applied)
    statistics = _Mark(stores.statistics.cursor().applied)
    head = stores.graph.head()
    low = min(vectors.applied, statistics.applied)
    left = {*parked, *waiting}
    commits, repaired, markers = 0, set[MemoryObjectRef](), []
    while low < head:
        upto = min(low + SWEEP_COMMITS, head)
        receipts = stores.graph.receipts(low, upto)
        reports = _derive_receipts(stores, receipts, left)
        commits += len(receipts)
        for report in reports:
            repaired |= set(report.changed)
            markers += _markers(report)
        _advance(stores, receipts, reports, set(waiting), vectors, statistics)
        for mark in (vectors, statistics):
            if not mark.stopped:
                mark.applied = max(mark.applied, upto)
        low = upto
    _write_marks(stores, vectors.applied, statistics.applied)
    return SweepReport(
        commits=commits,
        repaired=tuple(sorted(repaired)),
        repair_needed=tuple(markers),
        vector_backlog=head - vectors.applied,
        statistics_backlog=head - statistics.applied,
        verified=verified,
    )


def _derive_receipts(
    stores: Stores, receipts: list[Receipt], left: Collection[MemoryObjectRef]
) -> list[DeriveReport]:
    """Derive what the receipts name, a page at a time, however many objects each commit touched."""
    refs = sorted({ref for receipt in receipts for ref in receipt.objects})
    untried = [ref for ref in refs if ref in left]
    tried = [ref for ref in refs if ref not in left]
    return [
        *(derive(stores, part, isolate=True) for part in sliced(tried)),
        *(derive(stores, part, vectors=False) for part in sliced(untried)),
    ]


def _advance(
    stores: Stores,
    receipts: list[Receipt],
    reports: list[DeriveReport],
    waiting: Collection[MemoryObjectRef],
    vectors: _Mark,
    statistics: _Mark,
) -> None:
    unequal = {ref for report in reports for failure in report.failures for ref in failure.objects}
    unequal |= set(waiting)
    if stores.shared:
        unequal |= {ref for report in reports for ref in report.changed}
    counted = all(report.statistics.status == "succeeded" for report in reports)
    for receipt in receipts:
        old_enough = not stores.shared or stores.clock() - receipt.at >= SETTLED_AGE
        vectors.pass_over(receipt.token, old_enough and unequal.isdisjoint(receipt.objects))
        statistics.pass_over(receipt.token, old_enough and counted)


def _write_marks(stores: Stores, vectors: int, statistics: int) -> None:
    with stores.deriving:
        stores.vectors.flush(vectors)
        stores.vector_ledger.swept(vectors)
        stores.vector_ledger.marked()
        stores.statistics.advance(statistics)
        stores.statistics_ledger.swept(statistics)


def _markers(report: DeriveReport) -> list[VectorMaintenanceMarker | StatsUpdateMarker]:
    markers: list[VectorMaintenanceMarker | StatsUpdateMarker] = []
    if report.failures:
        markers.append(VectorMaintenanceMarker(failures=report.failures))
    if report.statistics.status == "failed":
        markers.append(
            StatsUpdateMarker(objects=report.statistics.failed_object_ids, causes=report.statistics.causes)
        )
    return markers
