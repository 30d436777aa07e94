"""Reading the graph in pages, past what cannot be read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import TypeVar

from charactermemory.domain.lifecycle import Stored
from charactermemory.errors import GraphQueryError, StoredConflict
from charactermemory.ids import MemoryObjectRef
from charactermemory.ports.graph import GraphStore

PAGE = 256
"""Objects read, embedded and written at a time."""

Fault = StoredConflict | GraphQueryError
"""Why one stored object cannot be read, while those beside it can."""

Item = TypeVar("Item")


def pages(graph: GraphStore, size: int = PAGE) -> Iterator[list[MemoryObjectRef]]:
    """Yield every stored object and link, `size` at a time."""
    after: str | None = None
    while True:
        refs, after = graph.scan(after, size)
        if refs:
            yield refs
        if after is None:
            return


def sliced(items: Iterable[Item], size: int = PAGE) -> Iterator[list[Item]]:
    """Cut `items` into lists of at most `size`."""
    rest = iter(items)
    while part := list(islice(rest, size)):
        yield part


def readable(
    graph: GraphStore, refs: Collection[MemoryObjectRef], anew: bool = False
) -> tuple[dict[MemoryObjectRef, Stored], dict[MemoryObjectRef, Fault]]:
    """Return the stored objects among `refs`, and why some cannot be read (two contents, a corrupt value).

    With `anew` nothing known of their contents is trusted.

    Raises:
        StoreError: the graph itself could not be read.
    """
    try:
        return graph.read(refs, anew), {}
    except (StoredConflict, GraphQueryError) as fault:
        if isinstance(fault, GraphQueryError) and fault.kind != "hydration":
            raise
        ordered = list(refs)
        if len(ordered) == 1:
            return {}, {ordered[0]: fault}
    stored: dict[MemoryObjectRef, Stored] = {}
    faults: dict[MemoryObjectRef, Fault] = {}
    for half in (ordered[: len(ordered) // 2], ordered[len(ordered) // 2 :]):
        found, failed = readable(graph, half, anew)
        stored |= found
        faults |= failed
    return stored, faults
