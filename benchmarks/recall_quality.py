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
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from charactermemory import CharacterMemory, RetrievalContext
from charactermemory.recall.context import CandidateLimits, SectionLimits
from memory_app.chat_import.formats import read_locomo
from memory_app.chat_import.importer import import_chat, observation_id

LIMIT = 50
LIMITS: dict[str, Any] = {
    "candidate_limits": CandidateLimits(max_vector_candidates=LIMIT, max_graph_roots=LIMIT),
    "section_limits": SectionLimits(salient_observations=LIMIT),
}


def remember(
    folder: Path, data: Path, conversation: str, embedding: str
) -> tuple[CharacterMemory, list[Any]]:
    """Import one conversation and return its memory and the ids of its turns, in order."""
    memory = CharacterMemory.open(
        {
            "OXIGRAPH_PATH": str(folder / "graph"),
            "VECTOR_STORE_PATH": str(folder / "vectors"),
            "RETRIEVAL_STATS_PATH": str(folder / "statistics.sqlite3"),
            "EMBEDDING_PROVIDER": embedding,
        },
        conversation,
    )
    sessions = read_locomo(data, conversation)
    import_chat(memory, sessions)
    return memory, [observation_id(session, turn) for session in sessions for turn in session.turns]


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
    reference = options.reference or options.data.resolve().parent.parent / "tools"
    sys.path.insert(0, str(reference))
    import locomo_reference as measure

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
            memory, ids = remember(folder, options.data, item.id, options.embedding)
            memories[item.id] = (memory, {id_: place for place, id_ in enumerate(ids)})
        turns = sum(len(item.turns) for item in conversations)
        print(f"imported {turns} turns in {time.perf_counter() - started:.1f} s")

        def rank(item: Any, question: Any) -> list[int]:
            memory, places = memories[item.id]
            begun = time.perf_counter()
            outcome = memory.retrieve(RetrievalContext(topic=question.text, **LIMITS))
            seconds.append(time.perf_counter() - begun)
            return [places[found.id] for found in outcome.pack.salient_observations]

        result = measure.evaluate("Character Memory", conversations, rank)
        for memory, _ in memories.values():
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
    import snowballstemmer

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
