"""The vector index on a Qdrant server.

Readers and writers use only the alias `<collection>`; the points lie in `<collection>.gen-<n>`, and one alias
update switches (consistency.md §6). How the vectors were made is that collection's metadata.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from charactermemory.config import validate_collection_name
from charactermemory.errors import (
    CharacterMemoryError,
    CollectionIncompatible,
    StoreClosedError,
    VectorDatabaseError,
)
from charactermemory.ids import MemoryObjectRef, ObjectType
from charactermemory.ports.embedding import Vector
from charactermemory.ports.vectors import Cursor, HybridHits, VectorRecord

from .connection import BACKEND, Connection, service_errors
from .fit import FORMAT, KIND, Build, OnMismatch, check_fit, read_build
from .lexical import DEFAULT_LANGUAGE, SPARSE_NAME, Lexical
from .points import Points
from .search import NOT_REQUESTED

if TYPE_CHECKING:
    from qdrant_client import QdrantClient, models

logger = logging.getLogger(__name__)

STORE_NAME = "vector store"

FIT_SECONDS = 10.0
"""How long a finding on what the index was built with is trusted; another process may have rebuilt it."""

BEGIN_SECONDS = 5.0
"""How long another process may take from making the first collection to serving it."""

RETRY_SECONDS = 1.0
"""Within so long of a failure an index that is not open yet fails again without asking the server."""

_OUT_KINDS = frozenset({"http_connect", "http_timeout", "http", "resource_exhausted"})
_OUT_STATUSES = frozenset({"unavailable", "internal", "deadline_exceeded", "resource_exhausted"})


def _is_out(error: VectorDatabaseError) -> bool:
    """Whether the server cannot be used now; not that it refuses what it is asked."""
    return error.status in _OUT_STATUSES or (error.status is None and error.kind in _OUT_KINDS)


class QdrantVectorIndex:
    """`VectorIndex` on a Qdrant server of version 1.19 or later."""

    def __init__(
        self,
        url: str | QdrantClient,
        collection: str,
        size: int,
        fingerprint: str,
        language: str = DEFAULT_LANGUAGE,
        on_mismatch: OnMismatch = "refuse",
        api_key: str | None = None,
    ) -> None:
        """Open or create the index of `collection` at `url` (see `build_client`), or through a given client.

        A server that is out now is no reason to fail: it is asked again by whatever is done first, which then
        raises what opening would have raised.

        Raises:
            OutOfDomain: the collection's name or the language is not allowed; nothing was sent.
            CollectionIncompatible: an existing collection has other vectors than ours, or (with `refuse`) was
                made with another vector size or fingerprint; the data stay as they were.
            UnsupportedSchemaVersion: (with `refuse`) it holds records of another version.
            VectorDatabaseError: the server refuses.
        """
        validate_collection_name(collection)
        self._collection = collection
        self._lexical = Lexical(language)
        self._build = Build(size=size, fingerprint=fingerprint, lexical=self._lexical.fingerprint)
        self._connection = Connection(url, api_key)
        self._points = Points(self._connection, collection, size)
        self._closed = False
        self._refuses = on_mismatch == "refuse"
        self._lock = threading.Lock()
        self._found: Build | None = None
        self._found_at = 0.0
        self._failed: VectorDatabaseError | None = None
        self._failed_at = 0.0
        try:
            self._ensure_found()
        except VectorDatabaseError as error:
            if not _is_out(error):
                raise
            logger.warning("the vector index of %s is opened later: %s", collection, error)

    # --- collections and aliases -----------------------------------------------------------------

    def _ensure_found(self) -> None:
        """Open the index, if the server was out when that was tried last."""
        with self._lock:
            if self._found is not None:
                return
            if self._failed is not None and time.monotonic() - self._failed_at < RETRY_SECONDS:
                raise replace(self._failed)
            try:
                found = self._open()
            except VectorDatabaseError as error:
                self._failed, self._failed_at = error, time.monotonic()
                raise
            if self._refuses:
                check_fit(self._collection, self._build, found)
            self._found, self._found_at = found, time.monotonic()

    def _open(self) -> Build:
        """Return what the serving collection was built with; make the first one where there is none."""
        with service_errors():
            if self._serving() is None:
                self._begin()
            found = self._read_build(self._collection)
        self._points.ensure_cursor()
        return found

    def _begin(self) -> None:
        """Make the first generation and its alias, or leave it to another process that is at it.

        Of processes that open a new memory together the server lets one make the collection. The others wait for
        its alias; if that does not come, its maker died in between, and they finish what it began.
        """
        client = self._connection.client()
        if client.collection_exists(self._collection) and self._serving() is None:
            self._read_build(self._collection)
            raise CollectionIncompatible(
                collection=self._collection,
                mismatch="collection_name",
                expected=f"an alias of {self._collection}.gen-<n>",
                actual="a collection of that name",
            )
        first = f"{self._collection}.gen-1"
        try:
            self._make(first)
        except Exception:
            if not client.collection_exists(first):
                raise
            if self._is_served_soon():
                return
            if self._read_build(first) == self._build:
                self._furnish(first)
            else:
                first = self._create()
        self._point_alias_at(first)

    def _is_served_soon(self) -> bool:
        deadline = time.monotonic() + BEGIN_SECONDS
        while self._serving() is None:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.05)
        return True

    def _serving(self) -> str | None:
        """Return the name of the collection behind our alias."""
        aliases = self._connection.client().get_aliases().aliases
        return next((a.collection_name for a in aliases if a.alias_name == self._collection), None)

    def _generations(self) -> dict[str, int]:
        pattern = re.compile(re.escape(self._collection) + r"\.gen-(\d+)")
        names = [item.name for item in self._connection.client().get_collections().collections]
        return {name: int(match[1]) for name in names if (match := pattern.fullmatch(name))}

    def _create(self) -> str:
        """Make the next generation, empty, and return its name."""
        name = f"{self._collection}.gen-{max(self._generations().values(), default=0) + 1}"
        self._make(name)
        return name

    def _make(self, name: str) -> None:
        from qdrant_client import models

        marker = {"kind": KIND, "format": FORMAT, "collection": self._collection}
        self._connection.client().create_collection(
            name,
            vectors_config=models.VectorParams(size=self._build.size, distance=models.Distance.COSINE),
            sparse_vectors_config={SPARSE_NAME: models.SparseVectorParams(modifier=models.Modifier.IDF)},
            metadata=marker | self._build.stored(),
        )
        self._furnish(name)

    def _furnish(self, name: str) -> None:
        """Add what a generation needs beside its collection; done twice it does no harm."""
        from qdrant_client import models

        for field in ("object_id", "object_type"):
            self._connection.client().create_payload_index(
                name, field, models.PayloadSchemaType.KEYWORD, wait=True
            )
        Points(self._connection, name, self._build.size).ensure_cursor()

    def _point_alias_at(self, name: str) -> None:
        from qdrant_client import models

        create = models.CreateAlias(collection_name=name, alias_name=self._collection)
        changes: list[Any] = [models.CreateAliasOperation(create_alias=create)]
        if self._serving() is not None:
            delete = models.DeleteAlias(alias_name=self._collection)
            changes.insert(0, models.DeleteAliasOperation(delete_alias=delete))
        self._connection.client().update_collection_aliases(changes)

    def _read_build(self, name: str) -> Build:
        """Check the vectors of collection `name` and return what it was built with (recall.md §11.11)."""
        config = self._connection.client().get_collection(name).config
        self._check_vectors(config.params)
        return read_build(self._collection, config.metadata or {})

    def _check_vectors(self, params: models.CollectionParams) -> None:
        from qdrant_client import models

        vectors = params.vectors
        if vectors is None:
            raise self._unfit("missing_vector_configuration", "one unnamed vector", "none")
        if isinstance(vectors, dict):
            if not vectors:
                raise self._unfit("empty_vector_configuration", "one unnamed vector", "none")
            raise self._unfit("named_vectors", "one unnamed vector", ", ".join(sorted(vectors)))
        if vectors.distance != models.Distance.COSINE:
            raise self._unfit("distance", "Cosine", vectors.distance.value)
        sparse = (params.sparse_vectors or {}).get(SPARSE_NAME)
        if sparse is None or sparse.modifier != models.Modifier.IDF:
            raise self._unfit(
                "missing_vector_configuration", f"a sparse vector {SPARSE_NAME} with modifier idf", "none"
            )

    def _unfit(self, mismatch: str, expected: str, actual: str) -> CollectionIncompatible:
        return CollectionIncompatible(
            collection=self._collection, mismatch=mismatch, expected=expected, actual=actual
        )

    def _check_fit(self, *, dense: bool = True, lexical: bool = True) -> None:
        with self._lock:
            if self._found is None or time.monotonic() - self._found_at > FIT_SECONDS:
                with service_errors():
                    self._found = self._read_build(self._collection)
                self._found_at = time.monotonic()
            found = self._found
        check_fit(self._collection, self._build, found, dense=dense, lexical=lexical)

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosedError(store=STORE_NAME)
        self._ensure_found()

    # --- the port --------------------------------------------------------------------------------

    def search(
        self, embedding: Vector | None, text: str | None, limit: int, scope: Sequence[ObjectType]
    ) -> HybridHits:
        """See `VectorIndex.search`."""
        self._check_open()
        if limit <= 0 or not scope or (embedding is None and text is None):
            return HybridHits(dense=NOT_REQUESTED, lexical=NOT_REQUESTED)
        self._check_fit(dense=embedding is not None, lexical=text is not None)
        terms = None if text is None else self._lexical.query(text)
        return self._points.search(embedding, terms, text is not None, limit, scope)

    def write(self, upserts: Sequence[VectorRecord], deletes: Sequence[MemoryObjectRef], high: int) -> None:
        """See `VectorIndex.write`."""
        self._check_open()
        if upserts:
            self._check_fit()
        self._points.write(self._lexical, upserts, deletes, high)

    def present(self, refs: Sequence[MemoryObjectRef]) -> dict[MemoryObjectRef, str]:
        """See `VectorIndex.present`."""
        self._check_open()
        return self._points.present(refs)

    def cursor(self) -> Cursor:
        """See `VectorIndex.cursor`; asked of the server, since other processes write too."""
        self._check_open()
        return self._points.cursor()

    def flush(self, applied: int | None = None) -> None:
        """Record `applied`.

        The server flushes by itself, every 5 s by default; what `applied` speaks of must be older than that,
        which the sweeper's minute sees to (consistency.md R5).
        """
        self._check_open()
        if applied is not None:
            self._points.raise_applied(applied)

    def scan(self, after: str | None, limit: int) -> tuple[list[tuple[MemoryObjectRef, str]], str | None]:
        """See `VectorIndex.scan`."""
        self._check_open()
        return self._points.scan(after, limit)

    def count(self) -> int:
        """See `VectorIndex.count`."""
        self._check_open()
        return self._points.count()

    def begin_rebuild(self, anew: bool = False) -> QdrantRebuild:
        """See `VectorIndex.begin_rebuild`; removes what earlier rebuilds left that cannot be gone on with.

        One rebuild a collection at a time: the caller holds a lease.
        """
        self._check_open()
        with service_errors():
            serving = self._serving()
            left = sorted(self._generations().items(), key=lambda item: -item[1])
            unfinished = [name for name, _ in left if name != serving]
            usable = None if anew else next((name for name in unfinished if self._is_ours(name)), None)
            for name in unfinished:
                if name != usable:
                    self._connection.client().delete_collection(name)
            return QdrantRebuild(self, usable or self._create())

    def _is_ours(self, name: str) -> bool:
        """Return whether a collection was made as we would make it now, to its end."""
        try:
            if self._read_build(name) != self._build:
                return False
        except CharacterMemoryError:
            return False
        return Points(self._connection, name, self._build.size).has_cursor()

    def backup(self, folder: Path) -> bool:
        """See `VectorIndex.backup`; the server makes snapshots of its own."""
        return False

    def close(self) -> None:
        """See `VectorIndex.close`."""
        if self._closed:
            return
        self._closed = True
        self._connection.close()


class QdrantRebuild:
    """A new generation beside the serving one; unusable after `switch` or `leave`."""

    def __init__(self, index: QdrantVectorIndex, name: str) -> None:
        self._index = index
        self._points = Points(index._connection, name, index._build.size)
        self._done = False

    def _check_open(self) -> None:
        self._index._check_open()
        if self._done:
            raise StoreClosedError(store=f"{STORE_NAME} generation {self._points.name}")

    def write(self, upserts: Sequence[VectorRecord], deletes: Sequence[MemoryObjectRef], high: int) -> None:
        """See `VectorRebuild.write`."""
        self._check_open()
        self._points.write(self._index._lexical, upserts, deletes, high)

    def present(self, refs: Sequence[MemoryObjectRef]) -> dict[MemoryObjectRef, str]:
        """See `VectorRebuild.present`."""
        self._check_open()
        return self._points.present(refs)

    def scan(self, after: str | None, limit: int) -> tuple[list[tuple[MemoryObjectRef, str]], str | None]:
        """See `VectorRebuild.scan`."""
        self._check_open()
        return self._points.scan(after, limit)

    def switch(self, applied: int) -> None:
        """See `VectorRebuild.switch`."""
        self._check_open()
        self._points.raise_applied(applied)
        index = self._index
        with service_errors():
            old = index._serving()
            if old is None:
                raise VectorDatabaseError(
                    backend=BACKEND, kind="response", message=f"alias {index._collection} is gone"
                )
            index._point_alias_at(self._points.name)
            with index._lock:
                index._found, index._found_at = index._build, time.monotonic()
            self._done = True
            index._connection.client().delete_collection(old)

    def leave(self) -> None:
        """See `VectorRebuild.leave`; what the server acknowledged is durable."""
        self._check_open()
        self._done = True
