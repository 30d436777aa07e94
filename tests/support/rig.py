"""A memory on real stores, with a spy in front of every port and the graph's connection recorded."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from charactermemory.adapters.embedding import HashingEmbedding
from charactermemory.adapters.oxigraph import embedded, in_memory, service
from charactermemory.composition import Opened, compose
from charactermemory.config import Settings
from charactermemory.domain.names import normalize_name
from charactermemory.ids import MemoryId, MemoryObjectRef
from charactermemory.memory import CharacterMemory
from charactermemory.ports.graph import Receipt
from charactermemory.ports.statistics import HubEdge, ObjectState
from charactermemory.ports.stores import Stores
from charactermemory.ports.vectors import Cursor
from charactermemory.testing.recording import RecordingConnection
from tests.support.clock import SteppingClock
from tests.support.spy import Spy

COLLECTION = "ada"
DIMENSION = 32

_CONNECTIONS = {
    "persistent": (embedded, "EmbeddedConnection"),
    "in_memory": (in_memory, "InMemoryConnection"),
    "service": (service, "ServiceConnection"),
}


@dataclass(frozen=True)
class Contents:
    """Everything the three stores hold, comparable: triples, receipts, points, rows, places in the log."""

    triples: tuple[bytes, ...]
    receipts: tuple[Receipt, ...]
    points: dict[MemoryObjectRef, str]
    states: tuple[ObjectState, ...]
    edges: frozenset[HubEdge]
    vectors_at: Cursor
    statistics_at: Cursor


class Rig:
    """One open memory. `reopen` closes it and opens it again on the same folders.

    Attributes:
        memory: the facade under test.
        graph, vectors, statistics: spies before the ports.
        embedder: a spy below the guard, where an application's own provider stands.
        connection: the recorded connection below the graph store.
        clock: the memory's clock.
    """

    def __init__(self, root: Path, mode: str = "persistent", url: str | None = None) -> None:
        """Open a memory under `root`; `mode` is a GRAPH_STORE_MODE, `url` the endpoint of `service`."""
        self.settings = Settings.from_mapping(
            {
                "GRAPH_STORE_MODE": mode,
                "OXIGRAPH_PATH": str(root / "graph"),
                "OXIGRAPH_URL": url,
                "WRITER_LOCK_PATH": str(root / "locks"),
                "VECTOR_STORE_PATH": str(root / "vectors"),
                "RETRIEVAL_STATS_PATH": str(root / "statistics.sqlite3"),
            }
        )
        self.clock = SteppingClock()
        self.embedder = Spy(HashingEmbedding(DIMENSION))
        self._open()

    def _open(self) -> None:
        opened = self._compose()
        self._stores = opened.stores
        self.graph = Spy(self._stores.graph)
        self.vectors = Spy(self._stores.vectors)
        self.statistics = Spy(self._stores.statistics)
        watched: Stores = dataclasses.replace(
            self._stores,
            graph=self.graph,  # type: ignore[arg-type]
            vectors=self.vectors,  # type: ignore[arg-type]
            statistics=self.statistics,  # type: ignore[arg-type]
        )
        self.memory = CharacterMemory(Opened(watched, opened.close), self.settings, COLLECTION)
        self.forget_calls()

    def _compose(self) -> Opened:
        module, name = _CONNECTIONS[self.settings.graph_store_mode]
        real = getattr(module, name)

        def recorded(*args: Any) -> RecordingConnection:
            in_flight = self.settings.graph_store_mode == "service"
            self.connection = RecordingConnection(real(*args), in_flight=in_flight)
            return self.connection

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, name, recorded)
            return compose(
                self.settings,
                COLLECTION,
                clock=self.clock,
                embedding_provider=self.embedder,  # type: ignore[arg-type]
            )

    def close(self) -> None:
        """Close the memory; a second call does nothing."""
        self.memory.close()

    def reopen(self) -> None:
        """Close, then open again what is on disk."""
        self.close()
        self._open()

    def forget_calls(self) -> None:
        """Let every spy's and the connection's list of calls begin anew; opening leaves none."""
        for spy in (self.graph, self.vectors, self.statistics, self.embedder, self.connection):
            spy.calls.clear()

    # What the stores hold, read past the spies.

    def contents(self) -> Contents:
        """Return everything that is stored."""
        graph, statistics = self._stores.graph, self._stores.statistics
        states = tuple(statistics.scan(None, 10_000))
        edges = statistics.edges_of([*graph.scan(None, 10_000)[0], *(state.ref for state in states)])
        return Contents(
            triples=tuple(graph.export()),
            receipts=tuple(graph.receipts(0, graph.head())),
            points=self.points(),
            states=states,
            edges=frozenset(edge for found in edges.values() for edge in found),
            vectors_at=self._stores.vectors.cursor(),
            statistics_at=statistics.cursor(),
        )

    def triples(self) -> tuple[bytes, ...]:
        """Return the collection's graph as sorted lines."""
        return tuple(self._stores.graph.export())

    def head(self) -> int:
        """Return the number of the last commit."""
        return self._stores.graph.head()

    def points(self) -> dict[MemoryObjectRef, str]:
        """Return every point of the index with its embedding text."""
        return dict(self._stores.vectors.scan(None, 10_000)[0])

    def backlog(self) -> tuple[int, int]:
        """Return how many commits lie beyond the cursor of the index and of the statistics."""
        head = self.head()
        cursors = self._stores.vectors.cursor(), self._stores.statistics.cursor()
        return head - cursors[0].applied, head - cursors[1].applied

    def stored(self, ref: MemoryObjectRef) -> Any:
        """Return the stored object with its lifecycle; None when there is none."""
        return self._stores.graph.read([ref]).get(ref)

    def named(self, name: str) -> tuple[MemoryId, ...]:
        """Return the notions that a current belief knows as `name`."""
        wanted = normalize_name(name)
        return self._stores.graph.notions_known_as([wanted]).get(wanted, ())
