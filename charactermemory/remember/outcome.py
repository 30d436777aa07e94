"""What a write says it did: stored, indexed, still to be repaired (memory-core §7, decisions R5)."""

from __future__ import annotations

from collections.abc import Iterable

from charactermemory.domain.lifecycle import References
from charactermemory.domain.model import Model
from charactermemory.domain.objects import MemoryLink
from charactermemory.domain.repair import (
    RepairMarker,
    RepairMarkers,
    StatsUpdateMarker,
    StatsUpdateStatus,
    VectorIndexMarker,
    VectorMaintenanceMarker,
    VectorMaintenanceOperation,
)
from charactermemory.ids import MemoryObjectRef
from charactermemory.remember.issues import Issues
from charactermemory.remember.plan import RememberDiagnostics
from charactermemory.upkeep.derive import DeriveReport


class CommitOptions(Model):
    """Whether the derived stores are written now; False means not now, a sweep does it later."""

    update_vectors: bool = True
    update_stats: bool = True


class Outcome(Model):
    """What every write reports about its derived part.

    Attributes:
        stats_update_status: how the statistics step went.
        repair_needed: what failed and waits for a replay, sweep or repair; nothing is lost.
        pending: objects whose derived stores were left for later, on request or because the host has a
            transaction open.
    """

    stats_update_status: StatsUpdateStatus = StatsUpdateStatus()
    repair_needed: RepairMarkers = ()
    pending: References = ()

    @property
    def complete(self) -> bool:
        """Whether graph, index and statistics agree on this write now."""
        return not self.repair_needed and not self.pending


class RememberOutcome(Outcome):
    """What a commit stored. On a replay the id lists are those of the first run."""

    persisted_object_ids: References = ()
    persisted_link_ids: References = ()
    vector_indexed_object_ids: References = ()
    vector_indexing_failure: VectorIndexMarker | None = None
    diagnostics: RememberDiagnostics = RememberDiagnostics()


class LinkOutcome(Outcome):
    """The link as stored, and warnings about it."""

    link: MemoryLink
    warnings: Issues = ()


def put_off(report: DeriveReport, refs: Iterable[MemoryObjectRef]) -> tuple[MemoryObjectRef, ...]:
    """Return those of `refs` whose statistics were left for later: all or none."""
    return tuple(refs) if report.statistics.status == "pending" else ()


def indexing_markers(report: DeriveReport) -> tuple[RepairMarker, ...]:
    """Markers of a commit: unindexed objects by cause, and failed deletes as maintenance."""
    upserts = [item for item in report.failures if item.operation is VectorMaintenanceOperation.UPSERT]
    deletes = tuple(item for item in report.failures if item.operation is VectorMaintenanceOperation.DELETE)
    markers: list[RepairMarker] = [
        VectorIndexMarker(objects=item.objects, cause=item.cause) for item in upserts
    ]
    if deletes:
        markers.append(VectorMaintenanceMarker(failures=deletes))
    return (*markers, *statistics_markers(report.statistics))


def maintenance_markers(report: DeriveReport) -> tuple[RepairMarker, ...]:
    """Markers of a correction or forget: all index failures in one maintenance marker."""
    markers: list[RepairMarker] = []
    if report.failures:
        markers.append(VectorMaintenanceMarker(failures=report.failures))
    return (*markers, *statistics_markers(report.statistics))


def statistics_markers(status: StatsUpdateStatus) -> tuple[RepairMarker, ...]:
    """The marker of a failed statistics step, if it failed."""
    if status.status != "failed":
        return ()
    return (StatsUpdateMarker(objects=status.failed_object_ids, causes=status.causes),)
