"""The present instant as the database has it, so that hosts whose clocks differ agree on what is due."""

from __future__ import annotations

from datetime import datetime

from django.db import connections, router
from django.utils import timezone

from memory_app.models import RepairMarker


def database_now() -> datetime:
    """Return the database server's clock; a file database has none but this machine's."""
    connection = connections[router.db_for_write(RepairMarker)]
    if connection.vendor != "postgresql":
        return timezone.now()
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        (now,) = cursor.fetchone()
    assert isinstance(now, datetime)
    return now
