"""The report on one retrieve: rationale and telemetry, always present (recall.md §10). Ids and counts only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

from charactermemory.domain.counted import counted
from charactermemory.domain.model import Model
from charactermemory.ports.vectors import Completeness
from charactermemory.recall.expansion import BoundReason, Walk
from charactermemory.recall.names import NameReference
from charactermemory.recall.omissions import (
    LifecycleFilterDecision,
    LifecycleFilterReason,
    StaleCandidateOmission,
    StaleCandidateReason,
)
from charactermemory.recall.pack import SectionPressure
from charactermemory.recall.roads.road import NOT_REQUESTED, CueKind, Degradation, Road, RoadAnswer
from charactermemory.recall.roots import Roots
from charactermemory.recall.selectivity import SelectivityDecision


class RoadReport(Model):
    """How many objects one road proposed, and how many it found too unlike the topic."""

    road: str
    cue: CueKind
    proposed_count: int
    below_floor_count: int = 0


class BoundCount(Model):
    """How many expansions one cap cut short."""

    reason: BoundReason
    count: int


class GraphExpansionReport(Model):
    """Plain sums over the roots: an object met from two roots counts twice."""

    attempted_root_count: int
    expanded_root_count: int
    missing_root_count: int
    expanded_object_count: int
    expanded_relation_count: int
    filtered_node_count: int
    bounded_failure_count: int
    bounded_failure_reasons: tuple[BoundCount, ...]


class SelectivityReport(Model):
    """The decisions by label; the four sum to `decision_count`."""

    decision_count: int
    high_selectivity_count: int
    low_selectivity_supported_count: int
    low_selectivity_rejected_count: int
    fallback_count: int


class RetrievalTelemetry(Model):
    """Counts of one retrieve; no memory text and no query text. Faint candidates are among the omitted roots."""

    query_embedding_dimension: int | None = None
    returned_vector_candidate_count: int
    vector_recall_completeness: Completeness
    roads: tuple[RoadReport, ...]
    unique_graph_root_candidate_count: int
    selected_graph_root_count: int
    graph_root_omission_count: int
    faint_root_candidate_count: int
    graph_expansion: GraphExpansionReport
    selectivity: SelectivityReport
    section_pressure: tuple[SectionPressure, ...]


class StaleReasonCount(Model):
    """How many omissions have one reason."""

    reason: StaleCandidateReason
    count: int


class LifecycleReasonCount(Model):
    """How many lifecycle decisions have one reason."""

    reason: LifecycleFilterReason
    count: int


class RetrievalRationale(Model):
    """Why the pack is as it is: what was left out and why, and what recall had to do without.

    Attributes:
        summary: one English sentence with the counts.
        degraded: what failed, road by road; empty if nothing did.
        names: what became of the names in the topic, in their order.
        stale_candidate_omissions: candidates and ranked memories that are not in the pack.
        lifecycle_filter_decisions: what the graph kept out, once for each root that came to it.
        telemetry: the counts.
    """

    summary: str
    degraded: tuple[Degradation, ...]
    names: tuple[NameReference, ...]
    vector_candidate_count: int
    graph_verified_count: int
    stale_candidate_omission_count: int
    stale_candidate_omission_reasons: tuple[StaleReasonCount, ...]
    stale_candidate_omissions: tuple[StaleCandidateOmission, ...]
    lifecycle_omission_count: int
    lifecycle_omission_reasons: tuple[LifecycleReasonCount, ...]
    lifecycle_filter_decisions: tuple[LifecycleFilterDecision, ...]
    telemetry: RetrievalTelemetry


ExpansionOutcome = Literal["expanded", "missing_root", "bounded"]


def expansion_outcome(walk: Walk) -> ExpansionOutcome:
    """Say how one expansion ended."""
    if walk.missing:
        return "missing_root"
    return "bounded" if walk.failure else "expanded"


def telemetry(
    answers: Sequence[tuple[Road, RoadAnswer]],
    roots: Roots,
    walks: Sequence[Walk],
    decisions: Sequence[SelectivityDecision],
    pressure: tuple[SectionPressure, ...],
) -> RetrievalTelemetry:
    """Count one retrieve."""
    searches = [search for _, answer in answers for search in answer.searches]
    dimensions = [answer.embedding_dimension for _, answer in answers if answer.embedding_dimension]
    return RetrievalTelemetry(
        query_embedding_dimension=dimensions[0] if dimensions else None,
        returned_vector_candidate_count=sum(len(search.hits.candidates) for search in searches),
        vector_recall_completeness=_weakest([search.hits.completeness for search in searches]),
        roads=tuple(
            RoadReport(
                road=road.name,
                cue=road.cue,
                proposed_count=len(answer.proposals),
                below_floor_count=answer.below_floor,
            )
            for road, answer in answers
        ),
        unique_graph_root_candidate_count=roots.unique,
        selected_graph_root_count=len(roots.selected),
        graph_root_omission_count=roots.omitted,
        faint_root_candidate_count=roots.faint,
        graph_expansion=_expansion(walks),
        selectivity=_selectivity(decisions),
        section_pressure=pressure,
    )


def rationale(
    counts: RetrievalTelemetry,
    degraded: Iterable[Degradation],
    names: tuple[NameReference, ...],
    included: int,
    stale: Sequence[StaleCandidateOmission],
    lifecycle: Sequence[LifecycleFilterDecision],
) -> RetrievalRationale:
    """Sum up one retrieve."""
    candidates = counts.returned_vector_candidate_count
    stale_reasons = Counter(item.reason for item in stale)
    lifecycle_reasons = Counter(item.reason for item in lifecycle)
    return RetrievalRationale(
        summary=(
            f"{counted(candidates, 'vector candidate')}, {counted(included, 'memory', 'memories')} included, "
            f"{counted(len(stale), 'candidate')} omitted, "
            f"{counted(len(lifecycle), 'lifecycle omission')}."
        ),
        degraded=tuple(degraded),
        names=names,
        vector_candidate_count=candidates,
        graph_verified_count=included,
        stale_candidate_omission_count=len(stale),
        stale_candidate_omission_reasons=tuple(
            StaleReasonCount(reason=reason, count=stale_reasons[reason])
            for reason in StaleCandidateReason
            if stale_reasons[reason]
        ),
        stale_candidate_omissions=tuple(stale),
        lifecycle_omission_count=len(lifecycle),
        lifecycle_omission_reasons=tuple(
            LifecycleReasonCount(reason=reason, count=lifecycle_reasons[reason])
            for reason in LifecycleFilterReason
            if lifecycle_reasons[reason]
        ),
        lifecycle_filter_decisions=tuple(lifecycle),
        telemetry=counts,
    )


_WEAKEST_FIRST = ("boundary_tie_open", "boundary_tie_closed", "exhaustive", "not_requested")


def _weakest(verdicts: Sequence[Completeness]) -> Completeness:
    """Return the weakest verdict, the first among equals; `not_requested` gives way (recall.md §11.6)."""
    return min(verdicts, key=lambda verdict: _WEAKEST_FIRST.index(verdict.kind), default=NOT_REQUESTED)


def _expansion(walks: Sequence[Walk]) -> GraphExpansionReport:
    failures = Counter(walk.failure.reason for walk in walks if walk.failure)
    missing = sum(walk.missing for walk in walks)
    return GraphExpansionReport(
        attempted_root_count=len(walks),
        expanded_root_count=len(walks) - missing,
        missing_root_count=missing,
        expanded_object_count=sum(len(walk.visited) for walk in walks),
        expanded_relation_count=sum(len(walk.relations) for walk in walks),
        filtered_node_count=sum(len(walk.filtered) for walk in walks),
        bounded_failure_count=failures.total(),
        bounded_failure_reasons=tuple(BoundCount(reason=reason, count=n) for reason, n in failures.items()),
    )


def _selectivity(decisions: Sequence[SelectivityDecision]) -> SelectivityReport:
    labels = Counter(decision.decision for decision in decisions)
    return SelectivityReport(
        decision_count=len(decisions),
        high_selectivity_count=labels["high_selectivity"],
        low_selectivity_supported_count=labels["low_selectivity_supported"],
        low_selectivity_rejected_count=labels["low_selectivity_rejected"],
        fallback_count=labels["conservative_fallback"],
    )
