"""The writer lock port: one writer a collection, numbered (consistency.md R4)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol


class Grant(Protocol):
    """A held writer lock. `token` is greater than every token granted before for this collection."""

    @property
    def token(self) -> int:
        """The number of the receipt that this holder may write."""
        ...

    def sending(self) -> None:
        """Record durably that an update under this token is about to be sent."""
        ...

    def settled(self, committed: bool) -> None:
        """Record that the outcome of that update is known: its receipt is in the graph, or never will be."""
        ...


class WriterLock(Protocol):
    """Grants the right to write one collection at a time, across all processes that share it."""

    def hold(
        self, collection: str, settle: Callable[[int, int], bool], head: Callable[[], int]
    ) -> AbstractContextManager[Grant]:
        """Wait up to 10 s for the lock, settle what a dead holder left open, and grant the next token.

        Not re-entrant. A holder that leaves after `sending` without `settled` leaves its token open.

        Args:
            collection: name of the collection.
            settle: called as `settle(old_token, own_token)` when the last holder's update was left open;
                returns, once that update is known to have landed or never to land, whether it landed.
            head: returns the greatest token found in the graph, of receipts and fences alike; a lock that
                keeps no number grants the next one, a lock that lost its own never goes below it.

        Raises:
            StoreUnavailable: the lock was not free in time, or what was left open cannot be settled now.
        """
        ...

    def last_settled(self, collection: str) -> int | None:
        """Return the greatest token known to be committed, None where the lock keeps no memory.

        A graph whose head is below it went back (consistency.md §3).
        """
        ...
