"""The queue of repairs: recording and coalescing, claiming with a lease, settling, asking again.

Correct by conditional updates alone: every write names the state it rests on, and one made under a claim names
its token, so that whoever lost a lease changes nothing. `SKIP LOCKED` only keeps claimants out of each other's
way where the database has it.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from django.db import connections, router, transaction
from django.db.models import F, Q, QuerySet

from charactermemory.ids import MemoryObjectRef, ObjectType
from memory_app import signals
from memory_app.models import RepairMarker
from memory_app.repairs.failures import Failure, StoreName
from memory_app.repairs.policy import Policy

logger = logging.getLogger(__name__)

Status = RepairMarker.Status
CHUNK = 200
"""Rows named in one statement; SQLite takes at most 999 parameters in a bulk insert."""


@dataclass(frozen=True)
class Recorded:
    """How many rows a recording opened, found open, and parked at once."""

    opened: int = 0
    coalesced: int = 0
    dead: int = 0


@dataclass(frozen=True)
class Claim:
    """Rows that are one worker's until the lease ends, and the token that proves it."""

    token: UUID
    markers: tuple[RepairMarker, ...]


def record(
    collection: str, failures: Iterable[Failure], origin: str, now: datetime, policy: Policy
) -> Recorded:
    """Remember failures as open rows, one for each (store, object); call outside a host's transaction.

    A row that is open already is only asked for again: one that waits comes to be due at the same time as
    before, one that is claimed is repaired once more after it was settled. Neither it nor a new one is due before
    the time that a provider asked for. A permanent cause of the object's own is parked as dead at once (field
    reports C15).
    """
    by_cause: dict[tuple[StoreName, str, bool], dict[MemoryObjectRef, Failure]] = defaultdict(dict)
    for failure in failures:
        by_cause[failure.store, failure.code, failure.fault == "permanent"][failure.ref] = failure
    opened = coalesced = dead = 0
    for (store, code, permanent), group in by_cause.items():
        items = list(group.values())
        for start in range(0, len(items), CHUNK):
            part = items[start : start + CHUNK]
            with transaction.atomic(using=database()):
                if permanent:
                    dead += _park(collection, store, part, origin, now, policy)
                else:
                    known, new = _open(collection, store, part, origin, now, policy)
                    coalesced, opened = coalesced + known, opened + new
        send = signals.repair_marker_dead if permanent else signals.repair_marker_created
        signals.send(send, collection=collection, store=store, objects=tuple(group), cause=code)
    return Recorded(opened, coalesced, dead)


def _open(
    collection: str, store: str, part: Sequence[Failure], origin: str, now: datetime, policy: Policy
) -> tuple[int, int]:
    rows = of_objects(collection, store, [failure.ref for failure in part])
    # First those that are there, then the rest: what is settled in between is opened anew, and what another
    # recording opens in between was recorded later than this failure.
    known = rows.filter(status=Status.CLAIMED).update(dirty=True, due_since=now)
    known += rows.filter(status=Status.PENDING).update(
        cause_code=part[0].code, detail=part[0].detail, due_since=now
    )
    if wait := policy.asked_for(*part):
        until = now + timedelta(seconds=wait)
        rows.filter(status=Status.PENDING, available_at__lt=until).update(available_at=until)
    before = rows.filter(status__in=RepairMarker.OPEN).count()
    RepairMarker.objects.bulk_create(
        [_row(collection, failure, origin, now, policy) for failure in part], ignore_conflicts=True
    )
    return known, rows.filter(status__in=RepairMarker.OPEN).count() - before


def _park(
    collection: str, store: str, part: Sequence[Failure], origin: str, now: datetime, policy: Policy
) -> int:
    rows = of_objects(collection, store, [failure.ref for failure in part])
    rows.filter(status=Status.PENDING).update(
        status=Status.DEAD,
        retryable=False,
        cause_code=part[0].code,
        detail=part[0].detail,
        completed_at=now,
    )
    known = {ref_of(row) for row in rows.filter(status__in=(Status.DEAD, Status.CLAIMED))}
    new = [failure for failure in part if failure.ref not in known]
    RepairMarker.objects.bulk_create(
        [_row(collection, failure, origin, now, policy, dead=True) for failure in new]
    )
    return len(part)


