"""An in-memory vector index that keeps the whole port contract: exact, no engine, nothing on disk."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from charactermemory.adapters.qdrant.lexical import DEFAULT_LANGUAGE, Lexical, Terms
from charactermemory.adapters.qdrant.records import Identity, check_query, check_records, identify
from charactermemory.adapters.qdrant.search import NOT_REQUESTED, nothing_found, search_legs, zero_norm_leg
from charactermemory.errors import StoreClosedError
from charactermemory.ids import MemoryObjectRef, ObjectType
from charactermemory.ports.embedding import Vector
from charactermemory.ports.vectors import Cursor, HybridHits, VectorRecord

BACKEND = "in_memory"
_STORE_NAME = "in-memory vector index"


class _Stored(NamedTuple):
    record: VectorRecord
    unit: npt.NDArray[np.float32]
    terms: dict[int, float]


class _Hit(NamedTuple):
    score: float
    point: _Stored


@dataclass
class _Generation:
    """What one rebuild makes: points by object, and the place in the commit log."""

    points: dict[MemoryObjectRef, _Stored] = field(default_factory=dict)
    cursor: Cursor = Cursor()

    def write(
        self,
        lexical: Lexical,
        vectors: Iterable[list[float]],
        upserts: Sequence[VectorRecord],
        deletes: Sequence[MemoryObjectRef],
        high: int,
    ) -> None:
        """Write checked records."""
        if not upserts and not deletes:
            return
        self.cursor = Cursor(self.cursor.applied, max(self.cursor.high, high))
        for ref in deletes:
            self.points.pop(ref, None)
        for record, vector in zip(upserts, vectors, strict=True):
            terms = lexical.document(record.surface.lexical_text)
            weights = dict(zip(terms.indices, terms.values, strict=True)) if terms else {}
            self.points[record.surface.ref] = _Stored(record, _unit(vector), weights)

    def apply(self, applied: int | None) -> None:
        """Raise `applied`."""
        if applied is not None and applied > self.cursor.applied:
            self.cursor = Cursor(applied, self.cursor.high)

    def present(self, refs: Sequence[MemoryObjectRef]) -> dict[MemoryObjectRef, str]:
        """Return the embedding texts of those refs that are there."""
        return {ref: self.points[ref].record.surface.embedding_text for ref in refs if ref in self.points}

    def scan(self, after: str | None, limit: int) -> tuple[list[tuple[MemoryObjectRef, str]], str | None]:
        """Page through the points in the order of their references."""
        order = sorted(self.points)
        start = 0 if after is None else int(after)
        end = start + limit
        return list(self.present(order[start:end]).items()), str(end) if end < len(order) else None


def _unit(vector: list[float]) -> npt.NDArray[np.float32]:
    exact = np.asarray(vector, dtype=np.float64)
    return (exact / np.linalg.norm(exact)).astype(np.float32)


class InMemoryVectorIndex:
    """`VectorIndex` for tests: cosine and BM25 computed here, everything else by the adapters' own rules."""

    def __init__(self, collection: str, size: int, language: str = DEFAULT_LANGUAGE) -> None:
        self._collection = collection
        self._size = size
        self._lexical = Lexical(language)
        self._lock = threading.RLock()
        self._serving = _Generation()
        self._left: _Generation | None = None
        self._closed = False

    def _check(self) -> None:
        if self._closed:
            raise StoreClosedError(store=_STORE_NAME)

    def search(
        self, embedding: Vector | None, text: str | None, limit: int, scope: Sequence[ObjectType]
    ) -> HybridHits:
        """See `VectorIndex.search`."""
        self._check()
        if limit <= 0 or not scope or (embedding is None and text is None):
            return HybridHits(dense=NOT_REQUESTED, lexical=NOT_REQUESTED)
        vector = None
        if embedding is not None:
            vector = check_query(BACKEND, self._collection, self._size, embedding)
        terms = None if text is None else self._lexical.query(text)
        with self._lock:
            inside = [p for p in self._serving.points.values() if p.record.surface.ref.object_type in scope]
            fetch_dense = None if vector is None else _maker(self._by_cosine(inside, vector))
            fetch_terms = None if terms is None else _maker(self._by_terms(inside, terms))
            found = search_legs(
                lambda requests: requests, _identities, (fetch_dense, fetch_terms), limit, len(inside)
            )
        if embedding is not None and vector is None:
            everything = _identities([_Hit(0.0, point) for point in inside])
            found = replace(found, dense=zero_norm_leg(everything, limit))
        if text is not None and terms is None:
            found = replace(found, lexical=nothing_found(len(inside)))
        return found

    def _by_cosine(self, inside: Sequence[_Stored], vector: list[float]) -> list[_Hit]:
        unit = _unit(vector)
        return _best_first(_Hit(float(np.dot(point.unit, unit)), point) for point in inside)

    def _by_terms(self, inside: Sequence[_Stored], terms: Terms) -> list[_Hit]:
        corpus = [point.terms for point in self._serving.points.values() if point.terms]
        holders = Counter(term for weights in corpus for term in terms.indices if term in weights)
        idf = {
            term: math.log((len(corpus) - holders[term] + 0.5) / (holders[term] + 0.5) + 1)
            for term in terms.indices
        }
        return _best_first(
            _Hit(sum(point.terms[term] * idf[term] for term in idf if term in point.terms), point)
            for point in inside
            if not point.terms.keys().isdisjoint(idf)
        )

    def write(self, upserts: Sequence[VectorRecord], deletes: Sequence[MemoryObjectRef], high: int) -> None:
        """See `VectorIndex.write`."""
        self._write(self._serving, upserts, deletes, high)

    def _write(
        self,
        generation: _Generation,
        upserts: Sequence[VectorRecord],
        deletes: Sequence[MemoryObjectRef],
        high: int,
    ) -> None:
        self._check()
        vectors = check_records(BACKEND, self._collection, self._size, upserts)
        with self._lock:
            generation.write(self._lexical, vectors, upserts, deletes, high)

    def present(self, refs: Sequence[MemoryObjectRef]) -> dict[MemoryObjectRef, str]:
        """See `VectorIndex.present`."""
        self._check()
        with self._lock:
            return self._serving.present(refs)

    def cursor(self) -> Cursor:
        """See `VectorIndex.cursor`."""
        self._check()
        return self._serving.cursor

    def flush(self, applied: int | None = None) -> None:
        """See `VectorIndex.flush`; memory is as durable as it gets."""
        self._check()
        with self._lock:
            self._serving.apply(applied)

    def scan(self, after: str | None, limit: int) -> tuple[list[tuple[MemoryObjectRef, str]], str | None]:
        """See `VectorIndex.scan`."""
        self._check()
        with self._lock:
            return self._serving.scan(after, limit)

    def count(self) -> int:
        """See `VectorIndex.count`."""
        self._check()
        return len(self._serving.points)

    def begin_rebuild(self, anew: bool = False) -> InMemoryRebuild:
        """See `VectorIndex.begin_rebuild`."""
        self._check()
        left, self._left = None if anew else self._left, None
        return InMemoryRebuild(self, left or _Generation())

    def backup(self, folder: Path) -> bool:
        """See `VectorIndex.backup`; there is no file."""
        return False

    def close(self) -> None:
        """See `VectorIndex.close`."""
        self._closed = True


