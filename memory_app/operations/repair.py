"""Repairs as operators and runners ask for them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from django.db.models import QuerySet
from django.utils import timezone

from charactermemory.upkeep.sweep import SweepReport
from memory_app import pruning, retrievals, runtime
from memory_app.conf import app_settings
from memory_app.models import IdempotencyRecord, MemoryCollection, RepairMarker
from memory_app.repairs import breaker, desk, queue
from memory_app.repairs.clock import database_now
from memory_app.repairs.dispatch import dispatcher
from memory_app.repairs.policy import Policy
from memory_app.repairs.sweeping import Sweeper
from memory_app.repairs.worker import RunReport, Worker


def run_due(
    *, collection: str | None = None, limit: int | None = None, seconds: float | None = None
) -> RunReport:
    """Repair what is due; see `Worker.run`."""
    return Worker(runtime.get_memory, collection=collection).run(limit=limit, seconds=seconds)


def anything_due(collection: str | None = None) -> bool:
    """Tell whether a row could be claimed now; of a store that is out none can, before its cooldown is over.

    So a task that goes on as long as something is due does not turn round and round during an outage.
    """
    now = database_now()
    reachable = [store for store, state in breaker.states(now).items() if state != "open"]
    rows = RepairMarker.objects.filter(queue.due(now), store__in=reachable)
    return (rows if collection is None else rows.filter(collection=collection)).exists()


def sweep(collections: Iterable[str]) -> dict[str, SweepReport | None]:
    """Sweep collections; None for one that could not be swept now."""
    return Sweeper(runtime.get_memory).sweep_all(collections)


def sweep_known() -> dict[str, SweepReport | None]:
    """Sweep every collection that is not archived."""
    return sweep(MemoryCollection.objects.filter(archived=False).values_list("name", flat=True))


def sweep_open() -> dict[str, SweepReport | None]:
    """Sweep the memories that this process has open, but for those archived since."""
    archived = set(MemoryCollection.objects.filter(archived=True).values_list("name", flat=True))
    return sweep(name for name in runtime.open_collections() if name not in archived)


def requeue(rows: QuerySet[RepairMarker]) -> int:
    """Ask for dead and cancelled rows again, and have them repaired."""
    count = desk.requeue(rows, database_now())
    if count:
        dispatcher().nudge()
    return count


def replay(rows: QuerySet[RepairMarker]) -> None:
    """Ask for dead and cancelled rows again and for waiting ones now, and have them repaired."""
    now = database_now()
    if desk.requeue(rows, now) + desk.hurry(rows, now):
        dispatcher().nudge()


def cancel(rows: QuerySet[RepairMarker]) -> int:
    """Give up waiting and dead rows."""
    return desk.cancel(rows, database_now())


def prune() -> int:
    """Delete what the settings keep no longer: settled repairs, retrieval events, outcomes of keyed requests."""
    before = database_now() - timedelta(days=Policy.configured().keep_days)
    expired = IdempotencyRecord.objects.filter(expires_at__lte=timezone.now())
    return (
        desk.prune(before)
        + retrievals.prune(app_settings().retrieval_events_keep_days)
        + pruning.delete(expired)
    )
