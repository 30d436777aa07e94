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

    def settled(self) -> None:
        """Record that the outcome of that update is known."""
        ...


class WriterLock(Protocol):
    """Grants the right to write one collection at a time, across all processes that share it."""

    def hold(
        self, collection: str, settle: Callable[[int, int], None], head: Callable[[], int]
    ) -> AbstractContextManager[Grant]:
        """Wait up to 10 s for the lock, settle what a dead holder left open, and grant the next token.

        Args:
            collection: name of the collection.
            settle: called as `settle(old_token, own_token)` when the last holder's update was left open;
                returns once that update is known to have landed or never to land.
            head: returns the greatest token found in the graph, for locks that keep none themselves.

        Raises:
            StoreUnavailable: the lock was not free in time.
        """
        ...

    def last_settled(self, collection: str) -> int | None:
        """Return the greatest token whose outcome is known, None where the lock keeps no memory."""
        ...
