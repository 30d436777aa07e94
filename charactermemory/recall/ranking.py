"""The one ranking formula (recall.md §6). Its constants are where tuning starts, not a rule (DESIGN §6)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from charactermemory.domain.kinds import RelationType
from charactermemory.domain.model import Model
from charactermemory.ids import MemoryObjectRef
from charactermemory.recall.expansion import Walk
from charactermemory.recall.roots import Root
from charactermemory.recall.verdict import Verdict

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
    """One admitted object with its scores, the roads of every root that reached it, and its shortest path."""

    ref: MemoryObjectRef
    scores: Scores
    roads: tuple[str, ...]
    path: Path
    direct_score: float | None

    @property
    def order(self) -> tuple[float, int, int]:
        """Final score descending, type rank, id."""
        return (-self.scores.final_score, self.ref.object_type.rank, self.ref.id.int)


def rank(roots: Sequence[Root], walks: Sequence[Walk], verdict: Verdict) -> list[Ranked]:
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
        own = direct.get(ref)
        distance, nearest = min(arrivals)
        ranked.append(
            Ranked(
                ref=ref,
                scores=_scores(
                    own,
                    [roots[index].score for hops, index in arrivals if hops > 0],
                    distance,
                    verdict.standing(ref).salience,
                ),
                roads=_roads(roots[index] for _, index in sorted(arrivals)),
                path=_path(walks[nearest], ref),
                direct_score=own.score if own else None,
            )
        )
    return sorted(ranked, key=lambda item: item.order)


def final_score(vector: float, graph: float, salience: float) -> float:
    """Return the weighted sum, in this order of summation."""
    return VECTOR_WEIGHT * vector + GRAPH_WEIGHT * graph + SALIENCE_WEIGHT * salience


def _scores(own: Root | None, root_scores: Sequence[float], distance: int, salience: float) -> Scores:
    inherited = max(root_scores, default=None)
    vector = INHERITANCE * inherited if inherited is not None else None
    source: DirectMatch | DerivedFromRoot = DirectMatch()
    if own is not None and (vector is None or own.score >= vector):
        vector = own.score
    elif inherited is not None:
        source = DerivedFromRoot(root_score=inherited)
    graph = 1 / (distance + 1)
    return Scores(
        final_score=final_score(vector or 0.0, graph, salience),
        vector_score=vector or 0.0,
        vector_score_source=source,
        graph_score=graph or None,
        salience_score=salience or None,
        similarity=own.similarity if own else None,
        lexical=own.lexical if own else None,
    )


def _roads(roots: Iterable[Root]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(road for root in roots for road in root.roads))


def _path(walk: Walk, ref: MemoryObjectRef) -> Path:
    steps: list[Step] = []
    while ref in walk.arrived:
        edge = walk.arrived[ref]
        steps.append(Step(source=edge.source, relation=edge.relation, target=edge.target))
        ref = edge.other(ref)
    return Path(root=walk.root, steps=tuple(reversed(steps)))
