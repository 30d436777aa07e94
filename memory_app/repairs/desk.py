"""What operators, rebuilds and time do to the queue: ask again, give up, close, delete."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from charactermemory.ids import MemoryObjectRef
from memory_app import pruning
from memory_app.models import RepairMarker
from memory_app.repairs import queue
from memory_app.repairs.failures import StoreName

Status = RepairMarker.Status


def requeue(rows: QuerySet[RepairMarker], now: datetime) -> int:
    """Ask for dead or cancelled rows again, with all their attempts; of an object one row is open at most."""
    count = 0
    for row in rows.filter(status__in=(Status.DEAD, Status.CANCELLED)):
        try:
            with transaction.atomic(using=queue.database()):
                count += RepairMarker.objects.filter(pk=row.pk, status=row.status).update(
                    status=Status.PENDING,
                    retryable=True,
                    attempts=0,
                    available_at=now,
                    due_since=now,
                    completed_at=None,
                    dirty=False,
                )
        except IntegrityError:
            continue  # its object has an open row, perhaps since a moment ago
    return count


def hurry(rows: QuerySet[RepairMarker], now: datetime) -> int:
    """Let waiting rows be tried now; their attempts count on."""
    return rows.filter(status=Status.PENDING, available_at__gt=now).update(available_at=now)


def cancel(rows: QuerySet[RepairMarker], now: datetime) -> int:
    """Give up waiting and dead rows. A sweep opens a row anew if the object is still not as it should be."""
    return rows.filter(status__in=(Status.PENDING, Status.DEAD)).update(
        status=Status.CANCELLED, completed_at=now
    )


def prune(before: datetime) -> int:
    """Delete succeeded and cancelled rows completed before an instant; dead ones stay until someone decides."""
    done = (Status.SUCCEEDED, Status.CANCELLED)
    return pruning.delete(RepairMarker.objects.filter(status__in=done, completed_at__lt=before))


def settled_by_rebuild(
    collection: str, store: StoreName, started: datetime, left: Collection[MemoryObjectRef], now: datetime
) -> int:
    """Close waiting and dead rows of before `started`, since all but `left` was derived anew."""
    rows = RepairMarker.objects.filter(
        collection=collection, store=store, status__in=(Status.PENDING, Status.DEAD), due_since__lt=started
    )
    return rows.exclude(object_id__in=[ref.id for ref in left]).update(
        status=Status.SUCCEEDED, completed_at=now
    )
