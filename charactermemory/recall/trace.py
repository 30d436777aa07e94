"""The trace: every step of one retrieve, only when asked for (recall.md §10.3). Ids and scores, no text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from charactermemory.domain.kinds import RelationType
from charactermemory.domain.model import Model
from charactermemory.ids import MemoryId, MemoryObjectRef, ObjectType
from charactermemory.ports.graph import Edge
from charactermemory.ports.vectors import VectorSurface
from charactermemory.recall.expansion import BoundReason, Walk
from charactermemory.recall.pack import Placed
from charactermemory.recall.report import ExpansionOutcome, expansion_outcome
from charactermemory.recall.roads.road import Road, RoadAnswer
from charactermemory.recall.sections import SectionAssignment
from charactermemory.recall.selectivity import SelectivityDecision


class TracedCandidate(Model):
    """One hit of one leg of a road's search; `rank` from 1, in the leg's order."""

    road: str
    leg: str
    object: MemoryObjectRef
    surface: VectorSurface
    score: float
    rank: int


class TracedRelation(Model):
    """One traversed relation under one root; without a link node that asserts it, `link_ids` is empty."""

    root: MemoryObjectRef
    link_ids: tuple[MemoryId, ...]
    source: MemoryObjectRef
    relation: RelationType
    target: MemoryObjectRef
    proximity: int


class TracedBound(Model):
    """The first cap that bit, and where."""

    reason: BoundReason
    at: MemoryObjectRef


class TracedExpansion(Model):
    """How the expansion of one root went; `link_count` counts relations with both ends admitted."""

    root: MemoryObjectRef
    object_count: int
    relation_count: int
    link_count: int
    filtered_node_count: int
    bounded_failure: TracedBound | None = None
    outcome: ExpansionOutcome


class FanoutUtilization(Model):
    """How one node's neighbours of one kind met the fan-out caps; `at_least`: it has more than was read."""

    root: MemoryObjectRef
    node: MemoryObjectRef
    relation: RelationType
    object_type: ObjectType
    configured_cap: int
    selected_cap: int
    retained_count: int
    omitted_by_fanout_count: int
    at_least: bool


class RetrievalTrace(Model):
    """Everything one retrieve did."""

    vector_candidates: tuple[TracedCandidate, ...]
    graph_relations: tuple[TracedRelation, ...]
    graph_expansions: tuple[TracedExpansion, ...]
    fanout_utilization: tuple[FanoutUtilization, ...]
    selectivity_decisions: tuple[SelectivityDecision, ...]
    section_assignments: tuple[SectionAssignment, ...]


def trace(
    answers: Sequence[tuple[Road, RoadAnswer]],
    walks: Sequence[Walk],
    link_ids: Mapping[Edge, tuple[MemoryId, ...]],
    decisions: Sequence[SelectivityDecision],
    placed: Sequence[Placed],
) -> RetrievalTrace:
    """Write down one retrieve; roots in their order."""
    return RetrievalTrace(
        vector_candidates=tuple(
            TracedCandidate(
                road=road.name,
                leg=search.leg,
                object=candidate.ref,
                surface=candidate.surface,
                score=candidate.score,
                rank=rank,
            )
            for road, answer in answers
            for search in answer.searches
            for rank, candidate in enumerate(search.hits.candidates, 1)
        ),
        graph_relations=tuple(row for walk in walks for row in _relations(walk, link_ids)),
        graph_expansions=tuple(_expansion(walk) for walk in walks),
        fanout_utilization=tuple(row for walk in walks for row in _utilization(walk)),
        selectivity_decisions=tuple(decisions),
        section_assignments=tuple(row.assignment() for row in placed),
    )


def _relations(walk: Walk, link_ids: Mapping[Edge, tuple[MemoryId, ...]]) -> list[TracedRelation]:
    def order(edge: Edge) -> tuple[int, int, tuple[int, int], tuple[int, int]]:
        return (walk.relations[edge], edge.relation.rank, edge.source.order, edge.target.order)

    return [
        TracedRelation(
            root=walk.root,
            link_ids=link_ids.get(edge, ()),
            source=edge.source,
            relation=edge.relation,
            target=edge.target,
            proximity=walk.relations[edge],
        )
        for edge in sorted(walk.relations, key=order)
    ]


def _expansion(walk: Walk) -> TracedExpansion:
    return TracedExpansion(
        root=walk.root,
        object_count=len(walk.visited),
        relation_count=len(walk.relations),
        link_count=len(walk.links()),
        filtered_node_count=len(walk.filtered),
        bounded_failure=TracedBound(reason=walk.failure.reason, at=walk.failure.at) if walk.failure else None,
        outcome=expansion_outcome(walk),
    )


def _utilization(walk: Walk) -> list[FanoutUtilization]:
    return [
        FanoutUtilization(
            root=walk.root,
            node=row.node,
            relation=row.pair[0],
            object_type=row.pair[1],
            configured_cap=row.configured_cap,
            selected_cap=row.selected_cap,
            retained_count=row.retained,
            omitted_by_fanout_count=row.omitted,
            at_least=row.at_least,
        )
        for row in walk.utilization()
    ]
