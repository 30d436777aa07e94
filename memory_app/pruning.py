"""Deleting many rows without holding a database for long."""

from __future__ import annotations

from typing import Any

from django.db import router
from django.db.models import QuerySet

STEP = 500
"""Rows of one statement; SQLite takes at most 999 parameters."""


def delete(rows: QuerySet[Any]) -> int:
    """Delete rows a step at a time, each in a transaction of its own; return how many there were."""
    using = router.db_for_write(rows.model)  # a replica may still have what was deleted
    removed = 0
    while ids := list(rows.using(using).values_list("pk", flat=True)[:STEP]):
        removed += rows.model._default_manager.using(using).filter(pk__in=ids).delete()[0]
    return removed
