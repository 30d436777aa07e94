"""What a derived store is still owed by this process, commit by commit.

The store itself keeps `applied` (consistency.md R5). A ledger says how far that mark may move: to the last
commit before the oldest one with an object that was not yet derived.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from charactermemory.ids import MemoryObjectRef


class Ledger:
    """Thread-safe account of the objects that commits of this process still owe one derived store.

    Attributes:
        compared: whether the graph was found to reach as far as the store has seen.
    """

    def __init__(self, applied: int, head: int) -> None:
        """Start behind `applied`; commits in (applied, head] of earlier processes are owed until swept."""
        self.compared = False
        self._lock = threading.Lock()
        self._owed: dict[int, set[MemoryObjectRef]] = {}
        self._swept = applied
        self._inherited = head
        self._last = max(applied, head)
        self._marked_at = time.monotonic()

    def owe(self, token: int, refs: Iterable[MemoryObjectRef]) -> None:
        """Record that commit `token` touched `refs`.

        A commit between this and the last one recorded was made by another process, or its writer was
        interrupted before it could record it: it is owed until swept.
        """
        with self._lock:
            if token > self._last + 1:
                self._swept, self._inherited = self._applied(self._oldest()), token - 1
            self._owed[token] = set(refs)
            self._last = max(self._last, token)

    def settle(self, refs: Iterable[MemoryObjectRef], as_of: int) -> None:
        """Record that the store equals the graph for `refs`, as the graph stood at commit `as_of` or later."""
        done = set(refs)
        with self._lock:
            for token in [token for token in self._owed if token <= as_of]:
                self._owed[token] -= done
                if not self._owed[token]:
                    del self._owed[token]

    def swept(self, upto: int) -> None:
        """Record that every commit up to `upto` was found reflected in the store."""
        with self._lock:
            self._swept = max(self._swept, upto)
            self._last = max(self._last, upto)
            for token in [token for token in self._owed if token <= upto]:
                del self._owed[token]

    def restart(self) -> None:
        """Record that the store holds less than it did: every commit so far is owed until swept."""
        with self._lock:
            self._swept, self._inherited = 0, self._last
            self._owed.clear()

    def applied(self) -> int:
        """Return the commit up to which nothing is owed."""
        with self._lock:
            return self._applied(self._oldest())

    def applied_after(self, refs: Iterable[MemoryObjectRef], as_of: int) -> int:
        """Return what `applied` would be once `settle` was called with the same."""
        done = set(refs)
        with self._lock:
            owed = (token for token, left in self._owed.items() if token > as_of or not left <= done)
            return self._applied(min(owed, default=None))

    def _oldest(self) -> int | None:
        return min(self._owed, default=None)

    def _applied(self, oldest: int | None) -> int:
        """Return the commit up to which nothing is owed, where `oldest` is the first that is."""
        if self._swept < self._inherited:
            return self._swept
        return self._last if oldest is None else oldest - 1

    def marked(self) -> None:
        """Record that the store has just written its mark."""
        with self._lock:
            self._marked_at = time.monotonic()

    def seconds_since_mark(self) -> float:
        """Return how long ago the store last wrote its mark."""
        with self._lock:
            return time.monotonic() - self._marked_at
