"""Counts in messages for people."""

from __future__ import annotations


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun: `1 session`, `2 sessions`; `many` where an s does not make the plural."""
    return f"{number} {one if number == 1 else many or one + 's'}"
