"""The names that assertions give: few words of a sentence are one, so few need be looked up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pyoxigraph import Literal, NamedNode, Triple

from charactermemory.adapters.oxigraph import queries
from charactermemory.adapters.oxigraph import vocabulary as cm
from charactermemory.adapters.oxigraph.connection import Connection

NAMES = 1_000
"""Names kept of a collection, and assertions read for them, which takes some 3 ms; of more, each recall asks."""


class _Given(NamedTuple):
    """All names that are given while the store has this version, and maybe some more; None if too many."""

    version: int | None
    names: frozenset[str] | None


class GivenNames:
    """Every normalised name that some assertion of a collection gives, whatever became of it. Thread-safe.

    Read once, and carried on by the commits that are known for what they bring.
    """

    def __init__(self, connection: Connection, graph: NamedNode) -> None:
        self._connection = connection
        self._graph = graph
        self._given = _Given(None, None)

    def committed(self, triples: Iterable[Triple], version: int | None) -> None:
        """Take note of what one commit has added, alone, as `version` of the store; None if not alone."""
        last = self._given
        if version is None or last.version != version - 1:
            return
        names = last.names
        if names is not None:
            named = (triple.object for triple in triples if triple.predicate == cm.NORMALIZED_NAME)
            names = names.union(name.value for name in named if isinstance(name, Literal))
            if len(names) > NAMES:
                names = None
        self._given = _Given(version, names)

    def among(self, names: Iterable[str], version: int) -> list[str]:
        """Return those of `names` that some assertion gives at a version of the store, or may give."""
        last = self._given
        if last.version != version:
            last = self._given = _Given(version, self._read())
        return [name for name in names if last.names is None or name in last.names]

    def _read(self) -> frozenset[str] | None:
        rows = self._connection.query(queries.names_given(self._graph, NAMES + 1))
        names = frozenset(name.value for (name,) in rows if isinstance(name, Literal))
        return names if len(rows) <= NAMES else None
