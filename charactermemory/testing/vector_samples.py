"""Short ways to make vector records for tests, and to read what a search found."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from charactermemory.adapters.qdrant.records import SURFACE_OF
from charactermemory.domain.kinds import SCHEMA_VERSION
from charactermemory.ids import MemoryObjectRef, ObjectType
from charactermemory.ports.vectors import LegHits, Surface, VectorRecord

EVERY_TYPE = tuple(ObjectType)


def ref(number: int, object_type: ObjectType = ObjectType.OBSERVATION) -> MemoryObjectRef:
    """Name the object whose id is `number`; lower numbers come first in canonical order."""
    return MemoryObjectRef.of(object_type, UUID(int=number))


def record(
    number: int,
    embedding: Sequence[float],
    text: str = "",
    object_type: ObjectType = ObjectType.OBSERVATION,
    schema_version: str = SCHEMA_VERSION,
) -> VectorRecord:
    """Make the record of one object."""
    surface = Surface(
        ref=ref(number, object_type),
        surface=SURFACE_OF[object_type],
        schema_version=schema_version,
        embedding_text=f"Label: {text}",
        lexical_text=text,
    )
    return VectorRecord(surface=surface, embedding=embedding)


def numbers(leg: LegHits) -> list[int]:
    """Return the ids of a leg's candidates as numbers, in order."""
    return [candidate.ref.id.int for candidate in leg.candidates]
