"""A clock that steps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)
"""What the clock says first; it has microseconds, so that a store which drops them is found out."""


class SteppingClock:
    """Says `START`, then a second more at every call; `forward` skips time."""

    def __init__(self) -> None:
        self._next = START

    def __call__(self) -> datetime:
        now = self._next
        self._next += timedelta(seconds=1)
        return now

    def forward(self, **amount: float) -> None:
        """Skip time, e.g. `forward(hours=1)`."""
        self._next += timedelta(**amount)
