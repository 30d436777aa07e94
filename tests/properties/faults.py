"""Faults to be planted in the code under test, each as small as the mistake it stands for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import pytest

from charactermemory.adapters.oxigraph import guard
from charactermemory.adapters.oxigraph import vocabulary as cm
from charactermemory.adapters.oxigraph.answers import found_number
from charactermemory.adapters.oxigraph.mapping import event_triples, object_triples, receipt_triples
from charactermemory.adapters.oxigraph.writer import Writer
from charactermemory.domain.lifecycle import Stored
from charactermemory.ids import MemoryObjectRef
from charactermemory.ports.graph import WriteBatch
from charactermemory.ports.ledger import Ledger
from charactermemory.ports.stores import Stores
from charactermemory.remember import commit
from charactermemory.upkeep import derive
from charactermemory.upkeep.indexing import Reading, embed_lacking, read_synced

Fault = Callable[[pytest.MonkeyPatch], None]


def no_currency_check(patch: pytest.MonkeyPatch) -> None:
    """Nobody asks whether a memory was superseded."""
    patch.setattr(Stored, "superseded", property(lambda self: False))


def unsuppress_on_replay(patch: pytest.MonkeyPatch) -> None:
    """Remembering a plan again takes back the forgets that reached its objects."""
    apply = Writer.apply

    def faulty(self: Writer, batch: WriteBatch) -> int | None:
        for node in guard.Planned.of(self.token, batch).active:
            event = f"GRAPH {self._graph} {{ ?e {cm.SUPPRESSES} {node} }}"
            self._connection.update(f"DELETE {{ {event} }} WHERE {{ {event} }}")
        return apply(self, batch)

    patch.setattr(Writer, "apply", faulty)


def mark_too_far(patch: pytest.MonkeyPatch) -> None:
    """A derived store is said to reflect every commit, those that are owed too."""
    patch.setattr(Ledger, "applied", lambda self: self._last)


def debt_cleared_by_another(patch: pytest.MonkeyPatch) -> None:
    """Deriving any object settles all that earlier commits owe: an outbox cleared by object, not by commit."""

    def faulty(self: Ledger, refs: Collection[MemoryObjectRef], as_of: int) -> None:
        for token in [token for token in self._owed if token <= as_of]:
            del self._owed[token]

    patch.setattr(Ledger, "settle", faulty)


def receipt_named_by_plan(patch: pytest.MonkeyPatch) -> None:
    """A second commit of the same plan or draft writes into the receipt of the first."""

    def named(self: Writer, digest: str) -> int:
        receipt = f'?r {cm.PLAN_DIGEST} "{digest}" ; {cm.TOKEN} ?t'
        rows = self._connection.query(f"SELECT ?t WHERE {{ GRAPH {self._graph} {{ {receipt} }} }}")
        return min((found_number(row[0]) for row in rows), default=self.token)

    def faulty(self: Any, batch: WriteBatch, planned: guard.Planned, fresh: Sequence[Any]) -> list[Any]:
        triples = [t for node in fresh for t in object_triples(planned.items[node], planned.digests[node])]
        if batch.event is not None:
            triples += event_triples(batch.event)
        self.named = named(self, batch.plan_digest)
        return triples + receipt_triples(self.named, batch, fresh)

    patch.setattr(Writer, "_triples", faulty)
    patch.setattr(Writer, "_receipt_there", lambda self: self._ledger.has(self.named))


def late_upsert(patch: pytest.MonkeyPatch) -> None:
    """A derive writes by what the graph said before it embedded, not by what it says under the lock."""
    before: dict[tuple[int, tuple[MemoryObjectRef, ...]], tuple[Stores, Reading]] = {}

    def embed(stores: Stores, target: Any, refs: Sequence[MemoryObjectRef], *known: Any) -> Any:
        before[id(stores), tuple(refs)] = stores, read_synced(stores, refs)
        return embed_lacking(stores, target, refs, *known)

    def read(stores: Stores, refs: Sequence[MemoryObjectRef]) -> Reading:
        _, reading = before.pop((id(stores), tuple(refs)), (stores, None))
        return reading or read_synced(stores, refs)

    patch.setattr(derive, "embed_lacking", embed)
    patch.setattr(derive, "read_synced", read)


def guard_dropped(patch: pytest.MonkeyPatch) -> None:
    """The insert has no conditions; only what is read before it decides."""
    patch.setattr(guard, "_checks", lambda graph, planned: iter(()))


def predecessors_untouched(patch: pytest.MonkeyPatch) -> None:
    """A commit that supersedes does not say that it concerns what it supersedes."""
    patch.setattr(commit, "touched", lambda objects, authored: iter(()))


FAULTS: tuple[tuple[Fault, str], ...] = (
    (no_currency_check, "recall returned what has no influence"),
    (unsuppress_on_replay, "Remember was not refused"),
    (mark_too_far, "recall did not return|the index is"),
    (debt_cleared_by_another, "recall did not return|the index is"),
    (receipt_named_by_plan, "receipt"),
    (late_upsert, "the index is"),
    (guard_dropped, "was not refused"),
    (predecessors_untouched, "the index is"),
)
"""Each fault, and what is first seen of it."""
