"""The graph port over a connection and a writer lock (ports/graph.py)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from charactermemory.adapters.oxigraph import loading
from charactermemory.adapters.oxigraph.connection import STORE_NAME, Connection, ResponseLost
from charactermemory.adapters.oxigraph.export import sorted_lines
from charactermemory.adapters.oxigraph.ledger import Ledger, raised_head
from charactermemory.adapters.oxigraph.reads import Reads
from charactermemory.adapters.oxigraph.settle import WATCH_SECONDS, settle
from charactermemory.adapters.oxigraph.terms import graph_iri
from charactermemory.adapters.oxigraph.writer import Writer
from charactermemory.domain.kinds import RelationType
from charactermemory.domain.lifecycle import Stored
from charactermemory.errors import StoreUnavailable
from charactermemory.ids import MemoryId, MemoryObjectRef
from charactermemory.ports.graph import Edge, Neighbourhood, Place, Receipt, Spot
from charactermemory.ports.locks import WriterLock


class OxigraphStore:
    """One collection's `GraphStore`: its named graph in a SPARQL store.

    Args:
        connection: the store; closed together with this.
        collection: the collection's name.
        writer_lock: who grants the right to write this collection.
        watch_seconds: how long an update whose answer was lost is waited for (`settle.py`).
    """

    def __init__(
        self,
        connection: Connection,
        collection: str,
        writer_lock: WriterLock,
        *,
        watch_seconds: float = WATCH_SECONDS,
    ) -> None:
        self._connection = connection
        self._collection = collection
        self._writer_lock = writer_lock
        self._watch_seconds = watch_seconds
        self._graph = graph_iri(collection)
        self._reads = Reads(connection, self._graph)
        self._ledger = Ledger(connection, self._graph)

    @property
    def collection(self) -> str:
        """See `GraphStore`."""
        return self._collection

    @contextmanager
    def writing(self) -> Iterator[Writer]:
        """See `GraphStore`."""
        writer: Writer | None = None
        try:
            with self._writer_lock.hold(self._collection, self._settle, self._ledger.greatest_token) as grant:
                writer = Writer(
                    self._connection,
                    self._graph,
                    self._ledger,
                    self._reads,
                    grant,
                    self._watch_seconds,
                )
                yield writer
        finally:
            if writer is not None and writer.applied:
                self._make_durable(writer.token)

    def _settle(self, old_token: int, own_token: int) -> bool:
        return settle(self._connection, self._graph, old_token, own_token, self._watch_seconds)

    def _make_durable(self, token: int) -> None:
        """Sync; if that fails, the store reads back what survived, and the receipt is or is not among it."""
        try:
            self._connection.sync()
        except ResponseLost as lost:
            if not self._ledger.has(token):
                self._reads.forget()
                detail = f"commit {token} did not reach the disk and is undone: {lost.detail}"
                raise StoreUnavailable(store=STORE_NAME, detail=detail) from lost

    def sync(self) -> None:
        """See `GraphStore`."""
        try:
            self._connection.sync()
        except ResponseLost as lost:
            raise StoreUnavailable(store=STORE_NAME, detail=lost.detail) from lost

    def head(self) -> int:
        """See `GraphStore`."""
        return self._ledger.head()

    def settled(self) -> int:
        """See `GraphStore`."""
        return self._writer_lock.last_settled(self._collection) or 0

    def receipts(self, after: int, upto: int) -> list[Receipt]:
        """See `GraphStore`."""
        return self._ledger.receipts(after, upto)

    def read(self, refs: Collection[MemoryObjectRef], anew: bool = False) -> dict[MemoryObjectRef, Stored]:
        """See `GraphStore`."""
        return self._reads.read(refs, anew)

    def existing(self, refs: Collection[MemoryObjectRef], anew: bool = False) -> set[MemoryObjectRef]:
        """See `GraphStore`."""
        return self._reads.existing(refs, anew)

    def notions_known_as(self, names: Collection[str]) -> dict[str, tuple[MemoryId, ...]]:
        """See `GraphStore`."""
        return self._reads.notions_known_as(names)

    def names_of(self, notions: Collection[MemoryId]) -> dict[MemoryId, tuple[str, ...]]:
        """See `GraphStore`."""
        return self._reads.names_of(notions)

    def observed_from(self, raw_refs: Collection[str]) -> set[str]:
        """See `GraphStore`."""
        return self._reads.observed_from(raw_refs)

    def memories_from(
        self, episode_ids: Collection[MemoryId], observation_ids: Collection[MemoryId]
    ) -> tuple[MemoryId, ...]:
        """See `GraphStore`."""
        return self._reads.memories_from(episode_ids, observation_ids)

    def observations_of(self, episode_ids: Collection[MemoryId]) -> tuple[MemoryId, ...]:
        """See `GraphStore`."""
        return self._reads.observations_of(episode_ids)

    def members_of(self, thread_id: MemoryId) -> tuple[MemoryId, ...]:
        """See `GraphStore`."""
        return self._reads.members_of(thread_id)

    def neighbours(
        self,
        nodes: Collection[MemoryObjectRef],
        relations: Collection[RelationType],
        cap: int,
        turns: Collection[Spot] = (),
        sparing: Collection[tuple[MemoryObjectRef, RelationType]] = (),
    ) -> dict[MemoryObjectRef, Neighbourhood]:
        """See `GraphStore`."""
        return self._reads.neighbours(nodes, relations, cap, turns, sparing)

    def places(
        self, observations: Collection[MemoryObjectRef], speakers: bool = False
    ) -> dict[MemoryObjectRef, Place]:
        """See `GraphStore`."""
        return self._reads.places(observations, speakers)

    def turns(self, spots: Collection[Spot]) -> dict[Spot, MemoryObjectRef]:
        """See `GraphStore`."""
        return self._reads.turns(spots)

    def link_ids(self, edges: Collection[Edge]) -> dict[Edge, tuple[MemoryId, ...]]:
        """See `GraphStore`."""
        return self._reads.link_ids(edges)

    def scan(self, after: str | None, limit: int) -> tuple[list[MemoryObjectRef], str | None]:
        """See `GraphStore`; what is written meanwhile comes last."""
        return self._ledger.scan(after, limit)

    def raise_head(self, token: int) -> None:
        """See `GraphStore`."""
        try:
            self._connection.update(raised_head(self._graph, token))
        except ResponseLost as lost:
            raise StoreUnavailable(store=STORE_NAME, detail=f"no fence was set: {lost.detail}") from lost
        self.sync()

    def export(self) -> Iterator[bytes]:
        """See `GraphStore`."""
        return sorted_lines(self._connection.dump(self._graph))

    def load(self, file: BinaryIO) -> int:
        """See `GraphStore`."""
        count = loading.load(self._connection, self._graph, file)
        self.sync()
        return count

    def backup(self, folder: Path) -> bool:
        """See `GraphStore`."""
        return self._connection.backup(folder)

    def close(self) -> None:
        """See `GraphStore`."""
        self._reads.forget()
        self._connection.close()