def _identities(hits: Sequence[_Hit]) -> list[Identity]:
    surfaces = [hit.point.record.surface for hit in hits]
    return [identify(surface.ref, surface.surface) for surface in surfaces]


def _maker(hits: list[_Hit]) -> Callable[[int], list[_Hit]]:
    return lambda ask: hits[:ask]


def _best_first(hits: Iterable[_Hit]) -> list[_Hit]:
    return sorted(hits, key=lambda hit: -hit.score)


class InMemoryRebuild:
    """`VectorRebuild` of the in-memory index."""

    def __init__(self, index: InMemoryVectorIndex, generation: _Generation) -> None:
        self._index = index
        self._generation: _Generation | None = generation

    def _use(self) -> _Generation:
        self._index._check()
        if self._generation is None:
            raise StoreClosedError(store=f"{_STORE_NAME} generation")
        return self._generation

    def write(self, upserts: Sequence[VectorRecord], deletes: Sequence[MemoryObjectRef], high: int) -> None:
        """See `VectorRebuild.write`."""
        self._index._write(self._use(), upserts, deletes, high)

    def present(self, refs: Sequence[MemoryObjectRef]) -> dict[MemoryObjectRef, str]:
        """See `VectorRebuild.present`."""
        with self._index._lock:
            return self._use().present(refs)

    def scan(self, after: str | None, limit: int) -> tuple[list[tuple[MemoryObjectRef, str]], str | None]:
        """See `VectorRebuild.scan`."""
        with self._index._lock:
            return self._use().scan(after, limit)

    def switch(self, applied: int) -> None:
        """See `VectorRebuild.switch`."""
        with self._index._lock:
            generation = self._use()
            generation.apply(applied)
            self._index._serving = generation
            self._generation = None

    def leave(self) -> None:
        """See `VectorRebuild.leave`."""
        self._index._left, self._generation = self._use(), None
