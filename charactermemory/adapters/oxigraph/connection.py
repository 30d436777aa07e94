"""What the graph adapter asks of a SPARQL store, and the terms it speaks in (DESIGN R3).

Everything else of the adapter is written on `Connection`. There are three: an embedded persistent store, an
in-memory one, and a SPARQL 1.1 endpoint over HTTP. Texts are built from constants and from terms that the
library serialises, never by formatting user text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias

from pyoxigraph import BlankNode, Literal, NamedNode, Triple

__all__ = [
    "STORE_NAME",
    "BlankNode",
    "Connection",
    "Literal",
    "NamedNode",
    "Pattern",
    "ResponseLost",
    "Row",
    "Term",
    "Triple",
    "as_nquads",
]

Term: TypeAlias = NamedNode | BlankNode | Literal | Triple
"""What a query variable or a triple's object may be."""

Row: TypeAlias = tuple[Term | None, ...]
"""One solution, in the order of the SELECT clause; None where a variable is unbound."""

STORE_NAME = "graph store"
"""What errors call every connection."""


class Pattern(NamedTuple):
    """One triple pattern, read up to `limit` triples; None matches anything, and sets no limit."""

    subject: NamedNode | None
    predicate: NamedNode | None
    object: NamedNode | Literal | None
    limit: int | None = None


class ResponseLost(Exception):  # noqa: N818 - not a failure of the update: its outcome is not known yet
    """An update was handed over and no answer told what became of it; never leaves the adapter.

    The writer that sent it finds out and raises or goes on accordingly. `in_flight` False (embedded: the
    engine was closed and is reopened by the next call): reading the receipt tells. True (service: time-out,
    reset, broken pipe): the update may still be under evaluation and must be settled first.
    """

    def __init__(self, detail: str, *, in_flight: bool) -> None:
        super().__init__(detail)
        self.detail = detail
        self.in_flight = in_flight


class Connection(Protocol):
    """A SPARQL store. Thread-safe. Each call is one snapshot; two calls may see different states.

    Every call may raise `StoreUnavailable` (cannot be reached, nothing happened), `DatabaseError` (refused or
    failed), `StoreClosedError` and `StoreForkedError`.
    """

    def query(self, text: str) -> list[Row]:
        """Return all solutions of a SELECT query, in the store's order."""
        ...

    def ask(self, text: str) -> bool:
        """Return the answer to an ASK query."""
        ...

    def update(self, text: str) -> None:
        """Apply an update, whole or not at all. It is never sent twice.

        Raises:
            ResponseLost: it was sent, and whether it took effect is not known.
            StoreUnavailable: it was not sent.
            DatabaseError: the store refused it; nothing happened.
        """
        ...

    def match(self, graph: NamedNode, patterns: Sequence[Pattern]) -> list[list[Triple]]:
        """Return one list of triples per pattern, in their order, at most `limit` each, in one round trip.

        Which triples are returned when there are more than `limit` is the store's choice. Embedded, each
        pattern is a snapshot of its own; over HTTP all of them are one.
        """
        ...

    def occurring(self, graph: NamedNode, patterns: Iterable[Pattern]) -> set[Pattern]:
        """Return the patterns that some triple of `graph` matches; all of them where telling is no local call."""
        ...

    def dump(self, graph: NamedNode) -> Iterator[bytes]:
        """Yield every triple of `graph` as an N-Quads line with its line feed, unsorted, one snapshot."""
        ...

    def version(self) -> int | None:
        """Return a number that goes up by one with every update and whenever the store may be another.

        None where others write the store too (service): what was read of it holds no longer than its call.
        """
        ...

    def sync(self) -> None:
        """Make every update that returned before this call durable, as far as the store lets us.

        Embedded: syncs the engine's log. Service: nothing, durability is the endpoint's.

        Raises:
            ResponseLost: the sync failed (`in_flight` False): reading the receipt tells what survived.
        """
        ...

    def backup(self, folder: Path) -> bool:
        """Copy the store into `folder`, which must not exist, one snapshot; False where it is no file of ours."""
        ...

    def close(self) -> None:
        """Give the store back; a second call does nothing."""
        ...


def as_nquads(lines: Iterable[bytes], graph: NamedNode) -> Iterator[bytes]:
    """Turn N-Triples lines, each ending in ` .` and a line feed, into N-Quads lines of `graph`."""
    ending = b" " + str(graph).encode() + b" .\n"
    for line in lines:
        triple = line.rstrip()
        if triple:
            yield triple.removesuffix(b".").rstrip() + ending
