"""The circuit breaker of a derived store: in an outage one canary every cooldown, and no attempt is spent.

Its state is a row, so all workers see one breaker. Two consecutive outages open it (django-practice §5.3.7).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Literal

from django.db.models import F, Q

from memory_app.models import RepairLease
from memory_app.repairs.failures import StoreName

OUTAGES_TO_OPEN = 2
"""Consecutive outages after which nothing but a canary is let through."""

STORES: tuple[StoreName, ...] = ("vector", "statistics")

State = Literal["closed", "open", "half_open"]
"""Half open: the cooldown is over, and one row may try."""


def states(now: datetime, stores: Iterable[StoreName] = STORES) -> dict[StoreName, State]:
    """Return each store's state."""
    wanted = tuple(stores)
    rows = {row.name: row for row in RepairLease.objects.filter(name__in=[_name(store) for store in wanted])}
    return {store: _state(rows.get(_name(store)), now) for store in wanted}


def take_canary(store: StoreName, now: datetime, cooldown_seconds: float) -> bool:
    """Take the right to send the one canary of this cooldown; False if another worker has it."""
    ripe = RepairLease.objects.filter(name=_name(store), failures__gte=OUTAGES_TO_OPEN)
    ripe = ripe.filter(Q(until__isnull=True) | Q(until__lte=now))
    return bool(ripe.update(until=now + timedelta(seconds=cooldown_seconds)))


def outage(store: StoreName, now: datetime, cooldown_seconds: float) -> bool:
    """Count an outage; return whether the breaker is open now."""
    RepairLease.objects.get_or_create(name=_name(store))
    row = RepairLease.objects.filter(name=_name(store))
    row.update(failures=F("failures") + 1)
    if not row.filter(failures__gte=OUTAGES_TO_OPEN).exists():
        return False
    _wait(store, now + timedelta(seconds=cooldown_seconds))
    return True


def trip(store: StoreName, now: datetime, cooldown_seconds: float) -> None:
    """Open the breaker at once."""
    RepairLease.objects.update_or_create(name=_name(store), defaults={"failures": OUTAGES_TO_OPEN})
    _wait(store, now + timedelta(seconds=cooldown_seconds))


def success(store: StoreName) -> None:
    """Close the breaker: the store answers."""
    RepairLease.objects.filter(name=_name(store), failures__gt=0).update(failures=0, until=None)


def _wait(store: StoreName, until: datetime) -> None:
    """Let nothing through before `until`; a longer wait that another worker was asked for stays."""
    row = RepairLease.objects.filter(name=_name(store))
    row.filter(Q(until__isnull=True) | Q(until__lt=until)).update(until=until)


def _state(row: RepairLease | None, now: datetime) -> State:
    if row is None or row.failures < OUTAGES_TO_OPEN:
        return "closed"
    return "open" if row.until is not None and row.until > now else "half_open"


def _name(store: StoreName) -> str:
    return f"breaker:{store}"
