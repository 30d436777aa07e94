"""The retrieval pipeline: names, roads, roots, expansion, verdict, ranking, sections, report (recall.md §3).

It writes nothing; the one thing it may change is to mark statistics unhealthy whose read failed.
"""

from __future__ import annotations

from collections.abc import Sequence

from charactermemory.ids import MemoryId, MemoryObjectRef, ObjectType
from charactermemory.ports.graph import Edge, GraphStore
from charactermemory.ports.stores import Stores
from charactermemory.recall.asking import answers_first
from charactermemory.recall.bearings import Cues
from charactermemory.recall.context import RetrievalContext
from charactermemory.recall.expansion import NO_OVERRIDES, Walk
from charactermemory.recall.exploration import Explorer
from charactermemory.recall.knobs import RecallKnobs
from charactermemory.recall.omissions import lifecycle_decisions, section_omissions, stale_omissions
from charactermemory.recall.outcome import RetrievalOutcome
from charactermemory.recall.pack import build_pack
from charactermemory.recall.passage import Passage
from charactermemory.recall.ranking import explainer, rank
from charactermemory.recall.reading import everything, forecast
from charactermemory.recall.report import rationale, telemetry
from charactermemory.recall.roads import DEFAULT_ROADS, Road, RoadAnswer
from charactermemory.recall.roots import merge, select
from charactermemory.recall.selectivity import Planner
from charactermemory.recall.situation import Situation
from charactermemory.recall.trace import trace
from charactermemory.recall.trust import Trust
from charactermemory.recall.verdict import Verdict, judge


def retrieve(
    stores: Stores,
    context: RetrievalContext,
    knobs: RecallKnobs = RecallKnobs(),  # noqa: B008  (frozen)
    roads: Sequence[Road] = DEFAULT_ROADS,
) -> RetrievalOutcome:
    """Bring back what a character in this situation would have in mind.

    A failing embedder, index or statistics store degrades recall and is reported; the rest still answers.

    Raises:
        OutOfDomain, InvalidSceneTimeOffset: the context is wrong; nothing was called.
        StoreError: the graph failed, or a store is closed or was forked away from its owner.
    """
    context.check()
    situation = Situation.read(stores.graph, context, knobs)
    context = situation.context
    answers = [(road, road.propose(stores, situation)) for road in roads]
    limits, policy = context.graph_limits, context.lifecycle_policy
    cues = _cues(stores, situation, answers)
    roots = select(cues.candidates, cues.bearings(), context.candidate_limits.max_graph_roots)
    trust = Trust(stores.statistics)
    plans = Planner(trust, knobs, limits, policy).plan(roots.selected)
    decisions = [row for root in roots.selected if root.ref in plans for row in plans[root.ref].decisions]
    walks = [
        Walk(root.ref, limits, plans[root.ref].overrides if root.ref in plans else NO_OVERRIDES)
        for root in roots.selected
    ]
    explorer = Explorer(stores.graph, trust, cues, limits, policy, plans)
    found = explorer.explore(walks)
    link_ids = _link_ids(stores.graph, walks) if context.include_trace else {}
    considered = everything(walks)
    passage = Passage(plans, found)
    foreseen = forecast(roots.selected, walks, explorer, cues, passage, context.section_limits)
    for final_read in (foreseen.worth, considered):
        verdict, final = judge(stores.graph, walks, found, policy, considered, final_read)
        ranked = foreseen.ranked
        if ranked is None or final is not walks or verdict.surprising(times=bool(cues.months)):
            bearings = cues.bearings(verdict.denied, _speakers(cues, verdict))
            ranked = rank(roots.selected, final, verdict.standing, cues, bearings, passage, found.capped)
        packed = build_pack(
            answers_first(ranked, verdict.content),
            verdict,
            context.section_limits,
            explainer(roots.selected, final),
        )
        if not packed.short:
            break
    return RetrievalOutcome(
        pack=packed.pack,
        rationale=rationale(
            telemetry(answers, roots, final, decisions, packed.pressure),
            [item for _, answer in answers for item in answer.degraded],
            situation.topic.references() if situation.topic else (),
            len(packed.pack.admissions),
            [*stale_omissions(roots.selected, final), *section_omissions(packed.placed)],
            lifecycle_decisions(roots.selected, final, verdict),
        ),
        trace=trace(answers, final, link_ids, decisions, packed.placed) if context.include_trace else None,
    )


def _cues(stores: Stores, situation: Situation, answers: Sequence[tuple[Road, RoadAnswer]]) -> Cues:
    """Gather what the roads found and look up where the turns among it stand, in one round trip.

    Who spoke them matters only where the topic names someone or someone is present.
    """
    limits = situation.context.candidate_limits
    cues = Cues(
        candidates=merge((road, found) for road, answer in answers for found in answer.proposals),
        legs=[search.best for _, answer in answers for search in answer.searches],
        named=situation.named,
        present=situation.present,
        months=situation.months,
    )
    said = [ref for ref in cues.candidates if ref.object_type is ObjectType.OBSERVATION]
    if said and limits.max_graph_roots:
        cues.know(stores.graph.places(said, speakers=bool(situation.named or situation.present)))
    return cues


def _speakers(cues: Cues, verdict: Verdict) -> dict[MemoryObjectRef, MemoryObjectRef]:
    """Return who spoke the turns that are known by nothing but their neighbours, as far as they were read.

    Asked for only where the topic names someone.
    """
    if not cues.named:
        return {}
    return {
        ref: MemoryObjectRef.of(ObjectType.ENTITY, speaker)
        for ref in cues.beside_found()
        if (speaker := getattr(verdict.content(ref), "speaker_entity_id", None)) is not None
    }


def _link_ids(graph: GraphStore, walks: Sequence[Walk]) -> dict[Edge, tuple[MemoryId, ...]]:
    traversed = sorted({edge for walk in walks for edge in walk.relations}, key=_edge_key)
    return graph.link_ids(traversed) if traversed else {}


def _edge_key(edge: Edge) -> tuple[int, tuple[int, int], tuple[int, int]]:
    return (edge.relation.rank, edge.source.order, edge.target.order)
