"""Leases by name: who may sweep a collection now, so that two beats, or a beat and a thread, do no harm."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from django.db.models import Q

from memory_app.models import RepairLease


@contextmanager
def held(name: str, holder: str, now: datetime, seconds: float) -> Iterator[bool]:
    """Hold the lease `name` during the block, if it is free; the block is told whether it is.

    It ends by itself after `seconds`, for a holder that was killed.
    """
    RepairLease.objects.get_or_create(name=name)
    row = RepairLease.objects.filter(name=name)
    free = Q(until__isnull=True) | Q(until__lte=now)
    until = now + timedelta(seconds=seconds)
    taken = bool(row.filter(free).update(holder=holder, until=until))
    try:
        yield taken
    finally:
        if taken:
            row.filter(holder=holder, until=until).update(holder="", until=None)
