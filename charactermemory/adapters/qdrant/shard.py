"""One generation of an embedded index: a Qdrant Edge shard and its place in the commit log.

Not locked: the owner (`edge.py`) admits one thread at a time. Edge holds the GIL for the whole of every call
(consistency.md §5), so long work is cut into calls that let other threads run in between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count, islice
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from charactermemory.errors import CharacterMemoryError, VectorDatabaseError
from charactermemory.ids import MemoryObjectRef, ObjectType
from charactermemory.ports.embedding import Vector
from charactermemory.ports.vectors import Cursor, HybridHits, VectorRecord

from .glance import Glance, short_form
from .lexical import SPARSE_NAME, Lexical, Terms
from .page_cache import read_through
from .records import (
    CURSOR_POINT,
    IDENTITY_FIELDS,
    SURFACE_OF,
    Identity,
    all_points,
    check_query,
    check_records,
    embedding_text,
    identity,
    payload,
    point_id,
    ref_of,
)
from .search import nothing_found, restricted, search_legs, zero_norm_leg

if TYPE_CHECKING:
    import qdrant_edge

BACKEND = "qdrant_edge"

CALL_POINTS = 500
"""Points of one engine call: 20,000 in one upsert held the GIL for 159 ms (consistency.md §5)."""

KNOWN_POINTS = 131_072
"""Points of this process of which it is kept who they are about, some 260 bytes each; a search meets a hundred,
and of a memory of 100,000 objects it would otherwise read most of them anew."""

_known: dict[tuple[int, int], Identity] = {}
"""By the generation's number in this process and the point's id."""
_generations = count()

_FACET_LIMIT = 64

SEGMENTS = "segments"
"""Where in its folder the engine keeps what it searches; beside it is its log."""


@contextmanager
def engine_errors() -> Iterator[None]:
    """Turn what the engine raises, bare `Exception` and panics, into `VectorDatabaseError` of kind `engine`."""
    try:
        yield
    except CharacterMemoryError:
        raise
    except BaseException as error:
        # A panic, as over damaged files, is no Exception, and would end a thread that must go on.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise VectorDatabaseError(backend=BACKEND, kind="engine", message=str(error)) from error


def _remember(read: Mapping[tuple[int, int], Identity]) -> None:
    """Keep who points are about.

    Threads of other collections may read and clear it meanwhile: nobody relies on what was just put in.
    """
    if len(_known) + len(read) > KNOWN_POINTS:
        _known.clear()
    _known.update(islice(read.items(), KNOWN_POINTS))


class EdgeGeneration:
    """A shard of one dense vector size; every search answers as if it looked at each vector in full."""

    def __init__(self, collection: str, size: int, shard: qdrant_edge.EdgeShard) -> None:
        self._collection = collection
        self._size = size
        self._shard = shard
        self._number = next(_generations)
        self._cursor: Cursor | None = None
        self._counts: Counter[str] | None = None
        self._only_living_counted: bool | None = None

    @classmethod
    def create(cls, folder: Path, collection: str, size: int) -> EdgeGeneration:
        """Make an empty shard in `folder`, which must not exist, and make it durable.

        Nothing of it is brought into memory by the engine; see `page_cache`.
        """
        import qdrant_edge as qe

        config = qe.EdgeConfig(
            vectors=qe.EdgeVectorParams(
                size=size,
                distance=qe.Distance.Cosine,
                quantization_config=short_form(),
                memory=qe.Memory.Cold,
            ),
            sparse_vectors={SPARSE_NAME: qe.EdgeSparseVectorParams(modifier=qe.Modifier.Idf)},
            # Never build an approximate index, whose results depend on the order of building.
            optimizers=qe.EdgeOptimizersConfig(indexing_threshold=0),
            payload_memory=qe.Memory.Cold,
        )
        with engine_errors():
            shard = qe.EdgeShard.create(str(folder), config)
            generation = cls(collection, size, shard)
            # Nothing else is ever filtered by: points are deleted and looked up by their ids.
            schema = qe.PayloadSchemaType.Keyword
            shard.update(qe.UpdateOperation.create_field_index("object_type", schema))
            generation._upsert([generation._cursor_point(Cursor())])
            shard.flush()
        return generation

    @classmethod
    def load(cls, folder: Path, collection: str, size: int) -> EdgeGeneration:
        """Open the shard in `folder`; the engine replays what was written and not flushed."""
        import qdrant_edge as qe

        with engine_errors():
            shard = qe.EdgeShard.load(str(folder))
        read_through(folder / SEGMENTS)
        return cls(collection, size, shard)

    # --- reading ---------------------------------------------------------------------------------

    def search(
        self,
        embedding: Vector | None,
        terms: Terms | None,
        text_given: bool,
        limit: int,
        scope: Sequence[ObjectType],
    ) -> HybridHits:
        """Search both legs, together in the first engine call; see `VectorIndex.search`."""
        import qdrant_edge as qe

        vector = None
        if embedding is not None:
            vector = check_query(BACKEND, self._collection, self._size, embedding)
        with engine_errors():
            tokens = restricted(scope)
            scanned = self._in_scope(tokens)
            fetch_dense = fetch_terms = glance = None
            if vector is not None:
                fetch_dense = self._fetch(vector, "", tokens)
                glance = Glance(self._fetch(vector, "", tokens, exact=False), self._size)
            if terms is not None:
                sparse = qe.SparseVector(terms.indices, terms.values)
                fetch_terms = self._fetch(sparse, SPARSE_NAME, tokens)
            makers = fetch_dense, fetch_terms
            found = search_legs(self._run, self._identities, makers, limit, scanned, glance=glance)
            if embedding is not None and vector is None:
                found = replace(found, dense=zero_norm_leg(self._scope(tokens), limit))
            if text_given and terms is None:
                found = replace(found, lexical=nothing_found(scanned))
        return found

    def _fetch(
        self, vector: Any, using: str, tokens: list[str] | None, exact: bool = True
    ) -> Callable[[int], qdrant_edge.QueryRequest]:
        import qdrant_edge as qe

        query = qe.Query.Nearest(vector, using=using)
        scope = self._scope_filter(tokens)
        idf = None
        if using == SPARSE_NAME and not self._counts_only_living():
            # Count over again, in this search, who is there: 0.9 ms at 100,000 points.
            idf = qe.IdfParams(corpus=qe.Filter())
        in_full = qe.QuantizationSearchParams(rescore=True)
        params = qe.SearchParams(exact=exact, idf=idf, quantization=in_full)
        return lambda ask: qe.QueryRequest(limit=ask, query=query, filter=scope, params=params)

    def _counts_only_living(self) -> bool:
        """Return whether the engine's own document counts, which BM25 rests on, hold no deleted document.

        The engine goes on counting those that were deleted since it was loaded, or while it was loaded, from
        its log: forgotten memories would go on shaping scores. Where it counts as many as there are, none of
        them is deleted. Found out once, at the cost of 16 ms at 100,000 points, and then kept.
        """
        import qdrant_edge as qe

        if self._only_living_counted is None:
            living = qe.Filter(must=[qe.HasVectorCondition(SPARSE_NAME)])
            there = self._shard.count(qe.CountRequest(filter=living, exact=True))
            # Of the dense vectors none is indexed, so that this is the number of the documents.
            self._only_living_counted = self._shard.info().indexed_vectors_count == there
        return self._only_living_counted

    def _run(self, requests: list[qdrant_edge.QueryRequest]) -> list[list[qdrant_edge.ScoredPoint]]:
        import qdrant_edge as qe

        answers = self._shard.query_batch(qe.QueryBatchRequest(requests))
        if not isfinite(sum(hit.score for hits in answers for hit in hits)):
            message = "a score is no number, so a vector is damaged; rebuild the index"
            raise VectorDatabaseError(backend=BACKEND, kind="engine", message=message)
        return answers

    def _identities(self, points: Sequence[qdrant_edge.ScoredPoint]) -> list[Identity]:
        """Return who each point is about, in order.

        Payloads are read of unknown points only: a point is about the same until it is written anew.
        """
        ids: list[Any] = [point.id for point in points]
        keys = [(self._number, point.int) for point in ids]
        known = list(map(_known.get, keys))
        unknown = [point for point, found in zip(ids, known, strict=True) if found is None]
        read = {
            (self._number, record.id.int): identity(BACKEND, record.payload)
            for record in self._retrieve(unknown, IDENTITY_FIELDS)
        }
        _remember(read)
        return [found or read[key] for key, found in zip(keys, known, strict=True)]

    def _scope_filter(self, tokens: list[str] | None) -> qdrant_edge.Filter | None:
        import qdrant_edge as qe

        if tokens is None:
            return None
        return qe.Filter(must=[qe.FieldCondition("object_type", match=qe.MatchAny(list(tokens)))])

    def _scope(self, tokens: list[str] | None) -> list[Identity]:
        """Return who every record in scope is about."""
        records = self._scroll(self._scope_filter(tokens), IDENTITY_FIELDS)
        return [identity(BACKEND, record.payload) for record in records]

    def _scroll(self, scope: qdrant_edge.Filter | None, fields: list[str]) -> Iterator[qdrant_edge.Record]:
        import qdrant_edge as qe

        offset = None
        while True:
            request = qe.ScrollRequest(offset=offset, limit=CALL_POINTS, filter=scope, with_payload=fields)
            page, offset = self._shard.scroll(request)
            yield from (record for record in page if record.id != CURSOR_POINT)
            if offset is None:
                return

    def present(self, refs: Sequence[MemoryObjectRef]) -> dict[MemoryObjectRef, str]:
        """See `VectorIndex.present`."""
        ids = {
            point_id(ref, surface): ref
            for ref in refs
            if (surface := SURFACE_OF.get(ref.object_type)) is not None
        }
        with engine_errors():
            return {
                ids[record.id]: embedding_text(BACKEND, record.payload)
                for record in self._retrieve(list(ids), ["embedding_text"])
            }

    def _retrieve(self, ids: Sequence[UUID], fields: bool | list[str]) -> Iterator[Any]:
        for start in range(0, len(ids), CALL_POINTS):
            yield from self._shard.retrieve(list(ids[start : start + CALL_POINTS]), fields, False)

    def scan(self, after: str | None, limit: int) -> tuple[list[tuple[MemoryObjectRef, str]], str | None]:
        """See `VectorIndex.scan`."""
        import qdrant_edge as qe

        request = qe.ScrollRequest(
            offset=None if after is None else UUID(after), limit=limit, with_payload=True
        )
        with engine_errors():
            page, following = self._shard.scroll(request)
            found = [
                (ref_of(identity(BACKEND, point.payload)), embedding_text(BACKEND, point.payload))
                for point in page
                if point.id != CURSOR_POINT
            ]
        return found, None if following is None else str(following)

    def count(self) -> int:
        """Return the number of points, the cursor's not counted."""
        import qdrant_edge as qe

        with engine_errors():
            return int(self._shard.count(qe.CountRequest(exact=True))) - 1

    def _in_scope(self, tokens: list[str] | None) -> int:
        counts = self._type_counts()
        return sum(counts.values()) if tokens is None else sum(counts[token] for token in tokens)

    def _type_counts(self) -> Counter[str]:
        """Return how many points each type has; counted once and then kept, a count costs 15 ms at 100,000."""
        import qdrant_edge as qe

        if self._counts is None:
            answer = self._shard.facet(qe.FacetRequest("object_type", limit=_FACET_LIMIT, exact=True))
            self._counts = Counter({str(hit.value): hit.count for hit in answer.hits})
        return self._counts

    def cursor(self) -> Cursor:
        """See `VectorIndex.cursor`."""
        if self._cursor is None:
            with engine_errors():
                found = list(self._retrieve([CURSOR_POINT], True))
            fields = found[0].payload if found else {}
            self._cursor = Cursor(applied=int(fields.get("applied", 0)), high=int(fields.get("high", 0)))
        return self._cursor

    @property
    def known_cursor(self) -> Cursor | None:
        """What `cursor` would return, None if the engine would have to be asked; closed shards know it too."""
        return self._cursor

    # --- writing ---------------------------------------------------------------------------------

    def write(
        self, lexical: Lexical, upserts: Sequence[VectorRecord], deletes: Sequence[MemoryObjectRef], high: int
    ) -> None:
        """See `VectorIndex.write`."""
        import qdrant_edge as qe

        if not upserts and not deletes:
            return
        vectors = check_records(BACKEND, self._collection, self._size, upserts)
        points = {
            point_id(record.surface.ref, record.surface.surface): (record, vector)
            for record, vector in zip(upserts, vectors, strict=True)
        }
        named = {point: ref for ref in deletes for point in all_points(ref)}
        cursor = self.cursor()
        raised = Cursor(cursor.applied, max(cursor.high, high))
        ahead = [self._cursor_point(raised)] if raised != cursor else []
        try:
            with engine_errors():
                gone = self._there(list(named))
                self._meet_anew(gone)
                if gone:
                    self._only_living_counted = False
                    if ahead:
                        self._upsert(ahead)
                        ahead = []
                    self._shard.update(qe.UpdateOperation.delete_points(list(gone)))
                replaced = self._there(list(points))
                self._meet_anew(replaced)
                if replaced:
                    self._only_living_counted = False
                new = [self._point(lexical, point, *values) for point, values in points.items()]
                if new or ahead:
                    self._upsert(ahead + new)
        except BaseException:
            self._forget()
            raise
        self._cursor = raised
        if self._counts is not None:
            self._counts.subtract(named[point].object_type.value for point in gone)
            added = [points[point][0].surface.ref for point in points.keys() - set(replaced)]
            self._counts.update(ref.object_type.value for ref in added)

    def _meet_anew(self, points: Iterable[UUID]) -> None:
        for point in points:
            _known.pop((self._number, point.int), None)

    def _there(self, ids: list[UUID]) -> list[UUID]:
        return [record.id for record in self._retrieve(ids, False)]

    def _forget(self) -> None:
        """After a failed write: nothing kept in memory is known to be true."""
        self._cursor = None
        self._counts = None
        self._only_living_counted = None

    def _point(
        self, lexical: Lexical, point: UUID, record: VectorRecord, vector: list[float]
    ) -> qdrant_edge.Point:
        import qdrant_edge as qe

        named: dict[str, Any] = {"": vector}
        terms = lexical.document(record.surface.lexical_text)
        if terms is not None:
            named[SPARSE_NAME] = qe.SparseVector(terms.indices, terms.values)
        return qe.Point(point, named, payload(record))

    def _cursor_point(self, cursor: Cursor) -> qdrant_edge.Point:
        import qdrant_edge as qe

        return qe.Point(CURSOR_POINT, {}, {"applied": cursor.applied, "high": cursor.high})

    def _upsert(self, points: list[qdrant_edge.Point]) -> None:
        import qdrant_edge as qe

        for start in range(0, len(points), CALL_POINTS):
            self._shard.update(qe.UpdateOperation.upsert_points(points[start : start + CALL_POINTS]))

    def flush(self, applied: int | None = None) -> None:
        """See `VectorIndex.flush`: first what `applied` speaks of, then `applied`."""
        cursor = self.cursor()
        with engine_errors():
            self._shard.flush()
            if applied is None or applied <= cursor.applied:
                return
            moved = Cursor(applied, cursor.high)
            self._upsert([self._cursor_point(moved)])
            self._shard.flush()
        self._cursor = moved

    def close(self) -> None:
        """Flush and release the shard."""
        with engine_errors():
            try:
                self._shard.flush()
            finally:
                self._shard.close()
