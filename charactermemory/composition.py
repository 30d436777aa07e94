"""Composition: from settings to the bundle of ports. The only module that knows the adapters."""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING

from pydantic import SecretStr

from charactermemory.adapters.handles import HandleRegistry, fork_count
from charactermemory.clock import Clock
from charactermemory.config import Settings, validate_collection_name
from charactermemory.config.settings import EmbeddingProviderName
from charactermemory.errors import GraphWentBack, VectorDatabaseError
from charactermemory.ports.embedding import EmbeddingProvider
from charactermemory.ports.graph import GraphStore
from charactermemory.ports.ledger import Ledger
from charactermemory.ports.locks import WriterLock
from charactermemory.ports.statistics import StatisticsStore
from charactermemory.ports.stores import Postpone, Stores
from charactermemory.ports.vectors import Cursor, VectorIndex
from charactermemory.upkeep.surfaces import SURFACE_VERSION

if TYPE_CHECKING:
    from charactermemory.adapters.oxigraph.probe import Finding

logger = logging.getLogger(__name__)

StatisticsFactory = Callable[[str], StatisticsStore]
"""Opens the statistics of a collection, for hosts that keep them elsewhere."""


@dataclass(frozen=True)
class Opened:
    """An open bundle and what releases it."""

    stores: Stores
    close: Callable[[], None]


def compose(
    settings: Settings,
    collection: str,
    *,
    clock: Clock,
    embedding_provider: EmbeddingProvider | None = None,
    writer_lock: WriterLock | None = None,
    statistics: StatisticsFactory | None = None,
    postpone_statistics: Postpone | None = None,
    for_rebuild: bool = False,
) -> Opened:
    """Open every store of `collection` as `settings` say; what was opened is released again on failure.

    Args:
        settings: the configuration.
        collection: the collection's name.
        clock: the present instant.
        embedding_provider: takes the place of the configured one; embedding settings are then ignored.
        writer_lock: takes the place of the configured one.
        statistics: takes the place of the configured store.
        postpone_statistics: see `Stores`.
        for_rebuild: open an index of another model or dimension too, so that it can be rebuilt.

    Raises:
        ConfigValidationError: a name or setting is wrong; nothing was opened.
        CollectionIncompatible, NotAStore, StoreInUse, StoreUnavailable, StoreError: a store cannot be opened.
    """
    validate_collection_name(collection)
    if writer_lock is None:
        settings.require_writer_lock()
    embedder = _embedder(settings, embedding_provider)
    with ExitStack() as opening:
        graph = _graph(settings, collection, writer_lock)
        opening.callback(graph.close)
        vectors = _vectors(settings, collection, embedder, for_rebuild)
        opening.callback(vectors.close)
        store = statistics(collection) if statistics else _statistics(settings, collection)
        opening.callback(store.close)
        key = _key(settings, collection)
        shared = _coordination.acquire(Path(key), lambda: _Coordination(graph, vectors, store))
        opening.callback(_coordination.release, Path(key), shared)
        stores = Stores(
            graph=graph,
            vectors=vectors,
            statistics=store,
            embedder=embedder,
            clock=clock,
            vector_ledger=shared.vector_ledger,
            statistics_ledger=shared.statistics_ledger,
            shared=settings.graph_store_mode == "service",
            deriving=shared.deriving,
        )
        if postpone_statistics:
            stores = replace(stores, postpone_statistics=postpone_statistics)
        release = opening.pop_all()
    return Opened(stores, lambda: _close(stores, release))


def _close(stores: Stores, release: ExitStack) -> None:
    """Record how far the index reflects the graph, then release everything."""
    with release:
        if not stores.shared:
            with stores.deriving:
                try:
                    stores.vectors.flush(stores.vector_ledger.applied())
                except VectorDatabaseError as error:  # what it says is looked at again by a sweep
                    logger.warning("the index's place in the log was not written: %s", error)


class _Coordination:
    """What all facades of one collection in this process share: the derive lock and the ledgers."""

    def __init__(self, graph: GraphStore, vectors: VectorIndex, statistics: StatisticsStore) -> None:
        cursors = _place(vectors), statistics.cursor()
        seen = max(graph.settled(), *(max(cursor.applied, cursor.high) for cursor in cursors))
        head = graph.head()
        if seen > head:
            logger.warning("%s", GraphWentBack(graph.collection, head, seen))
        self.deriving = RLock()
        self.vector_ledger = Ledger(cursors[0].applied, head)
        self.statistics_ledger = Ledger(cursors[1].applied, head)

    def close(self) -> None:
        """Nothing to release; the registry counts users."""


def _place(vectors: VectorIndex) -> Cursor:
    """Return the index's place in the log; the beginning while its server is out, for there all is owed."""
    try:
        return vectors.cursor()
    except VectorDatabaseError as error:
        logger.warning("the index's place in the log cannot be read: %s", error)
        return Cursor(0, 0)


