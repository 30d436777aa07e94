"""How the dense and the lexical leg of one search become one score.

Kept apart because it is chosen by measurement. Measured on LoCoMo's three tuning conversations (single
turns without their speaker, WordLlama, 48 candidates a leg; R@10): this function .588 at a dense weight of
.4 and .579 at .5; standard scores .548, min-max .495 at .5; BM25 alone .597.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from charactermemory.ids import MemoryObjectRef
from charactermemory.ports.vectors import LegHits, VectorCandidate

DENSE_WEIGHT = 0.5
LEXICAL_WEIGHT = 0.5


@dataclass(frozen=True, slots=True)
class Fused:
    """One object's score in [0, 1], with the raw scores it was made of (None: that leg did not bring it)."""

    ref: MemoryObjectRef
    score: float
    similarity: float | None
    lexical: float | None


def fuse(dense: LegHits, lexical: LegHits, limit: int) -> list[Fused]:
    """Combine both legs; the result is in ref order.

    Cosine is taken as it is (below 0 counts as 0), so that a weak match stays weak however many there are;
    BM25, which has no upper end, is divided by the best of its leg. An object that a full leg left out
    scored at most as the last one that got in, and is given that; a leg that found nothing has no say.
    """
    similarity = _best(dense.candidates)
    words = _best(lexical.candidates)
    top = max(words.values(), default=0.0)
    legs = [
        _Leg(DENSE_WEIGHT, {ref: max(score, 0.0) for ref, score in similarity.items()}, limit),
        _Leg(LEXICAL_WEIGHT, {ref: score / top for ref, score in words.items()} if top > 0 else {}, limit),
    ]
    speaking = [leg for leg in legs if leg.scores]
    total = sum(leg.weight for leg in speaking)
    return [
        Fused(
            ref=ref,
            score=sum(leg.weight / total * leg.score(ref) for leg in speaking) if speaking else 0.0,
            similarity=similarity.get(ref),
            lexical=words.get(ref),
        )
        for ref in sorted(similarity.keys() | words.keys())
    ]


@dataclass(frozen=True, slots=True)
class _Leg:
    weight: float
    scores: dict[MemoryObjectRef, float]
    limit: int

    def score(self, ref: MemoryObjectRef) -> float:
        left_out = min(self.scores.values()) if len(self.scores) >= self.limit else 0.0
        return self.scores.get(ref, left_out)


def _best(candidates: Sequence[VectorCandidate]) -> dict[MemoryObjectRef, float]:
    best: dict[MemoryObjectRef, float] = {}
    for candidate in candidates:
        best[candidate.ref] = max(candidate.score, best.get(candidate.ref, candidate.score))
    return best
