"""What outlives a process: the places where a memory keeps its data, opened again after every end of one."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from charactermemory.adapters.embedding import HashingEmbedding
from charactermemory.adapters.oxigraph import embedded, in_memory
from charactermemory.adapters.oxigraph.connection import Connection
from charactermemory.adapters.oxigraph.in_memory import InMemoryConnection
from charactermemory.adapters.oxigraph.locks import ThreadWriterLock
from charactermemory.adapters.qdrant import edge
from charactermemory.adapters.statistics import open_statistics
from charactermemory.adapters.statistics.sqlite import MEMORY, SqliteStatistics
from charactermemory.composition import Opened, compose
from charactermemory.config import Settings
from charactermemory.memory import CharacterMemory
from charactermemory.ports.locks import WriterLock
from charactermemory.testing.vectors import InMemoryVectorIndex
from tests.support.clock import SteppingClock
from tests.support.steps import Stepped, Steps

COLLECTION = "ada"
DIMENSION = 16

_processes = itertools.count(1)


class Ground(ABC):
    """One memory's data, and the process that has them open.

    Attributes:
        memory: the open facade.
        steps: the calls of the present process.
        clock: goes on over all processes.
    """

    memory: CharacterMemory
    steps: Steps

    def __init__(self) -> None:
        self.clock = SteppingClock()

    def writer_lock(self) -> WriterLock:
        """Return the writer lock of a new process: it remembers no number of an earlier one."""
        return ThreadWriterLock(f"process {next(_processes)}")

    @abstractmethod
    def start(self) -> None:
        """Begin a process: open the memory."""

    @abstractmethod
    def connect(self) -> Connection:
        """Open a connection of another process to the graph; it is not watched."""

    def stop(self) -> None:
        """End the process in good order."""
        self.memory.close()

    def die(self) -> None:
        """End the process at once: nothing more is written, what the stores already took stays."""
        self.steps.bury()
        self.memory.close()

    def _compose(
        self,
        settings: Settings,
        connection: tuple[Any, str, Any],
        index: Any,
        statistics: Any,
        lock: WriterLock,
    ) -> None:
        """Compose the memory over stepped adapters; each argument makes one from what composition passes."""
        steps = self.steps = Steps()
        module, name, make = connection
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, name, lambda *given: make(steps, *given))
            patch.setattr(edge, "EdgeVectorIndex", lambda *given: index(steps, *given))
            opened: Opened = compose(
                settings,
                COLLECTION,
                clock=self.clock,
                embedding_provider=Stepped(HashingEmbedding(DIMENSION), "embedder", steps),  # type: ignore[arg-type]
                writer_lock=lock,
                statistics=lambda collection: statistics(steps, collection),
            )
        steps.taken.clear()
        self.memory = CharacterMemory(opened, settings, COLLECTION)


class MemoryGround(Ground):
    """All three stores in this process's memory. They serialise updates, so they tell nothing of races."""

    def __init__(self) -> None:
        super().__init__()
        self.connection = InMemoryConnection()
        self.index = InMemoryVectorIndex(COLLECTION, DIMENSION)
        self.statistics = SqliteStatistics(MEMORY, COLLECTION)

    def start(self) -> None:
        """See `Ground`."""
        self._compose(
            Settings.from_mapping(
                {
                    "GRAPH_STORE_MODE": "in_memory",
                    "VECTOR_STORE_PATH": "none is used",
                    "RETRIEVAL_STATS_STORE_MODE": "in_memory",
                }
            ),
            (in_memory, "InMemoryConnection", lambda steps: _kept(self.connection, "graph", steps)),
            lambda steps, *_: _kept(self.index, "index", steps),
            lambda steps, _: self._open_statistics(steps),
            self.writer_lock(),
        )

    def _open_statistics(self, steps: Steps) -> Stepped:
        return _kept(self.statistics, "statistics", steps)

    def connect(self) -> Connection:
        """See `Ground`."""
        return Stepped(self.connection, "graph", Steps(), kept=True)  # type: ignore[return-value]


class DiskGround(Ground):
    """The embedded stores of an installation: Oxigraph on RocksDB, Edge and SQLite below one folder."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root
        self.settings = Settings.from_mapping(
            {
                "OXIGRAPH_PATH": str(root / "graph"),
                "VECTOR_STORE_PATH": str(root / "index"),
                "RETRIEVAL_STATS_PATH": str(root / "statistics.sqlite3"),
            }
        )

    def start(self) -> None:
        """See `Ground`."""
        real_index: Callable[..., Any] = edge.EdgeVectorIndex
        real_connection = embedded.EmbeddedConnection
        path = self.settings.retrieval_stats_path
        self._compose(
            self.settings,
            (
                embedded,
                "EmbeddedConnection",
                lambda steps, *given: Stepped(real_connection(*given), "graph", steps),
            ),
            lambda steps, *given: Stepped(real_index(*given), "index", steps),
            lambda steps, collection: Stepped(
                open_statistics("sqlite", path or "", collection), "statistics", steps
            ),
            self.writer_lock(),
        )

    def connect(self) -> Connection:
        """See `Ground`."""
        return embedded.EmbeddedConnection(self.settings.oxigraph_path or Path(), COLLECTION)


def _kept(inner: Any, port: str, steps: Steps) -> Stepped:
    return Stepped(inner, port, steps, kept=True)
