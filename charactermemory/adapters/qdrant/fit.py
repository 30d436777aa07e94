"""What an index was built with, stored beside it, and whether that fits what is configured now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal

from charactermemory.domain.kinds import SCHEMA_VERSION
from charactermemory.errors import CharacterMemoryError, CollectionIncompatible, UnsupportedSchemaVersion

KIND = "vectors"
"""What the marker of a vector store says it is."""

FORMAT = 1
"""Version of the layout of folders, points and metadata."""

OnMismatch = Literal["refuse", "rebuild_only"]
"""`refuse`: opening fails. `rebuild_only`: opens, serves the legs that still fit, writes no vectors."""


@dataclass(frozen=True, slots=True)
class Build:
    """How the vectors of a generation were made."""

    size: int
    fingerprint: str
    lexical: str
    record_schema_version: str = SCHEMA_VERSION

    def stored(self) -> dict[str, object]:
        """Return the fields as they are stored."""
        return asdict(self)


def read_build(collection: str, stored: Mapping[str, object]) -> Build:
    """Read what `Build.stored` gave.

    Raises:
        CollectionIncompatible: `fingerprint`, where a field is missing or of another type.
    """
    size = stored.get("size")
    texts = [stored.get(name) for name in ("fingerprint", "lexical", "record_schema_version")]
    if isinstance(size, float) and size.is_integer():
        size = int(size)  # numbers come back as floats through gRPC
    if not isinstance(size, int) or not all(isinstance(text, str) for text in texts):
        raise CollectionIncompatible(
            collection=collection,
            mismatch="fingerprint",
            expected="a record of how it was built",
            actual="none",
        )
    fingerprint, lexical, version = (str(text) for text in texts)
    return Build(size=size, fingerprint=fingerprint, lexical=lexical, record_schema_version=version)


def dense_mismatch(collection: str, wanted: Build, found: Build) -> CharacterMemoryError | None:
    """Return why embeddings made now must not meet those stored, None where they may."""
    if found.record_schema_version != wanted.record_schema_version:
        return UnsupportedSchemaVersion(
            context=f"marker of the vector index {collection}",
            expected=wanted.record_schema_version,
            actual=found.record_schema_version,
        )
    if found.size != wanted.size:
        return CollectionIncompatible(
            collection=collection,
            mismatch="vector_size",
            expected=str(wanted.size),
            actual=str(found.size),
        )
    if found.fingerprint != wanted.fingerprint:
        return CollectionIncompatible(
            collection=collection,
            mismatch="fingerprint",
            expected=wanted.fingerprint,
            actual=found.fingerprint,
        )
    return None


def lexical_mismatch(collection: str, wanted: Build, found: Build) -> CharacterMemoryError | None:
    """Return why terms made now must not meet those stored, None where they may."""
    if found.lexical != wanted.lexical:
        return CollectionIncompatible(
            collection=collection, mismatch="fingerprint", expected=wanted.lexical, actual=found.lexical
        )
    return None


def check_fit(
    collection: str, wanted: Build, found: Build, *, dense: bool = True, lexical: bool = True
) -> None:
    """Raise the mismatch of the parts asked about, if any (other fingerprints never meet)."""
    problem = (dense_mismatch(collection, wanted, found) if dense else None) or (
        lexical_mismatch(collection, wanted, found) if lexical else None
    )
    if problem is not None:
        raise problem
