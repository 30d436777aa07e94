"""The one ranking formula (recall.md §6, amended). Its constants come from docs/recall-tuning.md."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from charactermemory.domain.kinds import RelationType
from charactermemory.domain.model import Model
from charactermemory.ids import MemoryObjectRef, ObjectType
from charactermemory.ports.graph import Edge
from charactermemory.recall.bearings import NAMED, NO_BEARING, Bearing, Cues
from charactermemory.recall.expansion import Walk
from charactermemory.recall.months import DATED, happened_in
from charactermemory.recall.passage import Passage
from charactermemory.recall.presence import company
from charactermemory.recall.roads.road import CueKind
from charactermemory.recall.roots import Candidate, Root
from charactermemory.recall.standing import StandingOf
from charactermemory.recall.support import support

CUE_WEIGHT = 0.75
"""Of the vector score and of everything around it."""
GRAPH_WEIGHT = 0.15
SALIENCE_WEIGHT = 0.10
INHERITANCE = 0.75
"""What an object reached from a root has of that root's score, for each hop: two weak relations are weaker.

What lies behind a notion has less of it (`passage`)."""
SIBLING_INHERITANCE = 0.2
"""What an observation reached through its episode has: what is said an hour later is another matter."""

_LIVED = frozenset({ObjectType.EPISODE, ObjectType.OBSERVATION})
"""What happened at a time; other memories have only that at which they were made."""


class DirectMatch(Model):
    """The object itself was proposed by a road."""

    kind: Literal["direct_match"] = "direct_match"


class DerivedFromRoot(Model):
    """The object was reached from a root; its vector score is `factor` times the root's."""

    kind: Literal["derived_from_root"] = "derived_from_root"
    root_score: float
    factor: float = INHERITANCE


_DIRECT_MATCH = DirectMatch()


class Scores(Model):
    """What a rank is made of.

    `final_score` is `CUE_WEIGHT` times the sum of vector, neighbour, named, present, dated, episode, support and
    asking score, plus `GRAPH_WEIGHT` times the graph score, plus `SALIENCE_WEIGHT` times salience (None = 0),
    within 1e-6.

    Attributes:
        final_score: what the memory is ranked by.
        vector_score: strength of the cue, own or inherited; relative to what else was found.
        vector_score_source: which of both.
        neighbour_score: what the turns beside it in its episode match.
        named_score: a bonus for being spoken by, or held about, someone the topic names.
        present_score: a share of its match for being spoken by, held about, or lived through with someone present.
        dated_score: a bonus for having happened in a month the topic names.
        episode_score: what its episode matches; of an episode, what its turns do.
        support_score: what its sources or conclusions match, and what shares its thread or notion.
        asking_score: what a turn loses for ending with a question, below 0; known of turns that were read.
        graph_score: 1 / (distance + 1) from the nearest root; None if 0.
        salience_score: the memory's own; None if 0.
        similarity: raw cosine to the topic, if the dense leg found the memory itself.
        lexical: raw BM25, if the lexical leg did.
    """

    final_score: float
    vector_score: float
    vector_score_source: Annotated[DirectMatch | DerivedFromRoot, Field(discriminator="kind")]
    neighbour_score: float | None = None
    named_score: float | None = None
    present_score: float | None = None
    dated_score: float | None = None
    episode_score: float | None = None
    support_score: float | None = None
    asking_score: float | None = None
    graph_score: float | None = None
    salience_score: float | None = None
    similarity: float | None = None
    lexical: float | None = None


class Step(Model):
    """One traversed relation, in its own direction."""

    source: MemoryObjectRef
    relation: RelationType
    target: MemoryObjectRef


class Path(Model):
    """How a memory was reached: from which root, over which steps. No steps: it is the root."""

    root: MemoryObjectRef
    steps: tuple[Step, ...] = ()


class Ranked(NamedTuple):
    """One admitted object and what its rank is made of; the published forms are made when asked for.

    Attributes:
        ref: the object.
        final, vector, named, present, dated, support, graph, salience: the score and its parts.
        bearing: the other parts.
        inherited_from, factor: the root score `vector` was inherited from, and how much of it; None if it is
            the object's own.
        candidate: the object as roads proposed it; None if none did.
        arrivals: for each walk that reached it, the distance from its root and the walk's place in the list.
        kinds: the kinds of cue that reached it.
        asking: the part of the score that is known once it was read (`asking`).
    """

    ref: MemoryObjectRef
    final: float
    vector: float
    named: float
    present: float
    dated: float
    support: float
    graph: float
    salience: float
    bearing: Bearing
    inherited_from: float | None
    factor: float
    candidate: Candidate | None
    arrivals: tuple[tuple[int, int], ...]
    kinds: frozenset[CueKind]
    asking: float = 0.0

    def scores(self) -> Scores:
        """Return the published scores."""
        return Scores(
            final_score=self.final,
            vector_score=self.vector,
            vector_score_source=_DIRECT_MATCH
            if self.inherited_from is None
            else DerivedFromRoot(root_score=self.inherited_from, factor=self.factor),
            neighbour_score=self.bearing.neighbours or None,
            named_score=self.named or None,
            present_score=self.present or None,
            dated_score=self.dated or None,
            episode_score=self.bearing.episode or None,
            support_score=self.support or None,
            asking_score=self.asking or None,
            graph_score=self.graph or None,
            salience_score=self.salience or None,
            similarity=self.candidate.similarity if self.candidate else None,
            lexical=self.candidate.lexical if self.candidate else None,
        )


