"""Signals for hosts. They carry names, counts and references, never memory text; a receiver that fails is
logged and harms nobody. All are sent after the stores were written, in the thread that wrote.

| signal | arguments |
|---|---|
| `memory_committed` | `collection`, `operation` (commit or link), `objects`, `complete` |
| `memory_lifecycle_changed` | `collection`, `operation` (correct or forget), `objects`, `complete` |
| `repair_marker_created` | `collection`, `store`, `objects`, `cause` |
| `repair_marker_dead` | `collection`, `store`, `objects`, `cause` |
| `retrieval_performed` | `collection`, `objects` (admitted), `duration_ms`, `degraded` |

`objects` is a tuple of `MemoryObjectRef`; the sender is `memory_app.models.MemoryCollection`.
"""

from __future__ import annotations

import logging
from typing import Any

from django.dispatch import Signal

logger = logging.getLogger(__name__)

memory_committed = Signal()
memory_lifecycle_changed = Signal()
repair_marker_created = Signal()
repair_marker_dead = Signal()
retrieval_performed = Signal()


def send(signal: Signal, **values: Any) -> None:
    """Send a signal to every receiver, whatever one of them raises."""
    from memory_app.models import MemoryCollection

    for receiver, answer in signal.send_robust(sender=MemoryCollection, **values):
        if isinstance(answer, Exception):
            logger.error("a receiver of a memory signal failed: %r", receiver, exc_info=answer)
