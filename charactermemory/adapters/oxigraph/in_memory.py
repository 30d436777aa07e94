"""The in-memory connection: for tests and trials; everything is gone with the process.

It serialises updates, so it hides the races of the persistent engine and is no evidence about them
(consistency.md R4).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pyoxigraph import NamedNode, Triple

from charactermemory.adapters.handles import fork_count
from charactermemory.adapters.oxigraph.connection import STORE_NAME, Pattern, Row
from charactermemory.adapters.oxigraph.engine import Engine
from charactermemory.errors import DatabaseError, StoreClosedError, StoreForkedError


class InMemoryConnection:
    """A `Connection` to a new, empty store of this process."""

    def __init__(self) -> None:
        self._engine = Engine(None)
        self._pid = os.getpid()
        self._forks = fork_count()
        self._closed = False
        self._lock = threading.Lock()
        self._running = 0
        self._version = 0

    def _use(self) -> Engine:
        if self._forks != fork_count():
            raise StoreForkedError(store=STORE_NAME, owner_pid=self._pid)
        if self._closed:
            raise StoreClosedError(store=STORE_NAME)
        return self._engine

    def query(self, text: str) -> list[Row]:
        """See `Connection`."""
        return self._use().query(text)

    def ask(self, text: str) -> bool:
        """See `Connection`."""
        return self._use().ask(text)

    def update(self, text: str) -> None:
        """See `Connection`; an in-memory update fails whole and at once, its outcome is always known."""
        engine = self._use()
        with self._lock:
            self._running += 1
        try:
            engine.update(text)
        except (OSError, SyntaxError, ValueError) as error:
            raise DatabaseError(detail=f"the update failed: {error}") from error
        finally:
            with self._lock:
                self._running -= 1
                self._version += 1

    def match(self, graph: NamedNode, patterns: Sequence[Pattern]) -> list[list[Triple]]:
        """See `Connection`."""
        return self._use().match(graph, patterns)

    def occurring(self, graph: NamedNode, patterns: Iterable[Pattern]) -> set[Pattern]:
        """See `Connection`."""
        return self._use().occurring(graph, patterns)

    def dump(self, graph: NamedNode) -> Iterator[bytes]:
        """See `Connection`."""
        return self._use().dump(graph)

    def version(self) -> int | None:
        """See `Connection`; None while an update runs, for it may have taken effect already."""
        self._use()
        with self._lock:
            return None if self._running else self._version

    def sync(self) -> None:
        """See `Connection`; there is nothing to sync."""
        self._use()

    def backup(self, folder: Path) -> bool:
        """See `Connection`; there is no file."""
        self._use()
        return False

    def close(self) -> None:
        """See `Connection`."""
        self._closed = True
