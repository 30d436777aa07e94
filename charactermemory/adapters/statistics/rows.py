"""How references and edges stand in rows."""

from __future__ import annotations

from charactermemory.domain.kinds import RelationType
from charactermemory.ids import MemoryObjectRef, ObjectType
from charactermemory.ports.statistics import HubEdge

_TYPES = tuple(ObjectType)
_RELATIONS = tuple(RelationType)


Key = tuple[bytes, int]
"""A reference in a row: the id's bytes, the type's rank."""


def key_of(ref: MemoryObjectRef) -> Key:
    """Return the columns of a reference."""
    return ref.number.to_bytes(16, "big"), ref.rank


def ref_of(id_bytes: bytes, rank: int) -> MemoryObjectRef:
    """Return the reference in two columns."""
    return MemoryObjectRef.numbered(_TYPES[rank], int.from_bytes(id_bytes, "big"))


def edge_of(hub: bytes, hub_rank: int, relation_rank: int, ref: MemoryObjectRef) -> HubEdge:
    """Return the edge of `ref` that a row holds."""
    return HubEdge(ref_of(hub, hub_rank), _RELATIONS[relation_rank], ref)
