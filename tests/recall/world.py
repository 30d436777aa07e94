"""A small memory for tests of recall: a real graph and real statistics, scripted searches, every port watched."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

from charactermemory.adapters.oxigraph.connection import Connection
from charactermemory.adapters.oxigraph.in_memory import InMemoryConnection
from charactermemory.adapters.oxigraph.locks import ThreadWriterLock
from charactermemory.adapters.oxigraph.store import OxigraphStore
from charactermemory.adapters.statistics.sqlite import MEMORY, SqliteStatistics
from charactermemory.domain.lifecycle import derived_links
from charactermemory.domain.objects import DerivedMemory, MemoryObject
from charactermemory.ids import MemoryObjectRef
from charactermemory.ports.graph import WriteBatch
from charactermemory.ports.ledger import Ledger
from charactermemory.ports.stores import Stores
from charactermemory.recall import RecallKnobs, RetrievalContext, RetrievalOutcome, retrieve
from charactermemory.recall.omissions import LifecycleFilterReason, StaleCandidateReason
from charactermemory.recall.sections import Section, SectionAssignment
from charactermemory.recall.trace import TracedExpansion, TracedRelation
from charactermemory.testing.builders import NOON, forgetting
from charactermemory.testing.scripted import ScriptedEmbedder, ScriptedVectorIndex
from charactermemory.upkeep.derive import derive
from tests.support.spy import Spy

COLLECTION = "test"


class World:
    """A collection one can fill by hand.

    Attributes:
        graph, statistics: spies before the real stores.
        vectors, embedder: scripted.
        knobs: what recall is steered by.
    """

    def __init__(self, connection: Connection | None = None) -> None:
        self.graph: Any = Spy(
            OxigraphStore(connection or InMemoryConnection(), COLLECTION, ThreadWriterLock("recall-test"))
        )
        self.statistics: Any = Spy(SqliteStatistics(MEMORY, COLLECTION))
        self.vectors = ScriptedVectorIndex()
        self.embedder = ScriptedEmbedder()
        self.knobs = RecallKnobs()
        self.stores = Stores(
            graph=self.graph,
            vectors=self.vectors,
            statistics=self.statistics,
            embedder=self.embedder,
            clock=lambda: NOON,
            vector_ledger=Ledger(0, 0),
            statistics_ledger=Ledger(0, 0),
        )

    def store(self, *items: MemoryObject, statistics: bool = True) -> None:
        """Store objects and links with the links that follow from them; project them, unless told not to."""
        objects = tuple(chain(items, *(derived_links(i) for i in items if isinstance(i, DerivedMemory))))
        touched = tuple(
            MemoryObjectRef.of(item.object_type, old)
            for item in items
            if isinstance(item, DerivedMemory)
            for old in item.supersedes
        )
        self._write(WriteBatch("commit", "by hand", NOON, objects, touched=touched), statistics)

    def forget(self, *items: MemoryObject, statistics: bool = True) -> None:
        """Suppress objects, them alone."""
        refs = tuple(item.ref for item in items)
        self._write(WriteBatch("forget", "by hand", NOON, event=forgetting(*items), touched=refs), statistics)

    def _write(self, batch: WriteBatch, statistics: bool) -> None:
        with self.graph.inner.writing() as writer:
            token = writer.apply(batch)
        assert token is not None
        refs = {item.ref for item in batch.objects} | set(batch.touched)
        if statistics:
            report = derive(self.stores, refs, vectors=False)
            assert report.statistics.status == "succeeded", report
        self.clear_calls()

    def clear_calls(self) -> None:
        """Forget which calls were made so far."""
        self.graph.calls.clear()
        self.statistics.calls.clear()
        self.vectors.searches.clear()
        self.embedder.queries.clear()

    def retrieve(self, context: RetrievalContext | None = None, **fields: Any) -> RetrievalOutcome:
        """Retrieve with a context, or with one of these fields; the topic is "tea" unless said otherwise."""
        given = context or RetrievalContext(**({"topic": "tea", "include_trace": True} | fields))
        return retrieve(self.stores, given, self.knobs)


def refs_in(outcome: RetrievalOutcome, section: Section | None = None) -> list[MemoryObjectRef]:
    """Return the memories of the pack, or of one section, in rank order."""
    return [entry.object for entry in outcome.pack.admissions if section in (None, entry.section)]


def refs(items: Iterable[MemoryObject]) -> list[MemoryObjectRef]:
    """Return the references of objects."""
    return [item.ref for item in items]


def expansion_of(outcome: RetrievalOutcome, root: MemoryObject | MemoryObjectRef) -> TracedExpansion:
    """Return how one root's expansion went."""
    assert outcome.trace
    ref = root if isinstance(root, MemoryObjectRef) else root.ref
    (row,) = [row for row in outcome.trace.graph_expansions if row.root == ref]
    return row


def relations_of(outcome: RetrievalOutcome, root: MemoryObject) -> list[TracedRelation]:
    """Return the relations that were traversed under one root."""
    assert outcome.trace
    return [row for row in outcome.trace.graph_relations if row.root == root.ref]


def proximities(outcome: RetrievalOutcome, root: MemoryObject) -> dict[MemoryObjectRef, int]:
    """Return the smallest proximity of any relation under one root that touches each object but the root."""
    found: dict[MemoryObjectRef, int] = {}
    for row in relations_of(outcome, root):
        for end in {row.source, row.target} - {root.ref}:
            found[end] = min(row.proximity, found.get(end, row.proximity))
    return found


def assignment_of(outcome: RetrievalOutcome, item: MemoryObject) -> SectionAssignment:
    """Return where one ranked object went."""
    assert outcome.trace
    (row,) = [row for row in outcome.trace.section_assignments if row.object == item.ref]
    return row


def ranked_in(outcome: RetrievalOutcome) -> list[MemoryObjectRef]:
    """Return every ranked object, whether or not it is in the pack, in rank order."""
    assert outcome.trace
    return [row.object for row in outcome.trace.section_assignments]


def stale(outcome: RetrievalOutcome) -> list[tuple[MemoryObjectRef, StaleCandidateReason]]:
    """Return the candidates that were left out, with the reason."""
    return [(row.object, row.reason) for row in outcome.rationale.stale_candidate_omissions]


def decisions(outcome: RetrievalOutcome) -> list[tuple[MemoryObjectRef, LifecycleFilterReason]]:
    """Return what the graph kept out, with the reason."""
    return [(row.object, row.reason) for row in outcome.rationale.lifecycle_filter_decisions]
