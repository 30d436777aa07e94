"""For hosts' and our own tests: draining the queue by the way it is drained in production."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from charactermemory import CharacterMemory
from memory_app import runtime
from memory_app.models import RepairLease, RepairMarker
from memory_app.repairs.clock import database_now
from memory_app.repairs.worker import RunReport, Worker

__all__ = ["drain_repairs"]

_LONGEST = timedelta(days=1)


def drain_repairs(
    *,
    now: datetime | None = None,
    ignore_backoff: bool = False,
    collection: str | None = None,
    memories: Callable[[str], CharacterMemory] | None = None,
) -> RunReport:
    """Claim, reconcile and settle every due row, as a worker does.

    Args:
        now: the instant the worker takes for the present; the database's if not given.
        ignore_backoff: also rows whose time has not come, and stores whose circuit breaker is open. Each is
            tried once.
        collection: only this collection's rows.
        memories: opens the memories; `runtime.get_memory` if not given.
    """
    instant = now or database_now()
    if ignore_backoff:
        RepairLease.objects.filter(name__startswith="breaker:").delete()
        waiting = RepairMarker.objects.filter(status=RepairMarker.Status.PENDING)
        waiting.filter(available_at__lt=instant + _LONGEST).update(available_at=instant)
    worker = Worker(
        memories or runtime.get_memory,
        clock=database_now if now is None else lambda: instant,
        collection=collection,
    )
    return worker.run()
