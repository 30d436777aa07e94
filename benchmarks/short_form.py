"""How far scores by the short form of vectors are off, which the index's first look rests on.

    python -m benchmarks.short_form [--sizes 2 8 33 64 256 384 768 1536 3072] [--vectors 2000] [--queries 40]

Every vector of several kinds is scored by the engine in short form and in full, in a shard as the index makes it.
Errors are told times the square root of the dimension, as `glance.ERROR` is; run it anew when the engine changes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import numpy as np
import qdrant_edge as qe
from numpy.typing import NDArray

from charactermemory.adapters.qdrant.glance import ERROR
from charactermemory.adapters.qdrant.shard import CALL_POINTS, EdgeGeneration

SIZES = [2, 8, 33, 64, 256, 384, 768, 1536, 3072]
Vectors = NDArray[np.float64]


def kinds(size: int, count: int, rng: np.random.Generator) -> Iterator[tuple[str, Vectors]]:
    """Yield vectors of each kind, by its name."""
    yield "normal", rng.normal(size=(count, size))
    yield "common direction", rng.normal(size=(count, size)) + 3 * rng.normal(size=size)
    yield "heavy-tailed", rng.standard_t(1.5, size=(count, size))
    yield "one spike", rng.normal(size=(count, size)) + 100 * np.eye(size)[rng.integers(size, size=count)]
    sparse = np.zeros((count, size))
    for row in sparse:
        taken = rng.choice(size, rng.integers(1, min(8, size) + 1), replace=False)
        row[taken] = rng.choice([-1.0, 1.0], len(taken))
    yield "sparse", sparse


def errors(folder: Path, vectors: Vectors, queries: Vectors) -> NDArray[np.float64]:
    """Return how far each score by the short form is from that in full."""
    generation = EdgeGeneration.create(folder, "errors", vectors.shape[1])
    shard = generation._shard
    try:
        points = [qe.Point(UUID(int=n + 1), {"": row}, {}) for n, row in enumerate(vectors.tolist())]
        for start in range(0, len(points), CALL_POINTS):
            shard.update(qe.UpdateOperation.upsert_points(points[start : start + CALL_POINTS]))
        short = qe.SearchParams(quantization=qe.QuantizationSearchParams(rescore=False))
        off = []
        for query in queries.tolist():
            by_short, in_full = (
                {
                    hit.id: hit.score
                    for hit in shard.query(
                        qe.QueryRequest(limit=len(points), query=qe.Query.Nearest(query), params=params)
                    )
                }
                for params in (short, qe.SearchParams(exact=True))
            )
            off += [score - in_full[point] for point, score in by_short.items()]
    finally:
        generation.close()
    return np.array(off)


def main() -> int:
    """Print the errors of each size and kind; return 1 if one is beyond the bound."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--vectors", type=int, default=2000)
    parser.add_argument("--queries", type=int, default=40)
    given = parser.parse_args()
    pairs, spread, largest = 0, 0.0, 0.0
    with tempfile.TemporaryDirectory() as root:
        for size in given.sizes:
            rng = np.random.default_rng(size)
            for number, (kind, made) in enumerate(kinds(size, given.vectors + given.queries, rng)):
                folder = Path(root) / f"{size}-{number}"
                found = errors(folder, made[given.queries :], made[: given.queries]) * size**0.5
                pairs += len(found)
                spread, largest = max(spread, found.std()), max(largest, abs(found).max())
                print(
                    f"{size:5} {kind:17} deviation {found.std():.4f}  largest {abs(found).max():.4f}",
                    flush=True,
                )
    print(f"pairs={pairs} deviation={spread:.4f} largest={largest:.4f} allowed={ERROR}")
    return 0 if largest <= ERROR else 1


if __name__ == "__main__":
    sys.exit(main())