def _row(
    collection: str, failure: Failure, origin: str, now: datetime, policy: Policy, dead: bool = False
) -> RepairMarker:
    return RepairMarker(
        collection=collection,
        store=failure.store,
        object_type=failure.ref.object_type.value,
        object_id=failure.ref.id,
        origin=origin,
        status=Status.DEAD if dead else Status.PENDING,
        retryable=not dead,
        cause_code=failure.code,
        detail=failure.detail,
        max_attempts=policy.max_attempts,
        available_at=now + timedelta(seconds=policy.asked_for(failure)),
        due_since=now,
        completed_at=now if dead else None,
    )


# --- claiming -------------------------------------------------------------------------------------


def due(now: datetime) -> Q:
    """Return what may be claimed: waiting rows whose time has come, claimed ones whose lease has ended."""
    waiting = Q(status=Status.PENDING, available_at__lte=now)
    return waiting | Q(status=Status.CLAIMED, lease_expires_at__lte=now)


def claim(
    worker: str,
    now: datetime,
    limit: int,
    policy: Policy,
    *,
    stores: Collection[str] | None = None,
    collection: str | None = None,
) -> Claim:
    """Take up to `limit` due rows, the longest due first; a claim counts as an attempt.

    So a row that kills its worker over and over ends as dead: it is parked when its lease ends and no attempt
    is left. A row handed back unstarted gets its attempt back.

    Args:
        worker: who claims, at most 64 characters.
        now: the present instant.
        limit: most rows.
        policy: the lease.
        stores: only rows of these derived stores.
        collection: only rows of this collection.
    """
    _park_lost(now)
    wanted = due(now)
    if stores is not None:
        wanted &= Q(store__in=list(stores))
    if collection is not None:
        wanted &= Q(collection=collection)
    token = uuid4()
    skips = connections[database()].features.has_select_for_update_skip_locked
    # Without row locks a transaction would gain nothing, and in SQLite's default mode one that reads before it
    # writes fails at once beside another writer.
    with transaction.atomic(using=database()) if skips else nullcontext():
        found = RepairMarker.objects.filter(wanted).order_by("available_at", "id")
        if skips:
            found = found.select_for_update(skip_locked=True)
        ids = list(found.values_list("id", flat=True)[:limit])
        if not ids:
            return Claim(token, ())
        RepairMarker.objects.filter(wanted, id__in=ids).update(
            status=Status.CLAIMED,
            claimed_by=worker[:64],
            claim_token=token,
            lease_expires_at=now + timedelta(seconds=policy.lease_seconds),
            attempts=F("attempts") + 1,
            dirty=False,
        )
    rows = RepairMarker.objects.filter(claim_token=token, status=Status.CLAIMED)
    return Claim(token, tuple(rows.order_by("available_at", "id")))


def _park_lost(now: datetime) -> None:
    lost = RepairMarker.objects.filter(
        status=Status.CLAIMED, lease_expires_at__lte=now, attempts__gte=F("max_attempts")
    )
    rows = list(lost[:CHUNK])
    if lost.filter(id__in=[row.id for row in rows]).update(
        status=Status.DEAD, cause_code="worker_lost", completed_at=now, claim_token=None
    ):
        _announce_dead(rows)


def extend(claim: Claim, now: datetime, policy: Policy) -> None:
    """Prolong the lease of what is still this claim's."""
    until = now + timedelta(seconds=policy.lease_seconds)
    _held(claim, claim.markers).update(lease_expires_at=until)


# --- settling -------------------------------------------------------------------------------------


def succeeded(claim: Claim, rows: Sequence[RepairMarker], now: datetime) -> int:
    """Close rows whose objects were reconciled; one that was asked for again meanwhile waits once more.

    Older dead rows of the same objects are closed too: the object is right now.
    """
    held = _held(claim, rows)
    with transaction.atomic(using=database()):
        done = held.filter(dirty=False).update(
            status=Status.SUCCEEDED, completed_at=now, claim_token=None, lease_expires_at=None
        )
        held.filter(dirty=True).update(
            status=Status.PENDING, dirty=False, available_at=now, claim_token=None, lease_expires_at=None,
            attempts=0,
        )  # fmt: skip
        for (collection, store), refs in _by_store(rows).items():
            of_objects(collection, store, refs).filter(status=Status.DEAD).update(
                status=Status.SUCCEEDED, completed_at=now
            )
    if done < len(rows):
        logger.info("repairs settled late or asked for again: %d of %d", len(rows) - done, len(rows))
    return done


