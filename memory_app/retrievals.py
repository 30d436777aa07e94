"""Retrieval events: what recall brought back, as counts, times and ids (DESIGN R14)."""

from __future__ import annotations

import logging
import random
from datetime import timedelta

from django.utils import timezone

from charactermemory import RetrievalOutcome
from memory_app import pruning
from memory_app.afterwards import outside_transactions
from memory_app.conf import app_settings
from memory_app.models import RetrievalEvent

logger = logging.getLogger(__name__)


def record(collection: str, outcome: RetrievalOutcome, duration_ms: float) -> None:
    """Keep an event of one retrieve, if it is among the sampled ones. Never raises."""
    outside_transactions(RetrievalEvent, lambda: _record(collection, outcome, duration_ms))


def _record(collection: str, outcome: RetrievalOutcome, duration_ms: float) -> None:
    try:
        if random.random() >= app_settings().retrieval_events_sample_rate:  # noqa: S311 - sampling
            return
        rationale = outcome.rationale
        stale = {item.reason.value: item.count for item in rationale.stale_candidate_omission_reasons}
        lifecycle = {item.reason.value: item.count for item in rationale.lifecycle_omission_reasons}
        RetrievalEvent.objects.create(
            collection=collection,
            duration_ms=duration_ms,
            included=len(outcome.pack.admissions),
            omitted=rationale.stale_candidate_omission_count,
            sections={
                item.section.value: item.included_count
                for item in rationale.telemetry.section_pressure
                if item.included_count
            },
            omissions=stale | lifecycle,
            degraded=list(degraded_roads(outcome)),
            admitted=[str(admission.object) for admission in outcome.pack.admissions],
        )
    except Exception:
        logger.exception("a retrieval event of collection %s was not kept", collection)


def degraded_roads(outcome: RetrievalOutcome) -> tuple[str, ...]:
    """Return the names of the roads that recall had to do without."""
    return tuple(sorted({item.road for item in outcome.rationale.degraded}))


def prune(days: int) -> int:
    """Delete events older than `days`."""
    return pruning.delete(RetrievalEvent.objects.filter(at__lt=timezone.now() - timedelta(days=days)))
