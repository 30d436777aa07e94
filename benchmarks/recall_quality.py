"""Evidence recall on LoCoMo, through the public importer and the public `retrieve` (DESIGN §6).

    python -m benchmarks.recall_quality ../shared/data/locomo10.json [--reference ../shared/tools]

Each conversation is imported into a memory of its own (one session an episode, one turn an observation) and
asked its own questions, each with the two people of the conversation as strangers to the question: only the
text is given. A turn's rank is its place in `salient_observations`, with that section's limit and the
candidate limits raised to 50; no other section counts. Beside it, in the same run and over the same turns and
embedder: plain vectors, and BM25 with stemming.

The measure itself (`load`, `evaluate`) is that of the reference script, read from where it lies.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.locomo import Remembered, measure_of


def main() -> None:
    """Import, ask, print the rows and the closing line."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("data", type=Path, help="a LoCoMo file; read in place, never copied")
    arguments.add_argument("--reference", type=Path, help="folder of locomo_reference.py")
    arguments.add_argument("--embedding", default="wordllama", help="embedding provider of the memory")
    arguments.add_argument("--tuning", action="store_true", help="only the three tuning conversations")
    arguments.add_argument("--keep", type=Path, help="import into this folder, or find it imported there")
    arguments.add_argument("--no-baselines", action="store_true", help="leave out the reference rows")
    options = arguments.parse_args()
    measure = measure_of(options.data, options.reference)
    conversations = measure.load(str(options.data))
    if options.tuning:
        conversations = [item for item in conversations if item.id in measure.TUNING]
    if not options.no_baselines:
        baselines(measure, conversations)
    seconds: list[float] = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        memories = {}
        started = time.perf_counter()
        for item in conversations:
            memories[item.id] = Remembered(folder, options.data, item.id, options.embedding)
        turns = sum(len(item.turns) for item in conversations)
        print(f"imported {turns} turns in {time.perf_counter() - started:.1f} s")

        def rank(item: Any, question: Any) -> list[int]:
            begun = time.perf_counter()
            found = memories[item.id].rank(question.text)
            seconds.append(time.perf_counter() - begun)
            return found

        result = measure.evaluate("Character Memory", conversations, rank)
        for memory in memories.values():
            memory.close()
    ordered = sorted(seconds)
    print(f"questions {len(ordered)}  retrieve p50 {ordered[len(ordered) // 2] * 1000:.1f} ms")
    print(
        f"R@10={result['R@10']:.3f} multi-hop={result['R@10 multi-hop']:.3f} "
        f"worst={result['worst conversation R@10']:.3f} MRR={result['MRR']:.3f}"
    )


def baselines(measure: Any, conversations: list[Any]) -> None:
    """Print plain vectors and stemmed BM25 over the same turns."""
    import numpy as np

    try:
        import snowballstemmer
    except ImportError:
        raise SystemExit(
            "the BM25 row stems with snowballstemmer, which is not installed: pip install snowballstemmer, or "
            "leave the reference rows out with --no-baselines"
        ) from None
    embed, stemmer = measure.embedder(), snowballstemmer.stemmer("english")
    for item in conversations:
        lines = [f"{turn.speaker}: {turn.text}" for turn in item.turns]
        texts = [question.text for question in item.questions]
        item.cache["vectors"] = embed(lines)
        item.cache["queries"] = dict(zip(texts, embed(texts), strict=True))
        item.cache["bm25"] = measure.bm25(lines, stemmer)
    measure.evaluate(
        "plain vectors (WordLlama)",
        conversations,
        lambda item, question: np.argsort(
            -(item.cache["vectors"] @ item.cache["queries"][question.text]), kind="stable"
        ),
    )
    measure.evaluate(
        "BM25, stemmed",
        conversations,
        lambda item, question: np.argsort(-item.cache["bm25"](question.text), kind="stable"),
    )


if __name__ == "__main__":
    main()
