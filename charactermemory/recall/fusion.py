"""How the dense and the lexical leg of one search become one score (docs/recall-tuning.md).

Kept apart because it is chosen by measurement.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from charactermemory.ids import MemoryObjectRef
from charactermemory.ports.vectors import VectorCandidate


@dataclass(frozen=True, slots=True)
class Leg:
    """What one leg found: the best raw score of each object, and whether the limit cut it off.

    `absolute`: the scores have a scale of their own that ends at 1.
    """

    scores: Mapping[MemoryObjectRef, float]
    cut: bool = False
    absolute: bool = False

    @classmethod
    def of(cls, candidates: Iterable[VectorCandidate], limit: int, absolute: bool = False) -> Leg:
        """Take the best hit of each object."""
        best: dict[MemoryObjectRef, float] = {}
        count = 0
        for count, candidate in enumerate(candidates, 1):  # noqa: B007  (the count is wanted afterwards)
            known = best.get(candidate.ref)
            if known is None or candidate.score > known:
                best[candidate.ref] = candidate.score
        return cls(best, count >= limit, absolute)


def fuse(legs: Sequence[Leg], left_out: Collection[MemoryObjectRef] = ()) -> dict[MemoryObjectRef, float]:
    """Return each object's relative score in [0, 1], without those left out, which then count for nothing.

    Each leg is stretched so that its best hit has 1 and what it did not find has 0: below its last hit if the
    limit cut it off, else below 0. The score is the mean of the legs; one that found nothing has no say. Where
    meaning alone speaks there is nothing to balance, and its cosine is taken as it is: weak stays weak.
    """
    speaking = [leg for leg in legs if any(score > 0 for score in leg.scores.values())]
    if len(speaking) == 1 and speaking[0].absolute:
        parts = [_as_it_is(speaking[0], left_out)]
    else:
        parts = [part for leg in speaking if (part := _stretched(leg, left_out))]
    total: dict[MemoryObjectRef, float] = {}
    for part in parts:
        for ref, score in part.items():
            total[ref] = total.get(ref, 0.0) + score / len(parts)
    for leg in legs:
        for ref in leg.scores:
            if ref not in total and ref not in left_out:
                total[ref] = 0.0
    return total


def _as_it_is(leg: Leg, left_out: Collection[MemoryObjectRef]) -> dict[MemoryObjectRef, float]:
    return {ref: max(score, 0.0) for ref, score in leg.scores.items() if ref not in left_out}


def _stretched(leg: Leg, left_out: Collection[MemoryObjectRef]) -> dict[MemoryObjectRef, float]:
    scores = {ref: score for ref, score in leg.scores.items() if ref not in left_out}
    top = max(scores.values(), default=0.0)
    if top <= 0:
        return {}
    low = max(min(scores.values()), 0.0) if leg.cut else 0.0
    if low >= top:
        return dict.fromkeys(scores, 1.0)
    return {ref: max(score - low, 0.0) / (top - low) for ref, score in scores.items()}
