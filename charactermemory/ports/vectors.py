"""The vector index port: candidate recall only, rebuildable from the graph at any time.

The index keeps its own place in the commit log (consistency.md R5): `applied`, every commit up to it
is durably reflected here, and `high`, nothing of a later commit was ever written here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from charactermemory.ids import MemoryObjectRef, ObjectType
from charactermemory.ports.embedding import Vector


class VectorSurface(StrEnum):
    """Which text of an object was embedded; `rank` orders candidates of one object."""

    SUMMARY = "summary"
    TEXT = "text"
    DERIVED_TEXT = "derived_text"

    rank: int
    """Stable rank (recall.md §1); a plain attribute, since it is asked for of every hit."""


for _surface, _rank in ((VectorSurface.SUMMARY, 0), (VectorSurface.TEXT, 1), (VectorSurface.DERIVED_TEXT, 3)):
    _surface.rank = _rank


@dataclass(frozen=True, slots=True)
class Surface:
    """The one text of an object that is embedded and indexed lexically."""

    ref: MemoryObjectRef
    surface: VectorSurface
    schema_version: str
    embedding_text: str
    lexical_text: str


@dataclass(frozen=True, slots=True)
class VectorRecord:
    """A surface with its embedding, ready to be written."""

    surface: Surface
    embedding: Vector


class VectorCandidate(NamedTuple):
    """One hit of one leg. Scores are rounded to 6 decimals; cosine for dense, BM25 for lexical."""

    ref: MemoryObjectRef
    surface: VectorSurface
    score: float

    @property
    def order(self) -> tuple[float, int, int, int]:
        """Canonical order: score descending, type rank, id, surface rank (recall.md §11.5)."""
        return (-self.score, self.ref.rank, self.ref.number, self.surface.rank)


@dataclass(frozen=True, slots=True)
class Completeness:
    """How much of its scope a leg saw."""

    kind: Literal["not_requested", "exhaustive", "boundary_tie_closed", "boundary_tie_open"]
    scanned: int | None = None
    fetched: int | None = None
    fetch_bound: int | None = None


@dataclass(frozen=True, slots=True)
class LegHits:
    """Candidates of one leg in canonical order, and the verdict on their completeness."""

    candidates: tuple[VectorCandidate, ...]
    completeness: Completeness


@dataclass(frozen=True, slots=True)
class HybridHits:
    """Both legs of one search."""

    dense: LegHits
    lexical: LegHits


@dataclass(frozen=True, slots=True)
class Cursor:
    """An index's or a statistics store's place in the commit log."""

    applied: int = 0
    high: int = 0


class VectorRebuild(Protocol):
    """A new generation of an index, filled beside the one that serves (consistency.md R10a).

    Done with after `switch` or `leave`; nothing else may be called then.
    """

    def write(self, upserts: Sequence[VectorRecord], deletes: Sequence[MemoryObjectRef], high: int) -> None:
        """Write into the new generation as `VectorIndex.write` does."""
        ...

    def present(self, refs: Sequence[MemoryObjectRef]) -> dict[MemoryObjectRef, str]:
        """Return the embedding text of those refs that are in the new generation."""
        ...

    def scan(self, after: str | None, limit: int) -> tuple[list[tuple[MemoryObjectRef, str]], str | None]:
        """Page through the points of the new generation as `VectorIndex.scan` does."""
        ...

    def switch(self, applied: int) -> None:
        """Flush, write `applied`, and make this generation the serving one, atomically."""
        ...

    def leave(self) -> None:
        """Stop here, making durable what was written; the next rebuild goes on with it."""
        ...


class VectorIndex(Protocol):
    """One collection's index. Thread-safe. A write is searchable when `write` returns, durable after `flush`.

    Raises everywhere: `VectorDatabaseError`, `CollectionIncompatible`,
    `StoreClosedError` after `close`, `StoreForkedError` in a forked child.
    """

    def search(
        self, embedding: Vector | None, text: str | None, limit: int, scope: Sequence[ObjectType]
    ) -> HybridHits:
        """Return up to `limit` candidates a leg, ties at the cut closed (recall.md §11.4-11.6).

        A leg whose query is None, a limit of 0 or an empty scope is `not_requested` and reaches no engine.
        """
        ...

    def write(self, upserts: Sequence[VectorRecord], deletes: Sequence[MemoryObjectRef], high: int) -> None:
        """Raise `high` (if greater), then delete, then upsert, in that order.

        Records are checked (schema version, dimension, finite, not all zero) before anything is written.
        Nothing to write reaches no engine.
        """
        ...

    def present(self, refs: Sequence[MemoryObjectRef]) -> dict[MemoryObjectRef, str]:
        """Return the stored embedding text of those refs that have a point."""
        ...

    def cursor(self) -> Cursor:
        """Return the index's place in the commit log; zeros for a new index."""
        ...

    def flush(self, applied: int | None = None) -> None:
        """Make all writes durable, then record `applied` (if given and greater) and make that durable too."""
        ...

    def scan(self, after: str | None, limit: int) -> tuple[list[tuple[MemoryObjectRef, str]], str | None]:
        """Page through all points as (ref, embedding text); the second value continues, None ends."""
        ...

    def count(self) -> int:
        """Return the exact number of points (the reserved cursor point not counted)."""
        ...

    def begin_rebuild(self, anew: bool = False) -> VectorRebuild:
        """Start a new generation of this index, with the fingerprint and size now configured.

        It holds what an interrupted rebuild wrote, if that was made with the same; with `anew` it is empty.
        """
        ...

    def backup(self, folder: Path) -> bool:
        """Flush, then copy the serving generation into `folder`, which must not exist.

        False, and nothing done, where the engine is another process with means of its own.
        """
        ...

    def close(self) -> None:
        """Flush and release; a second call does nothing."""
        ...