def failed(claim: Claim, row: RepairMarker, failure: Failure, available_at: datetime, now: datetime) -> str:
    """Settle a row whose attempt failed, and return its new status: pending, or dead without another attempt.

    A permanent cause is parked at once. A row that was asked for again meanwhile is never dead: its object has
    changed, and begins anew.
    """
    permanent = failure.fault == "permanent"
    held = _held(claim, [row])
    settled: dict[str, object] = {
        "cause_code": failure.code,
        "detail": failure.detail,
        "available_at": available_at,
        "claim_token": None,
        "lease_expires_at": None,
        "dirty": False,
    }
    if permanent or row.attempts >= row.max_attempts:
        if held.filter(dirty=False).update(
            status=Status.DEAD, retryable=not permanent, completed_at=now, **settled
        ):
            row.cause_code = failure.code
            _announce_dead([row])
            return Status.DEAD.value
        settled["attempts"] = 0
    if not held.update(status=Status.PENDING, **settled):
        logger.info("repair %s was taken over by another worker", row.pk)
    return Status.PENDING.value


def hand_back(claim: Claim, rows: Sequence[RepairMarker], available_at: datetime, cause: str = "") -> int:
    """Give rows back as they were, to be claimed from `available_at` on; no attempt is spent."""
    values: dict[str, object] = {"cause_code": cause} if cause else {}
    return _held(claim, rows).update(
        status=Status.PENDING,
        available_at=available_at,
        attempts=F("attempts") - 1,
        claim_token=None,
        lease_expires_at=None,
        dirty=False,
        **values,
    )


def given_up(claim: Claim, rows: Sequence[RepairMarker], now: datetime) -> int:
    """Cancel rows whose collection was archived; taken up again, a sweep finds what it still owes."""
    return _held(claim, rows).update(
        status=Status.CANCELLED, completed_at=now, claim_token=None, lease_expires_at=None, dirty=False
    )


# --- shared ---------------------------------------------------------------------------------------


def ref_of(row: RepairMarker) -> MemoryObjectRef:
    """Return the object a row is about."""
    return MemoryObjectRef.of(ObjectType(row.object_type), row.object_id)


def objects(collection: str, store: StoreName, *statuses: str) -> frozenset[MemoryObjectRef]:
    """Return the objects with a row in one of these states."""
    rows = RepairMarker.objects.filter(collection=collection, store=store, status__in=statuses)
    return frozenset(
        MemoryObjectRef.of(ObjectType(object_type), object_id)
        for object_type, object_id in rows.values_list("object_type", "object_id")
    )


def of_objects(collection: str, store: str, refs: Sequence[MemoryObjectRef]) -> QuerySet[RepairMarker]:
    """Return all rows of some objects."""
    by_type: dict[str, list[UUID]] = defaultdict(list)
    for ref in refs:
        by_type[ref.object_type.value].append(ref.id)
    named = Q()
    for object_type, ids in by_type.items():
        named |= Q(object_type=object_type, object_id__in=ids)
    return RepairMarker.objects.filter(named, collection=collection, store=store)


def _held(claim: Claim, rows: Sequence[RepairMarker]) -> QuerySet[RepairMarker]:
    ids = [row.pk for row in rows]
    return RepairMarker.objects.filter(id__in=ids, claim_token=claim.token, status=Status.CLAIMED)


def _by_store(rows: Sequence[RepairMarker]) -> dict[tuple[str, str], list[MemoryObjectRef]]:
    grouped: dict[tuple[str, str], list[MemoryObjectRef]] = defaultdict(list)
    for row in rows:
        grouped[row.collection, row.store].append(ref_of(row))
    return grouped


def _announce_dead(rows: Sequence[RepairMarker]) -> None:
    for row in rows:
        signals.send(
            signals.repair_marker_dead,
            collection=row.collection,
            store=row.store,
            objects=(ref_of(row),),
            cause=row.cause_code,
        )


def database() -> str:
    """Return the alias of the database that has the queue."""
    return router.db_for_write(RepairMarker)
