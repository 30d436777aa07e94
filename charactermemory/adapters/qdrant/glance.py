"""A first look at every vector in short form (docs/decisions/glance-first.md).

The engine keeps each vector a second time, in 8 bits a dimension, and looks at all of these; the best by that it
then scores in full. What it passed over could only belong to the answer if the short form erred by more than the
room there is, and where there is too little room every vector is looked at in full: the answers are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Generic

from .search import Hit, Request

if TYPE_CHECKING:
    import qdrant_edge

ERROR = 0.1
"""A score by the short form is off by at most this over the square root of the dimension.

Measured by `benchmarks/short_form.py` over 1.8 million pairs of vectors of 2 to 3,072 dimensions (normal, with a
common direction, sparse, heavy-tailed, with a spike): standard deviation at most 0.0085, largest 0.046.
"""

LOOKED_AT = 3
"""How many times the limit is scored in full: room enough for all of LoCoMo's questions, and for all recalls that
were looked at among 150,000 made vectors (docs/decisions/glance-first.md); each hundred costs 0.1 ms."""

FEWEST = 64
"""And never fewer than this, for a small limit leaves little room."""


@dataclass(frozen=True, slots=True)
class Glance(Generic[Request]):
    """How to look at vectors of one size in short form.

    Attributes:
        make: turns the number of hits to be scored in full into one request of the engine.
        size: the vectors' dimension.
    """

    make: Callable[[int], Request]
    size: int

    def request(self, limit: int) -> Request:
        """Return the request for a leg of `limit`."""
        return self.make(_looked_at(limit))

    def settles(self, hits: Sequence[Hit], limit: int) -> bool:
        """Return whether the best `limit` and all that tie with the last of them are certainly among `hits`."""
        if len(hits) < _looked_at(limit) or limit == 0:
            return True
        # One that was passed over came out below every hit by the short form, so below the last hit's own score
        # but for the error of both.
        return hits[limit - 1].score - hits[-1].score > 2 * ERROR / sqrt(self.size)


def short_form() -> qdrant_edge.TurboQuantQuantizationConfig:
    """Return the engine's configuration of it; each vector's depends on nothing but the vector."""
    import qdrant_edge as qe

    return qe.TurboQuantQuantizationConfig(bits=qe.TurboQuantBitSize.Bits8, memory=qe.Memory.Cold)


def _looked_at(limit: int) -> int:
    return max(LOOKED_AT * limit, FEWEST)