_coordination: HandleRegistry[_Coordination] = HandleRegistry()
_in_memory = itertools.count(1)


def _key(settings: Settings, collection: str) -> str:
    """Name what a coordination belongs to: a store folder, an endpoint, or one store in memory, never shared."""
    if settings.graph_store_mode == "persistent":
        return f"{os.path.realpath(settings.oxigraph_path or '.')}/{collection}"
    if settings.graph_store_mode == "service":
        return f"/service/{settings.oxigraph_url}/{collection}"
    return f"/memory/{next(_in_memory)}"


def _embedder(settings: Settings, given: EmbeddingProvider | None) -> EmbeddingProvider:
    from charactermemory.adapters.embedding import CachedQueries, guarded

    return CachedQueries(guarded(given if given is not None else _configured_embedder(settings)))


def _configured_embedder(settings: Settings) -> EmbeddingProvider:
    """Return the provider that the settings name, one for all memories of the process that name the same."""
    settings.require_embedding()
    given = (getattr(settings, name) for name in _EMBEDDING_SETTINGS)
    return _shared_embedder(settings.provider, fork_count(), *given)


_EMBEDDING_SETTINGS = (
    "openai_api_key", "embedding_model", "openai_base_url", "embedding_max_retries", "embedding_model_path",
)  # fmt: skip


@lru_cache(maxsize=8)
def _shared_embedder(
    provider: EmbeddingProviderName,
    forks: int,
    key: SecretStr | None,
    model: str | None,
    base_url: str | None,
    max_retries: int,
    path: Path | None,
) -> EmbeddingProvider:
    """Make a provider: it loads weights (WordLlama's take 40 MB and 0.2 s) or keeps connections of its own.

    What a parent process made is not used in a child, where a lock of it may be held for good.
    """
    from charactermemory.adapters import embedding

    match provider:
        case "openai":
            return embedding.OpenAIEmbedding(
                key.get_secret_value() if key else "", model or "", base_url=base_url, max_retries=max_retries
            )
        case "fastembed":
            return embedding.FastEmbedEmbedding(model or "", path or Path())
        case "hashing":
            return embedding.HashingEmbedding()
        case "wordllama":
            return embedding.WordLlamaEmbedding()


def _graph(settings: Settings, collection: str, writer_lock: WriterLock | None) -> GraphStore:
    from charactermemory.adapters.oxigraph.locks import FileWriterLock, ThreadWriterLock
    from charactermemory.adapters.oxigraph.store import OxigraphStore

    match settings.graph_store_mode:
        case "service":
            from charactermemory.adapters.oxigraph.service import ServiceConnection

            lock = writer_lock or FileWriterLock(settings.writer_lock_path or Path())
            return OxigraphStore(ServiceConnection(settings.oxigraph_url or ""), collection, lock)
        case "persistent":
            from charactermemory.adapters.oxigraph.embedded import EmbeddedConnection

            root = settings.oxigraph_path or Path()
            lock = writer_lock or ThreadWriterLock(os.path.realpath(root))
            return OxigraphStore(EmbeddedConnection(root, collection), collection, lock)
        case "in_memory":
            from charactermemory.adapters.oxigraph.in_memory import InMemoryConnection

            connection = InMemoryConnection()
            lock = writer_lock or ThreadWriterLock(f"memory:{id(connection)}")
            return OxigraphStore(connection, collection, lock)


def _vectors(
    settings: Settings, collection: str, embedder: EmbeddingProvider, for_rebuild: bool
) -> VectorIndex:
    fingerprint = f"{embedder.fingerprint()}:surfaces-{SURFACE_VERSION}"
    size = embedder.vector_size()
    if settings.vector_store_mode == "service":
        from charactermemory.adapters.qdrant.service import QdrantVectorIndex

        return QdrantVectorIndex(
            settings.qdrant_connection_string or "",
            collection,
            size,
            fingerprint,
            settings.language,
            "rebuild_only" if for_rebuild else "refuse",
        )
    from charactermemory.adapters.qdrant.edge import EdgeVectorIndex

    return EdgeVectorIndex(
        settings.vector_store_path or Path(),
        collection,
        size,
        fingerprint,
        settings.language,
        "rebuild_only" if for_rebuild else "refuse",
    )


def _statistics(settings: Settings, collection: str) -> StatisticsStore:
    from charactermemory.adapters.statistics import open_statistics

    return open_statistics(settings.retrieval_stats_store_mode, settings.retrieval_stats_path, collection)


def probe_endpoint(url: str) -> tuple[Finding, ...]:
    """Try whether the SPARQL endpoint at `url` does what a memory relies on. See `adapters.oxigraph.probe`.

    Raises:
        StoreUnavailable, DatabaseError: the endpoint cannot be used at all.
    """
    from charactermemory.adapters.oxigraph.probe import probe
    from charactermemory.adapters.oxigraph.service import ServiceConnection

    with closing(ServiceConnection(url)) as connection:
        return probe(connection)
