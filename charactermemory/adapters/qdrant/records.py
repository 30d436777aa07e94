"""The stored record: point ids, the five payload fields, checks before a write (recall.md §11.2, §11.7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any
from uuid import UUID, uuid5

import numpy as np

from charactermemory.domain.kinds import SCHEMA_VERSION
from charactermemory.errors import CollectionIncompatible, UnsupportedSchemaVersion, VectorDatabaseError
from charactermemory.ids import MemoryObjectRef, ObjectType
from charactermemory.ports.embedding import Vector
from charactermemory.ports.vectors import VectorCandidate, VectorRecord, VectorSurface

POINT_NAMESPACE = UUID("7b0f1c3e-52d4-5b6a-9d0e-3c1a8f4e6b27")
"""Namespace of every point id; fixed for ever, or re-indexing would no longer replace."""

SURFACE_OF = {
    ObjectType.EPISODE: VectorSurface.SUMMARY,
    ObjectType.OBSERVATION: VectorSurface.TEXT,
    ObjectType.MEMORY_THREAD: VectorSurface.SUMMARY,
    ObjectType.DERIVED_MEMORY: VectorSurface.DERIVED_TEXT,
}
"""The one surface of each object type that has one (recall.md §11.1)."""

INDEXED_TYPES = frozenset(SURFACE_OF)

IDENTITY_FIELDS = ["object_id", "object_type", "surface"]
"""What a search reads of a payload."""

CURSOR_POINT = uuid5(POINT_NAMESPACE, "cursor")
"""Id of the one reserved point: no vectors, its payload is `applied` and `high` (consistency.md R5)."""


# Asked for several times in every write of an object, and a name-based id costs as much as a look-up.
@lru_cache(maxsize=4096)
def point_id(ref: MemoryObjectRef, surface: VectorSurface) -> UUID:
    """Return the id of the point of one surface; re-indexing it replaces."""
    return uuid5(POINT_NAMESPACE, f"{ref.object_type.value}:{ref.id}:{surface.value}")


def all_points(ref: MemoryObjectRef) -> list[UUID]:
    """Return the ids of every surface that `ref` could have: what a delete removes."""
    return [point_id(ref, surface) for surface in VectorSurface]


def payload(record: VectorRecord) -> dict[str, Any]:
    """Return the five stored fields."""
    surface = record.surface
    return {
        "object_id": str(surface.ref.id),
        "object_type": surface.ref.object_type.value,
        "surface": surface.surface.value,
        "schema_version": surface.schema_version,
        "embedding_text": surface.embedding_text,
    }


Identity = tuple[int, int, int]
"""Who a point is about: rank of the type, id as a number, rank of the surface. Sorts as equal scores do (recall.md
§11.5). Plain numbers, which Python's collector leaves alone: a process keeps them by the ten thousand."""

_TYPES = tuple(ObjectType)
_SURFACES = {surface.rank: surface for surface in VectorSurface}


def identity(backend: str, stored: Mapping[str, Any] | None) -> Identity:
    """Read who a point is about; fields beyond the five are ignored.

    Raises:
        VectorDatabaseError: `payload_deserialization`, for a missing or bad id, type or surface.
    """
    fields = stored or {}
    try:
        return _identity(fields["object_id"], fields["object_type"], fields["surface"])
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise _undecodable(backend, f"a point cannot be read: {type(error).__name__}: {error}") from error


# The same points come back query after query, and parsing them costs as much as the engine's own work.
@lru_cache(maxsize=16384)
def _identity(object_id: str, object_type: str, surface: str) -> Identity:
    return (ObjectType(object_type).rank, UUID(object_id).int, VectorSurface(surface).rank)


def identify(ref: MemoryObjectRef, surface: VectorSurface) -> Identity:
    """Return the identity of one surface of an object."""
    return (ref.rank, ref.number, surface.rank)


def ref_of(identity: Identity) -> MemoryObjectRef:
    """Return the object that a point is about."""
    rank, number, _ = identity
    return MemoryObjectRef.numbered(_TYPES[rank], number)


def candidate(identity: Identity, score: float) -> VectorCandidate:
    """Return the hit of a point."""
    return VectorCandidate(ref_of(identity), _SURFACES[identity[2]], score)


def embedding_text(backend: str, stored: Mapping[str, Any] | None) -> str:
    """Read the text that was embedded.

    Raises:
        VectorDatabaseError: `payload_deserialization`, where it is missing or no text.
    """
    text = (stored or {}).get("embedding_text")
    if not isinstance(text, str):
        raise _undecodable(backend, "a point has no embedding_text")
    return text


def _undecodable(backend: str, message: str) -> VectorDatabaseError:
    return VectorDatabaseError(backend=backend, kind="payload_deserialization", message=message)


def check_records(
    backend: str, collection: str, size: int, records: Sequence[VectorRecord]
) -> list[list[float]]:
    """Return the embeddings as the engine takes them, in order, after every check; nothing is written.

    The engines accept NaN and zero vectors silently (decisions.md "To R6"), so they are refused here.

    Raises:
        UnsupportedSchemaVersion: a record of another schema version than this release writes.
        CollectionIncompatible: `vector_size`, for an embedding of another dimension.
        VectorDatabaseError: `conversion`, for an embedding that is not finite or has no length, and for an
            object type or surface that is never indexed.
    """
    vectors = []
    for number, record in enumerate(records):
        surface = record.surface
        if surface.schema_version != SCHEMA_VERSION:
            raise UnsupportedSchemaVersion(
                context=f"vector record of {surface.ref}",
                expected=SCHEMA_VERSION,
                actual=surface.schema_version,
            )
        where = f"record {number} ({surface.ref})"
        if SURFACE_OF.get(surface.ref.object_type) is not surface.surface:
            raise VectorDatabaseError(
                backend=backend,
                kind="conversion",
                message=f"{where}: surface {surface.surface.value} is never indexed for this type",
            )
        vector = _vector(backend, collection, size, record.embedding, where)
        if vector is None:
            raise VectorDatabaseError(
                backend=backend, kind="conversion", message=f"{where}: the embedding is all zeros"
            )
        vectors.append(vector)
    return vectors


def check_query(backend: str, collection: str, size: int, embedding: Vector) -> list[float] | None:
    """Return a query embedding as the engine takes it, None when it has no length (recall.md §11.4.3).

    Raises:
        CollectionIncompatible: `vector_size`.
        VectorDatabaseError: `conversion`, for one that is not finite.
    """
    return _vector(backend, collection, size, embedding, "query")


_SHORT = 1e-6
"""Square of a length. The engines leave a vector as it is whose square is below 1.2e-7: what they score is no
cosine then, and the short form errs without bound (`glance`)."""


def _vector(backend: str, collection: str, size: int, embedding: Vector, where: str) -> list[float] | None:
    if len(embedding) != size:
        raise CollectionIncompatible(
            collection=collection, mismatch="vector_size", expected=str(size), actual=str(len(embedding))
        )
    # The engines compute in single precision, so that is where a length must neither vanish nor overflow.
    with np.errstate(over="ignore"):
        single = np.asarray(embedding, dtype=np.float32)
        length = float(np.dot(single, single))
    if not np.isfinite(length):
        raise VectorDatabaseError(
            backend=backend, kind="conversion", message=f"{where}: the embedding is not finite"
        )
    if length == 0.0:
        return None
    if length < _SHORT:
        single = single / np.abs(single).max()
    values: list[float] = single.tolist()
    return values
