"""The one ranking formula (recall.md §6). Its constants are where tuning starts, not a rule (DESIGN §6)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from charactermemory.domain.kinds import RelationType
from charactermemory.domain.model import Model
from charactermemory.ids import MemoryObjectRef
from charactermemory.recall.expansion import Walk
from charactermemory.recall.roots import Root
from charactermemory.recall.standing import StandingOf

VECTOR_WEIGHT = 0.65
GRAPH_WEIGHT = 0.25
SALIENCE_WEIGHT = 0.10
INHERITANCE = 0.75
"""What an object reached from a root has of that root's score, however many hops away."""


class DirectMatch(Model):
    """The object itself was proposed by a road."""

    kind: Literal["direct_match"] = "direct_match"


class DerivedFromRoot(Model):
    """The object was reached from a root; its vector score is `INHERITANCE` of the root's."""

    kind: Literal["derived_from_root"] = "derived_from_root"
    root_score: float


class Scores(Model):
    """What a rank is made of. The weighted sum of the parts (None = 0) is `final_score`, within 1e-6.

    Attributes:
        final_score: what the memory is ranked by.
        vector_score: strength of the cue, own or inherited.
        vector_score_source: which of both.
        graph_score: 1 / (distance + 1) from the nearest root; None if 0.
        salience_score: the memory's own; None if 0.
        similarity: raw cosine to the topic, if the dense leg found the memory itself.
        lexical: raw BM25, if the lexical leg did.
    """

    final_score: float
    vector_score: float
    vector_score_source: Annotated[DirectMatch | DerivedFromRoot, Field(discriminator="kind")]
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


@dataclass(frozen=True, slots=True)
class Ranked:
    """One admitted object and what its rank is made of; the published forms are made when asked for.

    Attributes:
        ref: the object.
        final, vector, graph, salience: the score and its parts.
        inherited_from: the root score that `vector` was inherited from; None for a direct match.
        own: the object as a root; None if it is none.
        arrivals: for each walk that reached it, the distance from its root and the walk's place in the list.
    """

    ref: MemoryObjectRef
    final: float
    vector: float
    graph: float
    salience: float
    inherited_from: float | None
    own: Root | None
    arrivals: tuple[tuple[int, int], ...]

    def scores(self) -> Scores:
        """Return the published scores."""
        return Scores(
            final_score=self.final,
            vector_score=self.vector,
            vector_score_source=DirectMatch()
            if self.inherited_from is None
            else DerivedFromRoot(root_score=self.inherited_from),
            graph_score=self.graph or None,
            salience_score=self.salience or None,
            similarity=self.own.similarity if self.own else None,
            lexical=self.own.lexical if self.own else None,
        )


def explainer(
    roots: Sequence[Root], walks: Sequence[Walk]
) -> Callable[[Ranked], tuple[tuple[str, ...], Path]]:
    """Return what tells of a ranked object the roads of every root that reached it, and the shortest path."""

    def explain(item: Ranked) -> tuple[tuple[str, ...], Path]:
        nearest_first = [index for _, index in sorted(item.arrivals)]
        roads = dict.fromkeys(road for index in nearest_first for road in roots[index].roads)
        return tuple(roads), _path(walks[nearest_first[0]], item.ref)

    return explain


def _path(walk: Walk, ref: MemoryObjectRef) -> Path:
    steps: list[Step] = []
    while ref in walk.arrived:
        edge = walk.arrived[ref]
        steps.append(Step(source=edge.source, relation=edge.relation, target=edge.target))
        ref = edge.other(ref)
    return Path(root=walk.root, steps=tuple(reversed(steps)))


def rank(roots: Sequence[Root], walks: Sequence[Walk], standing_of: StandingOf) -> list[Ranked]:
    """Rank every object that any walk admitted, once.

    Vector and graph component each take their best value over the roots; for equal vector values a direct
    match is the recorded source.
    """
    direct = {root.ref: root for root in roots}
    reached: dict[MemoryObjectRef, list[tuple[int, int]]] = {}
    for index, walk in enumerate(walks):
        for ref, distance in walk.visited.items():
            reached.setdefault(ref, []).append((distance, index))
    ranked = []
    for ref, arrivals in reached.items():
        own, inherited = direct.get(ref), None
        vector = own.score if own else 0.0
        strongest = max((roots[index].score for hops, index in arrivals if hops), default=None)
        if strongest is not None and (own is None or INHERITANCE * strongest > vector):
            vector, inherited = INHERITANCE * strongest, strongest
        graph, salience = 1 / (min(arrivals)[0] + 1), standing_of(ref).salience
        final = final_score(vector, graph, salience)
        ranked.append(Ranked(ref, final, vector, graph, salience, inherited, own, tuple(arrivals)))
    ranked.sort(key=_order)
    return ranked


def _order(item: Ranked) -> tuple[float, int, int]:
    """Final score descending, type rank, id."""
    return (-item.final, item.ref.object_type.rank, item.ref.id.int)


def final_score(vector: float, graph: float, salience: float) -> float:
    """Return the weighted sum, in this order of summation."""
    return VECTOR_WEIGHT * vector + GRAPH_WEIGHT * graph + SALIENCE_WEIGHT * salience
