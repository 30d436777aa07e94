"""One commit: read what it meets, insert it under its guard, and know what became of it (consistency.md R4)."""

from __future__ import annotations

from collections.abc import Collection

from pyoxigraph import NamedNode, Triple

from charactermemory.adapters.oxigraph import guard, queries
from charactermemory.adapters.oxigraph.connection import STORE_NAME, Connection, ResponseLost, Term
from charactermemory.adapters.oxigraph.contents import Content
from charactermemory.adapters.oxigraph.ledger import Ledger
from charactermemory.adapters.oxigraph.mapping import event_triples, object_triples, receipt_triples
from charactermemory.adapters.oxigraph.reads import Reads
from charactermemory.adapters.oxigraph.settle import settle
from charactermemory.domain.kinds import SCHEMA_VERSION
from charactermemory.errors import (
    CascadeTooLarge,
    CommitOutcomeUnknown,
    DatabaseError,
    PlanTooLarge,
    StoreError,
    StoreUnavailable,
    UnsupportedSchemaVersion,
)
from charactermemory.ids import MemoryObjectRef
from charactermemory.ports.graph import MAX_CASCADE, MAX_OBJECTS, WriteBatch
from charactermemory.ports.locks import Grant

MAX_TRIPLES = 20_000
"""Triples of objects and links in one commit; about half a second of work (consistency.md R4)."""


class Writer:
    """The `GraphWriter` of one grant of the writer lock."""

    def __init__(
        self,
        connection: Connection,
        graph: NamedNode,
        ledger: Ledger,
        reads: Reads,
        grant: Grant,
        watch_seconds: float,
    ) -> None:
        self._connection = connection
        self._graph = graph
        self._grant = grant
        self._watch_seconds = watch_seconds
        self._ledger = ledger
        self._reads = reads
        self.applied = False
        self.added: Collection[MemoryObjectRef] = ()

    @property
    def token(self) -> int:
        """See `GraphWriter`."""
        return self._grant.token

    def apply(self, batch: WriteBatch) -> int | None:
        """See `GraphWriter`. Three round trips: what is stored of the batch, the insert, its receipt.

        What stands against new objects whose references are stored is left to the guard to find; only then
        is it asked for.
        """
        if self.applied:
            raise RuntimeError("one grant carries one commit; take the lock again for another")
        _check_versions(batch)
        _check_size(batch)
        planned = guard.Planned.of(self.token, batch)
        stored = self._stored(planned)
        fresh = [node for node in planned.items if node not in stored]
        refused = None
        if stored != planned.requires.keys():
            state = self._state(planned)
            if clash := guard.collision(planned, state):
                raise clash
            refused = guard.refusal(planned, state)
        if not fresh and batch.event is None:
            return None
        if refused is not None:
            raise refused
        triples = self._triples(batch, planned, fresh)
        version = self._insert(planned, triples)
        self._ledger.committed(self.token)
        contents = [Content(planned.items[node], planned.digests[node]) for node in fresh]
        self._reads.committed(contents, batch.event, triples, version)
        self.applied = True
        self.added = {planned.items[node].ref for node in fresh}
        return self.token

    def _stored(self, planned: guard.Planned) -> set[Term | None]:
        named = [*planned.items, *planned.requires]
        if not named:
            return set()
        return {row[0] for row in self._connection.query(queries.digests(self._graph, named))}

    def _state(self, planned: guard.Planned) -> guard.Found:
        return guard.found(self._connection.query(guard.state_query(self._graph, planned)))

    def _triples(self, batch: WriteBatch, planned: guard.Planned, fresh: list[NamedNode]) -> list[Triple]:
        triples: list[Triple] = []
        for node in fresh:
            triples += object_triples(planned.items[node], planned.digests[node])
        if len(triples) > MAX_TRIPLES:
            raise PlanTooLarge(what="triples", count=len(triples), limit=MAX_TRIPLES)
        if batch.event is not None:
            triples += event_triples(batch.event)
        triples += receipt_triples(self.token, batch, fresh)
        return triples

    def _insert(self, planned: guard.Planned, triples: list[Triple]) -> int | None:
        """Send the update and find out whether it took effect; while that is unknown, the token stays open.

        Returns the version of the store that this update alone made of the one before it, None if others had a
        hand in it.
        """
        text = guard.insert(self._graph, planned, triples)
        self._grant.sending()
        before = self._connection.version()
        try:
            self._connection.update(text)
        except ResponseLost as lost:
            self._find_out(lost)
            return None
        except StoreError:
            self._grant.settled(False)
            raise
        after = self._connection.version()
        if not self._settled(self._receipt_there()):
            raise guard.refusal(planned, self._state(planned)) or DatabaseError(
                detail=f"commit {self.token} was refused for no reason found in the graph"
            )
        return after if before is not None and after == before + 1 else None

    def _settled(self, committed: bool) -> bool:
        self._grant.settled(committed)
        return committed

    def _receipt_there(self) -> bool:
        """Ask for the receipt; that this cannot be asked must not look as if nothing had happened."""
        try:
            return self._ledger.has(self.token)
        except StoreError as error:
            raise CommitOutcomeUnknown(
                store=STORE_NAME, detail=f"the receipt of commit {self.token} cannot be read: {error}"
            ) from error

    def _find_out(self, lost: ResponseLost) -> None:
        if lost.in_flight:
            committed = settle(self._connection, self._graph, self.token, self.token + 1, self._watch_seconds)
        else:
            committed = self._receipt_there()
        if not self._settled(committed):
            raise StoreUnavailable(store=STORE_NAME, detail=f"the commit did not take effect: {lost.detail}")


def _check_versions(batch: WriteBatch) -> None:
    for item in batch.objects:
        if item.schema_version != SCHEMA_VERSION:
            raise UnsupportedSchemaVersion(
                context=f"RDF {item.object_type.value.replace('_', ' ')} mapping",
                expected=SCHEMA_VERSION,
                actual=item.schema_version,
            )


def _check_size(batch: WriteBatch) -> None:
    if len(batch.objects) > MAX_OBJECTS:
        raise PlanTooLarge(what="objects", count=len(batch.objects), limit=MAX_OBJECTS)
    if batch.event is not None and len(batch.event.suppresses) > MAX_CASCADE:
        raise CascadeTooLarge(count=len(batch.event.suppresses), limit=MAX_CASCADE)
