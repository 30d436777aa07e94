"""How many embedded stores of a kind a process keeps open at once (consistency.md §7, R2).

Every character has store folders of its own, and a process may serve many. An open graph engine takes about 4 MB
and 18 file descriptors, and 26 ms to open; an open index 8 threads, 35 to 70 MB of mapped files, and 25 ms.
So those used longest ago rest: their files are closed, their folders stay ours, the next call opens them again.
What is kept in memory of graphs rests by the same rule (`oxigraph/reads.py`), however a graph is reached.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Protocol

from charactermemory.adapters.handles import fork_count

MOST_OPEN = 16
"""Engines of a kind open at once in a process; more are only while more are in use."""


class Restful(Protocol):
    """A store whose engine can be closed, to be opened again by the next call; or what has things in mind."""

    def rest(self) -> None:
        """Close the engine unless a call uses it, or forget, and report that as `OpenStores.closed`."""
        ...


class OpenStores:
    """The stores of this process whose engines are open, the one used longest ago first. Thread-safe.

    A store reports what becomes of its engine while it holds its own lock, and lets others rest without it.
    """

    def __init__(self, most: int = MOST_OPEN) -> None:
        self.most = most
        self._begin()

    def _begin(self) -> None:
        self._forks = fork_count()
        self._lock = threading.Lock()
        self._open: OrderedDict[Restful, None] = OrderedDict()

    def __len__(self) -> int:
        """How many are open."""
        return len(self._open)

    def _begin_if_forked(self) -> None:
        """What the parent has open is none of ours, and a thread that is not here may have held the lock."""
        if self._forks != fork_count():
            self._begin()

    def used(self, store: Restful) -> None:
        """Take note that `store` is open and used now."""
        self._begin_if_forked()
        with self._lock:
            self._open[store] = None
            self._open.move_to_end(store)

    def closed(self, store: Restful) -> None:
        """Take note that the engine of `store` is closed."""
        self._begin_if_forked()
        with self._lock:
            self._open.pop(store, None)

    def relieve(self) -> None:
        """Let those used longest ago rest while there are too many, passing over those in use."""
        if len(self._open) <= self.most:
            return
        with self._lock:
            longest_ago_first = list(self._open)
        for store in longest_ago_first:
            if len(self._open) <= self.most:
                return
            store.rest()
