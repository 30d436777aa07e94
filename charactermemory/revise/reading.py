"""Complete reads of what a lifecycle change may reach, in pages (decisions R10)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from charactermemory.domain.lifecycle import Stored
from charactermemory.ids import MemoryId, MemoryObjectRef, ObjectType
from charactermemory.ports.graph import GraphStore

READ_PAGE = 1_000
"""Objects read at a time while a cascade is gathered (decisions R10)."""


def read_all(graph: GraphStore, refs: Sequence[MemoryObjectRef]) -> dict[MemoryObjectRef, Stored]:
    """Return the stored objects among `refs`, however many."""
    found: dict[MemoryObjectRef, Stored] = {}
    for start in range(0, len(refs), READ_PAGE):
        found |= graph.read(refs[start : start + READ_PAGE])
    return found


def refs_of(object_type: ObjectType, ids: Iterable[MemoryId]) -> list[MemoryObjectRef]:
    """Return the typed references of these ids, in their order."""
    return [MemoryObjectRef.of(object_type, id_) for id_ in ids]
