"""The receipts: the head, the log that derived stores follow, and the order in which everything was written.

Receipts are asked for by their names, and kept in volumes of 256 so that the head is found without reading
them all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pyoxigraph import NamedNode, Triple

from charactermemory.adapters.oxigraph import queries
from charactermemory.adapters.oxigraph import vocabulary as cm
from charactermemory.adapters.oxigraph.answers import found_number, found_ref
from charactermemory.adapters.oxigraph.connection import Connection
from charactermemory.adapters.oxigraph.hydration import Node
from charactermemory.adapters.oxigraph.mapping import VOLUME_SIZE, volume_triples
from charactermemory.adapters.oxigraph.reads import chunks
from charactermemory.adapters.oxigraph.terms import (
    INSTANT,
    INTEGER,
    STRING,
    fence_iri,
    receipt_iri,
    volume_iri,
)
from charactermemory.errors import GraphQueryError
from charactermemory.ids import MemoryObjectRef
from charactermemory.ports.graph import Receipt

RECEIPTS_PER_QUERY = 50
"""Receipts read in one query; each may name 500 objects."""

_PREDICATES = (cm.OPERATION, cm.AT, cm.WROTE, cm.TOUCHED)


@dataclass(frozen=True, slots=True)
class _End:
    """The last token of the receipts and of the fences, as of one version of the store."""

    version: int | None
    head: int
    fence: int


class Ledger:
    """The receipts of one collection's graph.

    The head is asked for several times a commit, and read anew only when the store may have changed.
    """

    def __init__(self, connection: Connection, graph: NamedNode) -> None:
        self._connection = connection
        self._graph = graph
        self._end = _End(None, 0, 0)
        self._volume = 0  # the last one when the end was last read; it seldom ends between two reads

    def head(self) -> int:
        """Return the number of the last commit or raised head, 0 for none; one round trip, two in a new volume."""
        return self._last().head

    def greatest_token(self) -> int:
        """Return the greatest token of receipts and fences; no later writer may go below it."""
        end = self._last()
        return max(end.head, end.fence)

    def committed(self, token: int) -> None:
        """Take note that the holder of the writer lock has added commit `token`.

        If nothing else was written since the end was last read, there is no need to read it again.
        """
        version, end = self._connection.version(), self._end
        if version is not None and end.version == version - 1:
            self._end = _End(version, max(token, end.head), end.fence)

    def _last(self) -> _End:
        version, end = self._connection.version(), self._end
        if version is None or end.version != version:
            end = self._end = _End(version, *self._read_last())
        return end

    def _read_last(self) -> tuple[int, int]:
        known = self._volume
        volume, fence, last = None, 0, 0
        for top, token, listed in self._connection.query(queries.top_volume(self._graph, volume_iri(known))):
            volume = found_number(top) if top is not None else volume
            fence = found_number(token) if token is not None else fence
            last = found_number(listed) if listed is not None else last
        if volume is not None and volume != known:
            self._volume, last = volume, self._last_of(volume)
        return last, fence

    def _last_of(self, volume: int) -> int:
        rows = self._connection.query(queries.last_token(self._graph, volume_iri(volume)))
        return max((found_number(row[0]) for row in rows if row[0] is not None), default=0)

    def _tokens(self, volume: int) -> list[int]:
        rows = self._connection.query(queries.volume_tokens(self._graph, volume_iri(volume)))
        return sorted(found_number(row[0]) for row in rows)

    def has(self, token: int) -> bool:
        """Return whether the receipt numbered `token` is there."""
        return self._connection.ask(f"ASK {{ GRAPH {self._graph} {{ {receipt_iri(token)} {cm.TOKEN} ?t }} }}")

    def receipts(self, after: int, upto: int) -> list[Receipt]:
        """See `GraphStore.receipts`."""
        return [
            _receipt(token, node)
            for tokens in chunks(range(after + 1, upto + 1), RECEIPTS_PER_QUERY)
            for token, node in sorted(self._read(tokens).items())
        ]

    def _read(self, tokens: list[int]) -> dict[int, Node]:
        nodes: dict[int, Node] = {}
        if not tokens:
            return nodes
        subjects = [(token, receipt_iri(token)) for token in tokens]
        text = queries.crossed(self._graph, subjects, enumerate(_PREDICATES))
        for token, kind, value in self._connection.query(text):
            number = found_number(token)
            if value is not None:
                node = nodes.setdefault(number, Node(receipt_iri(number)))
                node.terms[_PREDICATES[found_number(kind)].value].append(value)
        return nodes

    def scan(self, after: str | None, limit: int) -> tuple[list[MemoryObjectRef], str | None]:
        """See `GraphStore.scan`; the order is that of the receipts, and by name within one."""
        token, skip = _parse(after)
        page: list[MemoryObjectRef] = []
        for tokens in self._from(token):
            nodes = self._read(tokens)
            for number in tokens:
                wrote = sorted(nodes[number].values(cm.WROTE, found_ref)) if number in nodes else []
                start = skip if number == token else 0
                taken = wrote[start : start + limit - len(page)]
                page += taken
                if len(page) == limit:
                    return page, f"{number}.{start + len(taken)}"
        return page, None

    def _from(self, token: int) -> Iterator[list[int]]:
        """Yield the tokens of receipts from `token` on, ascending, in lists that one query can read."""
        rows = self._connection.query(queries.volumes(self._graph))
        volumes = sorted({found_number(row[0]) for row in rows})
        for volume in volumes:
            if volume >= token // VOLUME_SIZE:
                yield from chunks((t for t in self._tokens(volume) if t >= token), RECEIPTS_PER_QUERY)


def _parse(cursor: str | None) -> tuple[int, int]:
    if cursor is None:
        return 0, 0
    token, _, skip = cursor.partition(".")
    try:
        return int(token), int(skip)
    except ValueError:
        raise GraphQueryError(kind="selection", detail="the scan's cursor is none of this store's") from None


def _receipt(token: int, node: Node) -> Receipt:
    touched = {*node.values(cm.WROTE, found_ref), *node.values(cm.TOUCHED, found_ref)}
    return Receipt(
        token=token,
        operation=node.value(cm.OPERATION, STRING.read),
        at=node.value(cm.AT, INSTANT.read),
        objects=tuple(sorted(touched)),
    )


def raised_head(graph: NamedNode, token: int) -> str:
    """Return the update that adds a fence which counts as the head, like a receipt of nothing.

    Other fences do not: a writer sets one at the number it is about to use.
    """
    node = fence_iri(token)
    triples = [
        Triple(node, cm.TYPE, cm.FENCE_CLASS),
        Triple(node, cm.TOKEN, INTEGER.write(token)),
        *volume_triples(token),
    ]
    return f"INSERT DATA {{ GRAPH {graph} {{ {' . '.join(map(str, triples))} }} }}"
