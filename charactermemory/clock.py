"""Where the time comes from, so that tests and replays can fix it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]
"""Returns the present instant as an aware UTC datetime with microseconds."""


def utc_now() -> datetime:
    """Return the present instant in UTC."""
    return datetime.now(UTC)
