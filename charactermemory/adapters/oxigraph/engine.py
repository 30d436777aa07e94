"""Calls into a pyoxigraph store, shared by the embedded and the in-memory connection."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TypeVar

from pyoxigraph import NamedNode, QueryBoolean, QuerySolutions, RdfFormat, Store, Triple

from charactermemory.adapters.oxigraph.connection import Pattern, Row, as_nquads
from charactermemory.errors import DatabaseError

Result = TypeVar("Result")


class Engine:
    """An open pyoxigraph store in a box.

    No Python frame ever binds the store, or an iterator of it, to a name: a traceback that somebody keeps
    would keep the engine's files locked after `close`.
    """

    def __init__(self, path: str | None) -> None:
        """Open the files under `path`; None for a store in memory.

        Raises:
            OSError: the engine cannot, because of the disk or of what is on it.
        """
        with _failing():
            self._store: Store | None = Store(path)
        self._occurring: set[tuple[NamedNode, Pattern]] = set()

    @property
    def store(self) -> Store:
        """The store; use it without binding it to a name.

        Raises:
            DatabaseError: the engine was closed.
        """
        if self._store is None:
            raise DatabaseError(detail="the engine was closed during the call")
        return self._store

    def update(self, text: str) -> None:
        """Apply an update.

        Raises:
            SyntaxError, ValueError: it is refused.
            OSError: the engine failed.
        """
        with _failing():
            self.store.update(text)

    def flush(self) -> None:
        """Write everything into the tables, and those to the disk.

        Raises:
            OSError: the engine failed.
        """
        with _failing():
            self.store.flush()

    def backup(self, folder: str) -> None:
        """Copy the files into a new folder.

        Raises:
            OSError: the engine failed.
        """
        with _failing():
            self.store.backup(folder)

    def query(self, text: str) -> list[Row]:
        """See `Connection.query`."""
        return _reading(lambda: _rows(self.store.query(text)))

    def ask(self, text: str) -> bool:
        """See `Connection.ask`."""
        return _reading(lambda: _truth(self.store.query(text)))

    def match(self, graph: NamedNode, patterns: Sequence[Pattern]) -> list[list[Triple]]:
        """See `Connection.match`; an iterator per pattern, cut off at its limit."""
        return _reading(lambda: [self._match(graph, pattern) for pattern in patterns])

    def occurring(self, graph: NamedNode, patterns: Iterable[Pattern]) -> set[Pattern]:
        """See `Connection.occurring`; what once occurred does for good, since graphs only grow."""
        return _reading(lambda: {item for item in patterns if self._occurs(graph, item)})

    def _occurs(self, graph: NamedNode, pattern: Pattern) -> bool:
        if (graph, pattern) not in self._occurring:
            if not self._match(graph, pattern):
                return False
            self._occurring.add((graph, pattern))
        return True

    def _match(self, graph: NamedNode, pattern: Pattern) -> list[Triple]:
        subject, predicate, object_, limit = pattern
        quads = list(islice(self.store.quads_for_pattern(subject, predicate, object_, graph), limit))
        return [quad.triple for quad in quads] if quads else []

    def dump(self, graph: NamedNode) -> Iterator[bytes]:
        """See `Connection.dump`; spooled to an unnamed file, so a slow reader does not hold the engine."""
        spool = tempfile.TemporaryFile()  # noqa: SIM115 - the generator below closes it
        _reading(lambda: self.store.dump(spool, RdfFormat.N_TRIPLES, from_graph=graph))
        spool.seek(0)

        def lines() -> Iterator[bytes]:
            with spool:
                yield from as_nquads(spool, graph)

        return lines()

    def close(self) -> None:
        """Close the engine's files."""
        self._store = None


@contextmanager
def _failing() -> Iterator[None]:
    """Raise as OSError what pyoxigraph says in a RuntimeError: that files are damaged, and whatever else."""
    try:
        yield
    except RuntimeError as error:
        raise OSError(str(error)) from error


def _reading(call: Callable[[], Result]) -> Result:
    try:
        return call()
    except (OSError, SyntaxError, ValueError, RuntimeError) as error:
        raise DatabaseError(detail=f"reading failed: {error}") from error


def _rows(result: object) -> list[Row]:
    if not isinstance(result, QuerySolutions):
        raise DatabaseError(detail="a SELECT query was expected")
    return list(map(tuple, result))


def _truth(result: object) -> bool:
    if not isinstance(result, QueryBoolean):
        raise DatabaseError(detail="an ASK query was expected")
    return bool(result)
