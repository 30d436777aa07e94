"""Loading an export into an empty graph, in updates of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import BinaryIO

from pyoxigraph import NamedNode, Quad, RdfFormat, Triple, parse

from charactermemory.adapters.oxigraph.connection import STORE_NAME, Connection, ResponseLost
from charactermemory.errors import InvalidInput, StoreUnavailable

CHUNK_TRIPLES = 10_000
"""Triples of one update, 0.2 s over HTTP (consistency.md §7)."""

_LOG = ("urn:charactermemory:receipt:", "urn:charactermemory:fence:")
"""What makes commits of the triples; it comes last, so that a load cut off leaves a graph without a commit."""


def load(connection: Connection, graph: NamedNode, file: BinaryIO) -> int:
    """Add every triple of a TriG file with one named graph to `graph`; return their number.

    Adding a triple twice changes nothing, so a load that was cut off is simply repeated.

    Raises:
        InvalidInput: the file is no TriG, or holds more than one graph.
        StoreUnavailable, DatabaseError: the store failed; part of the file may be loaded.
    """
    count = 0
    for wanted in (_is_content, _is_log):
        file.seek(0)
        triples = _triples(file, wanted)
        while chunk := list(islice(triples, CHUNK_TRIPLES)):
            _insert(connection, graph, chunk)
            count += len(chunk)
    return count


def _triples(file: BinaryIO, wanted: Callable[[Triple], bool]) -> Iterator[Triple]:
    graphs = set()
    for quad in _parsed(file):
        graphs.add(quad.graph_name)
        if len(graphs) > 1 or not isinstance(quad.graph_name, NamedNode):
            raise InvalidInput((("/", "an export holds exactly one named graph"),))
        if wanted(quad.triple):
            yield quad.triple


def _parsed(file: BinaryIO) -> Iterator[Quad]:
    try:
        yield from parse(file, format=RdfFormat.TRIG)
    except SyntaxError as error:
        raise InvalidInput((("/", f"the file is no TriG: {error}"),)) from error


def _is_log(triple: Triple) -> bool:
    return isinstance(triple.subject, NamedNode) and triple.subject.value.startswith(_LOG)


def _is_content(triple: Triple) -> bool:
    return not _is_log(triple)


def _insert(connection: Connection, graph: NamedNode, triples: Iterable[Triple]) -> None:
    cells = "\n".join(f"{triple} ." for triple in triples)
    try:
        connection.update(f"INSERT DATA {{ GRAPH {graph} {{\n{cells}\n}} }}")
    except ResponseLost as lost:
        raise StoreUnavailable(store=STORE_NAME, detail=f"the load was cut off: {lost.detail}") from lost