def explainer(
    roots: Sequence[Root], walks: Sequence[Walk]
) -> Callable[[Ranked], tuple[tuple[str, ...], Path]]:
    """Return what tells of a ranked object the roads of every root that reached it, and the shortest path."""

    def explain(item: Ranked) -> tuple[tuple[str, ...], Path]:
        nearest_first = [index for _, index in sorted(item.arrivals)]
        own = item.candidate.roads if item.candidate else ()
        roads = dict.fromkeys(road for index in nearest_first for road in roots[index].candidate.roads)
        return tuple(dict.fromkeys((*own, *roads))), _path(walks[nearest_first[0]], item.ref)

    return explain


def _path(walk: Walk, ref: MemoryObjectRef) -> Path:
    steps: list[Step] = []
    while ref in walk.arrived:
        edge = walk.arrived[ref]
        steps.append(Step(source=edge.source, relation=edge.relation, target=edge.target))
        ref = edge.other(ref)
    return Path(root=walk.root, steps=tuple(reversed(steps)))


def rank(
    roots: Sequence[Root],
    walks: Sequence[Walk],
    standing_of: StandingOf,
    cues: Cues,
    bearings: Mapping[MemoryObjectRef, Bearing],
    passage: Passage,
    hubs: Collection[MemoryObjectRef],
) -> list[Ranked]:
    """Rank every object that any walk admitted, once.

    Vector and graph component each take their best value over the roots; for equal vector values the object's
    own is the recorded source. What was reached through notions inherits what gets past them.
    """
    reached: dict[MemoryObjectRef, list[tuple[int, int]]] = {}
    for index, walk in enumerate(walks):
        for ref, distance in walk.visited.items():
            reached.setdefault(ref, []).append((distance, index))
    supported, about = support(walks, bearings, cues.named, hubs)
    accompanied = company(walks, cues)
    own = [bearings[root.ref].own if root.ref in bearings else 0.0 for root in roots]
    passed = [passage.shares(walk) for walk in walks]
    called = [root.candidate.kinds for root in roots]
    ranked = []
    for ref, arrivals in reached.items():
        bearing, candidate = bearings.get(ref, NO_BEARING), cues.candidates.get(ref)
        vector, inherited, factor = bearing.own, None, INHERITANCE
        said = ref.object_type is ObjectType.OBSERVATION
        kinds: frozenset[CueKind] = candidate.kinds if candidate else frozenset()
        for hops, index in arrivals:
            if not called[index] <= kinds:
                kinds |= called[index]
            if not hops:
                continue
            most = INHERITANCE**hops * passed[index].get(ref, 1.0)
            if most * own[index] > vector or (candidate is None and inherited is None):
                share = _share(walks[index].arrived[ref], most) if said else most
                if share * own[index] > vector or (candidate is None and inherited is None):
                    vector, inherited, factor = share * own[index], own[index], share
        standing = standing_of(ref)
        graph, salience = 1 / (min(arrivals)[0] + 1), standing.salience
        supports = supported.get(ref, 0.0)
        named = NAMED if ref in about else bearing.named
        present = bearing.present
        if ref in accompanied:
            present += cues.present_share * accompanied[ref] * bearing.match
        dated = 0.0
        if cues.months and ref.object_type in _LIVED and bearing.total > 0:
            dated = DATED * happened_in(cues.months, standing.when)
        cue = vector + bearing.neighbours + named + present + dated + bearing.episode + supports
        ranked.append(
            Ranked(
                ref=ref,
                final=CUE_WEIGHT * cue + GRAPH_WEIGHT * graph + SALIENCE_WEIGHT * salience,
                vector=vector,
                named=named,
                present=present,
                dated=dated,
                support=supports,
                graph=graph,
                salience=salience,
                bearing=bearing,
                inherited_from=inherited,
                factor=factor,
                candidate=candidate,
                arrivals=tuple(arrivals),
                kinds=kinds,
            )
        )
    return in_order(ranked)


def _share(arrived: Edge, most: float) -> float:
    return min(SIBLING_INHERITANCE, most) if arrived.relation is RelationType.OBSERVED_IN else most


def in_order(ranked: Iterable[Ranked]) -> list[Ranked]:
    """Return ranked objects best first: final score descending, type rank, id."""
    return sorted(ranked, key=lambda item: (-item.final, item.ref.rank, item.ref.number))
