"""A memory whose disks can be looked back at: what is durable is known, and older copies can be put in place."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Literal

from charactermemory.adapters.oxigraph.in_memory import InMemoryConnection
from charactermemory.adapters.statistics.sqlite import SqliteStatistics
from charactermemory.testing.vectors import _Generation
from tests.support.grounds import COLLECTION, MemoryGround
from tests.support.steps import Moment, Step, Stepped, Steps

Store = Literal["graph", "index", "statistics"]


@dataclass(frozen=True)
class Copies:
    """All three stores as they were at one moment."""

    graph: list[Any]
    index: _Generation
    statistics: bytes


class FragileGround(MemoryGround):
    """Graph and index in memory, statistics in a file. `note` must see every step."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._path = folder / "statistics.sqlite3"
        self._unsynced: list[list[Any]] = []
        """The graph as of its last sync, and after every update since; empty if there was none."""
        self._flushed = self._index_now()

    def _open_statistics(self, steps: Steps) -> Stepped:
        return Stepped(SqliteStatistics(self._path, COLLECTION), "statistics", steps)

    def note(self, step: Step, moment: Moment) -> None:
        """Keep account of what is durable."""
        match (step.port, step.name, moment):
            case ("graph", "update", "before") if not self._unsynced:
                self._unsynced = [self._graph_now()]
            case ("graph", "update", "after"):
                self._unsynced.append(self._graph_now())
            case ("graph", "sync", "after"):
                self._unsynced = []
            case ("index", "flush", "after") | ("index rebuild", "switch", "after"):
                self._flushed = self._index_now()

    @property
    def ahead(self) -> bool:
        """Whether the graph holds what no sync has made durable."""
        return bool(self._unsynced)

    def cut_power(self, random: Random, *, index_too: bool) -> None:
        """Take back what was not made durable: of the graph's log an end of any length, for disks also write
        unasked; of the index all since its last flush, or nothing.
        """
        if self._unsynced:
            self._put_graph(random.choice(self._unsynced[:-1]))
        if index_too:
            self.index._serving = _copied(self._flushed)

    def copy(self) -> Copies:
        """Copy all three stores as they are now."""
        with closing(sqlite3.connect(self._path)) as source:
            return Copies(self._graph_now(), self._index_now(), source.serialize())

    def put_back(self, copies: Copies, store: Store) -> None:
        """Put an older copy in the place of a store; no process may have it open."""
        match store:
            case "graph":
                self._put_graph(copies.graph)
            case "index":
                self.index._serving = _copied(copies.index)
                self._flushed = _copied(copies.index)
            case "statistics":
                for path in self._path.parent.glob(f"{self._path.name}*"):
                    path.unlink()
                self._path.write_bytes(copies.statistics)

    def _graph_now(self) -> list[Any]:
        return list(self.connection._engine.store)

    def _put_graph(self, quads: list[Any]) -> None:
        self.connection = InMemoryConnection()
        self.connection._engine.store.extend(quads)
        self._unsynced = []

    def _index_now(self) -> _Generation:
        return _copied(self.index._serving)


def _copied(generation: _Generation) -> _Generation:
    return _Generation(dict(generation.points), generation.cursor)
