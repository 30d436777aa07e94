"""Celery tasks, named for ever. Messages carry names and ids only; the rows are the truth, a message a hint.

So a message that is lost, doubled or late does no harm: every task finds out for itself what is to be done.
"""

from __future__ import annotations

from typing import Any

from celery import shared_task
from celery.exceptions import SoftTimeLimitExceeded

from memory_app import operations


@shared_task(name="memory_app.repair.sweep", ignore_result=True)
def sweep() -> None:
    """Sweep every collection, then have due rows repaired. Safe beside another beat's."""
    operations.repair.sweep_known()
    if operations.repair.anything_due():
        run.delay()


@shared_task(name="memory_app.repair.run", ignore_result=True)
def run(collection: str | None = None) -> None:
    """Repair what is due; hand over to another message before the time limit."""
    try:
        operations.repair.run_due(collection=collection, seconds=RUN_SECONDS)
    except SoftTimeLimitExceeded:
        return  # the leases end by themselves
    if operations.repair.anything_due(collection):
        run.delay(collection)


RUN_SECONDS = 180.0
"""How long one `run` goes on; below the soft time limit of 240 s by more than one chunk may take."""


@shared_task(name="memory_app.repair.prune", ignore_result=True)
def prune() -> None:
    """Delete settled repairs, old retrieval events and expired outcomes of keyed requests."""
    operations.repair.prune()


@shared_task(name="memory_app.index.rebuild", ignore_result=True, time_limit=None, soft_time_limit=None)
def rebuild_index(collection: str) -> None:
    """Fill a new vector index of one collection and switch to it."""
    operations.rebuild.rebuild_vectors(collection)


@shared_task(name="memory_app.verify", time_limit=None, soft_time_limit=None)
def verify(collection: str, repair: bool = False) -> dict[str, Any]:
    """Verify one collection; return the counts."""
    return operations.verify.verify(collection, repair=repair).summary()
