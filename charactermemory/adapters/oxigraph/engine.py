"""Calls into a pyoxigraph store, shared by the embedded and the in-memory connection."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from operator import attrgetter
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
        self._store: Store | None = Store(path)
        self._occurring: set[tuple[NamedNode, NamedNode]] = set()

    @property
    def store(self) -> Store:
        """The store; use it without binding it to a name.

        Raises:
            DatabaseError: the engine was closed.
        """
        if self._store is None:
            raise DatabaseError(detail="the engine was closed during the call")
        return self._store

    def query(self, text: str) -> list[Row]:
        """See `Connection.query`."""
        return _reading(lambda: _rows(self.store.query(text)))

    def ask(self, text: str) -> bool:
        """See `Connection.ask`."""
        return _reading(lambda: _truth(self.store.query(text)))

    def match(self, graph: NamedNode, patterns: Sequence[Pattern]) -> list[list[Triple]]:
        """See `Connection.match`; an iterator per pattern, cut off at its limit.

        Of predicates that occur nowhere nothing is asked: a recall asks for every relation of dozens of nodes,
        and most collections use a few.
        """
        return _reading(lambda: self._match_all(graph, patterns))

    def _match_all(self, graph: NamedNode, patterns: Sequence[Pattern]) -> list[list[Triple]]:
        absent = {
            predicate
            for predicate in {pattern.predicate for pattern in patterns}
            if predicate is not None and not self._occurs(graph, predicate)
        }
        return [[] if item.predicate in absent else self._match(graph, item) for item in patterns]

    def _occurs(self, graph: NamedNode, predicate: NamedNode) -> bool:
        """Whether any triple has the predicate; once one has, that stays so, for the graph only grows."""
        if (graph, predicate) not in self._occurring:
            if not self._match(graph, Pattern(None, predicate, None, 1)):
                return False
            self._occurring.add((graph, predicate))
        return True

    def _match(self, graph: NamedNode, pattern: Pattern) -> list[Triple]:
        return list(
            map(
                attrgetter("triple"),
                islice(
                    self.store.quads_for_pattern(pattern.subject, pattern.predicate, pattern.object, graph),
                    pattern.limit,
                ),
            )
        )

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
