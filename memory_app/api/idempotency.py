"""Requests that may be repeated: `Idempotency-Key` (django-practice §7.4).

The unique row is the lock: it is inserted before anything is done. It also fixes the ids and times that the
request leaves open, so that a repetition after a crash finds its own work done and does nothing twice.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from datetime import timedelta

from django.db import IntegrityError, transaction
from django.utils import timezone
from pydantic import BaseModel

from charactermemory.remember.prepare import RememberPlanDefaults
from memory_app.api.operation import Answer, Call, Operation
from memory_app.api.options import ApiOptions
from memory_app.api.problems import BadRequest, Conflict, ProblemItem, Unprocessable
from memory_app.models import IdempotencyRecord

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
LEASE = timedelta(minutes=2)
"""How long a request counts as in progress; longer than any takes. One that takes over does nothing twice."""
_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_State = IdempotencyRecord.State


def once(call: Call, operation: Operation, options: ApiOptions, run: Callable[[], Answer]) -> Answer:
    """Run the request, or answer what its first run answered.

    Failures are not kept: the same key may be tried again.

    Raises:
        BadRequest: the key is no key.
        Conflict: the same request is in progress.
        Unprocessable: the key came with another request before.
    """
    key = call.request.headers.get(HEADER)
    if key is None:
        return run()
    if not _KEY.fullmatch(key):
        item = ProblemItem(detail=f"{HEADER}: expected 1 to 255 visible ASCII characters")
        raise BadRequest("The idempotency key cannot be used.", "invalid_idempotency_key", [item])
    record = _claim(call, key, options)
    if record.state == _State.DONE and operation.kept:
        return Answer(record.body, record.status or 200, {REPLAYED: "true"})
    replayed = record.state == _State.DONE
    call.record = record
    try:
        answer = run()
    except BaseException:
        IdempotencyRecord.objects.filter(pk=record.pk).update(lease_expires_at=timezone.now())
        raise
    kept = answer.body if operation.kept else None
    IdempotencyRecord.objects.filter(pk=record.pk).update(
        state=_State.DONE,
        status=answer.status,
        body=kept.model_dump(mode="json", exclude_none=True) if isinstance(kept, BaseModel) else kept,
    )
    if replayed:
        answer.headers[REPLAYED] = "true"
    return answer


def seed_of(record: IdempotencyRecord) -> str:
    """Return what the ids of a keyed request are derived from; a key that expired and came anew makes new ones."""
    parts = (record.principal, record.collection, record.key, record.created_at.isoformat())
    return " ".join(("idempotency-key", *parts))


def defaults_of(record: IdempotencyRecord) -> RememberPlanDefaults:
    """Return the ids and times of a keyed request: the same for every run of it."""
    return RememberPlanDefaults.fixed(seed_of(record), record.created_at)


def _claim(call: Call, key: str, options: ApiOptions) -> IdempotencyRecord:
    """Insert the request's row, or take over the one that is there."""
    now = timezone.now()
    place = {"principal": call.who.id, "collection": call.collection.name, "key": key}
    fingerprint = _fingerprint(call)
    record = None
    while record is None:
        try:
            with transaction.atomic():
                return IdempotencyRecord.objects.create(
                    **place,
                    fingerprint=fingerprint,
                    lease_expires_at=now + LEASE,
                    expires_at=now + timedelta(hours=options.idempotency_hours),
                )
        except IntegrityError:
            IdempotencyRecord.objects.filter(**place, expires_at__lte=now).delete()
            record = IdempotencyRecord.objects.filter(**place).first()
    if record.fingerprint != fingerprint:
        raise Unprocessable(
            "This idempotency key came with another request before.", "idempotency_key_reused"
        )
    if record.state == _State.DONE:
        return record
    lapsed = IdempotencyRecord.objects.filter(
        pk=record.pk,
        state=_State.RUNNING,
        lease_expires_at=record.lease_expires_at,
        lease_expires_at__lte=now,
    )
    if not lapsed.update(lease_expires_at=now + LEASE):
        raise Conflict("The same request is in progress.", "idempotency_in_progress")
    return record


def _fingerprint(call: Call) -> str:
    """Tell requests apart by what they mean, not by how their JSON is written."""
    parts = [call.request.method or "", call.request.path]
    parts += [item.model_dump_json() if item else "" for item in (call.query, call.body)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
