"""Stores on the three connections, for tests: where each keeps its data and how it is opened again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from charactermemory.adapters.oxigraph.connection import Connection
from charactermemory.adapters.oxigraph.embedded import EmbeddedConnection
from charactermemory.adapters.oxigraph.in_memory import InMemoryConnection
from charactermemory.adapters.oxigraph.locks import FileWriterLock, ThreadWriterLock
from charactermemory.adapters.oxigraph.service import ServiceConnection
from charactermemory.adapters.oxigraph.store import OxigraphStore
from charactermemory.ports.locks import WriterLock
from charactermemory.testing.servers import OxigraphServer

MODES = ("in_memory", "embedded", "service")
WATCH_SECONDS = 0.2
"""Short, for nothing in these tests is under way longer."""


class Place:
    """Where the collections of one test live."""

    def __init__(self, mode: str, root: Path, server: Callable[[], OxigraphServer]) -> None:
        self.mode = mode
        self.root = root
        self._server = server
        self._memory: dict[str, InMemoryConnection] = {}

    def connection(self, collection: str = "contract") -> Connection:
        """Open a connection of its own; in memory, all of a collection share one."""
        if self.mode == "in_memory":
            return self._memory.setdefault(collection, InMemoryConnection())
        if self.mode == "embedded":
            return EmbeddedConnection(self.root / "graph", collection)
        return ServiceConnection(self._server().url)

    def lock(self) -> WriterLock:
        """Return the writer lock of the mode."""
        if self.mode == "service":
            return FileWriterLock(self.root / "locks")
        return ThreadWriterLock(str(self.root))

    def open(self, collection: str = "contract") -> OxigraphStore:
        """Open the store of a collection."""
        return self.over(self.connection(collection), collection)

    def over(self, connection: Connection, collection: str = "contract") -> OxigraphStore:
        """Open a store over a given connection."""
        return OxigraphStore(connection, collection, self.lock(), watch_seconds=WATCH_SECONDS)
