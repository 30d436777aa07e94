"""Reading and writing the points of one collection on a Qdrant server, named directly or by alias."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

from charactermemory.ids import MemoryObjectRef, ObjectType
from charactermemory.ports.embedding import Vector
from charactermemory.ports.vectors import Cursor, HybridHits, VectorRecord

from .connection import BACKEND, Connection, service_errors
from .lexical import SPARSE_NAME, Lexical, Terms
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
    from qdrant_client import models

CALL_POINTS = 500
"""Points of one request: 500 × 3,072 numbers stay below 32 MB, the server's usual limit, as JSON too."""

_CURSOR = str(CURSOR_POINT)


def _identities(points: Iterable[Any]) -> list[Identity]:
    return [identity(BACKEND, point.payload) for point in points]


class Points:
    """One collection's points. Several processes may write; what must only grow is raised by the server."""

    def __init__(self, connection: Connection, name: str, size: int) -> None:
        self._connection = connection
        self.name = name
        self._size = size

    # --- reading ---------------------------------------------------------------------------------

    def search(
        self,
        embedding: Vector | None,
        terms: Terms | None,
        text_given: bool,
        limit: int,
        scope: Sequence[ObjectType],
    ) -> HybridHits:
        """Search both legs in one request; see `VectorIndex.search`.

        Every search is exact, but other processes write between a count and a search, so that no number of
        records looked at can be vouched for: the verdict is `boundary_tie_closed`.
        """
        from qdrant_client import models

        vector = None
        if embedding is not None:
            vector = check_query(BACKEND, self.name, self._size, embedding)
        tokens = restricted(scope)
        fetch_dense = None if vector is None else self._maker(vector, None, tokens)
        fetch_terms = None
        if terms is not None:
            sparse = models.SparseVector(indices=terms.indices, values=terms.values)
            fetch_terms = self._maker(sparse, SPARSE_NAME, tokens)
        with service_errors():
            found = search_legs(self._run, _identities, (fetch_dense, fetch_terms), limit, None)
            if embedding is not None and vector is None:
                found = replace(found, dense=zero_norm_leg(self._scope(tokens), limit))
        if text_given and terms is None:
            found = replace(found, lexical=nothing_found(None))
        return found

    def _maker(
        self, query: Any, using: str | None, tokens: list[str] | None
    ) -> Callable[[int], models.QueryRequest]:
        from qdrant_client import models

        # As in the embedded index (shard.py): count living points only.
        idf = models.IdfCorpusParams(corpus=models.Filter()) if using == SPARSE_NAME else None
        params = models.SearchParams(exact=True, idf=idf)
        return lambda ask: models.QueryRequest(
            query=query,
            using=using,
            filter=self._scope_filter(tokens),
            params=params,
            limit=ask,
            with_payload=IDENTITY_FIELDS,
        )

    def _run(self, requests: list[models.QueryRequest]) -> list[list[models.ScoredPoint]]:
        answers = self._connection.client().query_batch_points(self.name, requests)
        return [answer.points for answer in answers]

    def _scope_filter(self, tokens: list[str] | None) -> models.Filter | None:
        from qdrant_client import models

        if tokens is None:
            return None
        among = models.FieldCondition(key="object_type", match=models.MatchAny(any=tokens))
        return models.Filter(must=[among])

    def _scope(self, tokens: list[str] | None) -> list[Identity]:
        """Return who every record in scope is about."""
        found: list[Identity] = []
        offset = None
        while True:
            page, offset = self._connection.client().scroll(
                self.name,
                scroll_filter=self._scope_filter(tokens),
                limit=CALL_POINTS,
                offset=offset,
                with_payload=IDENTITY_FIELDS,
            )
            found += _identities(record for record in page if str(record.id) != _CURSOR)
            if offset is None:
                return found

    def present(self, refs: Sequence[MemoryObjectRef]) -> dict[MemoryObjectRef, str]:
        """See `VectorIndex.present`."""
        ids = {
            str(point_id(ref, surface)): ref
            for ref in refs
            if (surface := SURFACE_OF.get(ref.object_type)) is not None
        }
        found: dict[MemoryObjectRef, str] = {}
        wanted = list(ids)
        with service_errors():
            for start in range(0, len(wanted), CALL_POINTS):
                page = self._connection.client().retrieve(
                    self.name, wanted[start : start + CALL_POINTS], with_payload=["embedding_text"]
                )
                for record in page:
                    found[ids[str(record.id)]] = embedding_text(BACKEND, record.payload)
        return found

    def scan(self, after: str | None, limit: int) -> tuple[list[tuple[MemoryObjectRef, str]], str | None]:
        """See `VectorIndex.scan`."""
        with service_errors():
            page, following = self._connection.client().scroll(
                self.name, limit=limit, offset=after, with_payload=True
            )
            found = [
                (ref_of(identity(BACKEND, record.payload)), embedding_text(BACKEND, record.payload))
                for record in page
                if str(record.id) != _CURSOR
            ]
        return found, None if following is None else str(following)

    def count(self) -> int:
        """Return the number of points, the cursor's not counted."""
        from qdrant_client import models

        others = models.Filter(must_not=[models.HasIdCondition(has_id=[_CURSOR])])
        with service_errors():
            return self._connection.client().count(self.name, count_filter=others, exact=True).count

    def cursor(self) -> Cursor:
        """See `VectorIndex.cursor`."""
        with service_errors():
            found = self._connection.client().retrieve(self.name, [_CURSOR], with_payload=True)
        stored = (found[0].payload if found else None) or {}
        return Cursor(applied=int(stored.get("applied", 0)), high=int(stored.get("high", 0)))

    # --- writing ---------------------------------------------------------------------------------

    def ensure_cursor(self) -> None:
        """Make the cursor's point where it is missing, or nothing could ever be raised."""
        from qdrant_client import models

        with service_errors():
            if not self.has_cursor():
                point = models.PointStruct(id=_CURSOR, vector={}, payload={"applied": 0, "high": 0})
                self._connection.client().upsert(self.name, [point], wait=True)

    def has_cursor(self) -> bool:
        """Return whether the cursor's point is there: the last thing that is made of a collection."""
        with service_errors():
            return bool(self._connection.client().retrieve(self.name, [_CURSOR]))

    def write(
        self, lexical: Lexical, upserts: Sequence[VectorRecord], deletes: Sequence[MemoryObjectRef], high: int
    ) -> None:
        """See `VectorIndex.write`; the server applies the operations of one request in their order."""
        from qdrant_client import models

        if not upserts and not deletes:
            return
        vectors = check_records(BACKEND, self.name, self._size, upserts)
        points = [
            self._point(lexical, record, vector) for record, vector in zip(upserts, vectors, strict=True)
        ]
        gone: list[int | str | UUID] = [str(point) for ref in deletes for point in all_points(ref)]
        operations: list[models.UpdateOperation] = [self._raise("high", high)]
        if gone:
            operations.append(models.DeleteOperation(delete=models.PointIdsList(points=gone)))
        with service_errors():
            for start in range(0, max(len(points), 1), CALL_POINTS):
                chunk = points[start : start + CALL_POINTS]
                if chunk:
                    operations.append(models.UpsertOperation(upsert=models.PointsList(points=chunk)))
                self._connection.client().batch_update_points(self.name, operations, wait=True)
                operations = []

    def raise_applied(self, applied: int) -> None:
        """Raise `applied` to this number, if it is lower."""
        with service_errors():
            self._connection.client().batch_update_points(
                self.name, [self._raise("applied", applied)], wait=True
            )

    def _raise(self, field: str, value: int) -> models.SetPayloadOperation:
        """Set a number of the cursor where it is lower; the server compares, so no writer lowers it."""
        from qdrant_client import models

        lower = models.Filter(
            must=[
                models.HasIdCondition(has_id=[_CURSOR]),
                models.FieldCondition(key=field, range=models.Range(lt=value)),
            ]
        )
        return models.SetPayloadOperation(set_payload=models.SetPayload(payload={field: value}, filter=lower))

    def _point(self, lexical: Lexical, record: VectorRecord, vector: list[float]) -> models.PointStruct:
        from qdrant_client import models

        named: dict[str, Any] = {"": vector}
        terms = lexical.document(record.surface.lexical_text)
        if terms is not None:
            named[SPARSE_NAME] = models.SparseVector(indices=terms.indices, values=terms.values)
        where = point_id(record.surface.ref, record.surface.surface)
        return models.PointStruct(id=str(where), vector=named, payload=payload(record))
