"""Other ways to find a memory again, on the same corpus and questions in the same run: recall and time.

    python -m benchmarks.peers ../shared/data/locomo10.json --mem0 DIR [--conversations conv-26 conv-30]

- Character Memory, through the public importer and the public `retrieve`;
- mem0 as it installs, with `infer=False` (every turn kept as it was said) and its local Qdrant store;
- plain top-k of `qdrant-client` in its local mode.

All of them embed with the same WordLlama model, and the peers store what the reference script embeds,
`speaker: text`. mem0's threshold is 0, so that it may return whatever it finds. Every question goes to each of
them in turn, so that whatever else the machine does falls on all alike; a question's time includes embedding it.
Character Memory expands `LIMIT` roots here, four times as many as a recall does by default.

mem0ai is looked for in DIR and installed there first (pip install --target) if it is missing, apart from this
environment. It is told not to send anything home; its extras (spaCy, fastembed) are left out.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from benchmarks import support
from benchmarks.locomo import LIMIT, Remembered, measure_of
from charactermemory.adapters.embedding.wordllama import WordLlamaEmbedding
from charactermemory.ports.embedding import EmbeddingProvider

MEM0 = "mem0ai==2.2.1"
EMBEDDING = "wordllama"
USER = "character"


class Peer(Protocol):
    """One way to find turns again, filled with one conversation."""

    def rank(self, question: str) -> list[int]:
        """Return the numbers of the turns found, best first."""
        ...

    def close(self) -> None:
        """Release what is open."""
        ...


class Mem0Embedder:
    """Our embedder as mem0 asks for one."""

    def __init__(self, embedder: EmbeddingProvider) -> None:
        self._embedder = embedder

    def embed(self, text: str, memory_action: str | None = None) -> Sequence[float]:
        """Embed one text."""
        return self._embedder.generate_embedding(text)

    def embed_batch(self, texts: list[str], memory_action: str | None = None) -> list[Sequence[float]]:
        """Embed several."""
        return list(self._embedder.bulk_generate_embeddings(texts))


class Mem0:
    """mem0's own `Memory`: one `add` a turn, one `search` a question."""

    def __init__(self, folder: Path, lines: Sequence[str], embedder: EmbeddingProvider) -> None:
        from mem0 import Memory

        unused = {"provider": "openai", "config": {"api_key": "unused"}}
        store = {"collection_name": "turns", "path": str(folder / "qdrant"), "on_disk": True}
        self._memory: Any = Memory.from_config(
            {
                "llm": unused,
                "embedder": unused,
                "history_db_path": str(folder / "history.db"),
                "vector_store": {
                    "provider": "qdrant",
                    "config": store | {"embedding_model_dims": embedder.vector_size()},
                },
            }
        )
        self._memory.embedding_model = Mem0Embedder(embedder)
        for number, line in enumerate(lines):
            self._memory.add(line, user_id=USER, infer=False, metadata={"turn": number})

    def rank(self, question: str) -> list[int]:
        """Search, and return the turns."""
        found = self._memory.search(question, top_k=LIMIT, filters={"user_id": USER}, threshold=0.0)
        return [item["metadata"]["turn"] for item in found["results"]]

    def close(self) -> None:
        """Close history and store."""
        self._memory.close()
        self._memory.vector_store.client.close()


class PlainQdrant:
    """The nearest vectors, and nothing else."""

    def __init__(self, folder: Path, lines: Sequence[str], embedder: EmbeddingProvider) -> None:
        from qdrant_client import QdrantClient, models

        self._embedder = embedder
        self._client = QdrantClient(path=str(folder / "plain"))
        size = models.VectorParams(size=embedder.vector_size(), distance=models.Distance.COSINE)
        self._client.create_collection("turns", vectors_config=size)
        vectors = embedder.bulk_generate_embeddings(lines)
        points = [models.PointStruct(id=number, vector=list(vector)) for number, vector in enumerate(vectors)]
        self._client.upsert("turns", points)

    def rank(self, question: str) -> list[int]:
        """Search, and return the turns."""
        vector = list(self._embedder.generate_embedding(question))
        return [int(point.id) for point in self._client.query_points("turns", vector, limit=LIMIT).points]

    def close(self) -> None:
        """Close the store."""
        self._client.close()


def provide_mem0(folder: Path | None) -> None:
    """Make mem0 importable, behind everything that this environment has.

    Raises:
        SystemExit: it is not there and no folder was named, or it cannot be installed; says what to do.
    """
    if folder is not None:
        if not (folder / "mem0").is_dir():
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), MEM0]
            if subprocess.run(pip, check=False).returncode:
                raise SystemExit(f"{MEM0} could not be installed into {folder}: see what pip says above")
        sys.path.append(str(folder))
    try:
        importlib.import_module("mem0")
    except ImportError as error:
        raise SystemExit(
            f"mem0 cannot be imported ({error}). Name a folder with --mem0 DIR: {MEM0} is installed there, apart "
            "from this environment."
        ) from None


def ask_all(
    conversations: Sequence[Any], names: Sequence[str], made: Callable[[Any], Sequence[Peer]]
) -> tuple[dict[str, dict[tuple[str, str], list[int]]], dict[str, support.Timer]]:
    """Ask every question of all peers in turn; return each one's rankings and what its questions took."""
    ranked: dict[str, dict[tuple[str, str], list[int]]] = {name: {} for name in names}
    taken = {name: support.Timer() for name in names}
    for item in conversations:
        started = time.perf_counter()
        peers = dict(zip(names, made(item), strict=True))
        print(
            f"{item.id}: {len(item.turns)} turns stored thrice in {time.perf_counter() - started:.0f} s",
            flush=True,
        )
        for peer in peers.values():
            peer.rank("What was that again?")  # what is loaded at the first question is no question's time
        for question in item.questions:
            for name, peer in peers.items():
                ask = partial(peer.rank, question.text)
                ranked[name][item.id, question.text] = taken[name](ask)
        for peer in peers.values():
            peer.close()
    return ranked, taken


def main() -> int:
    """Store, ask, print the rows and the closing line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="a LoCoMo file; read in place, never copied")
    parser.add_argument("--reference", type=Path, help="folder of locomo_reference.py")
    parser.add_argument("--mem0", type=Path, metavar="DIR", help="folder of mem0ai; filled if it is empty")
    parser.add_argument("--conversations", nargs="+", help="only these; all unless said")
    parser.add_argument("--folder", help="where the stores are made")
    options = parser.parse_args()
    measure = measure_of(options.data, options.reference)
    conversations = measure.load(str(options.data))
    if options.conversations:
        conversations = [item for item in conversations if item.id in options.conversations]
    if not conversations:
        parser.error(f"no such conversation in {options.data}")
    # Peers run as they are: what they warn of is theirs.
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    with support.scratch(options.folder) as scratch:
        os.environ |= {"MEM0_TELEMETRY": "False", "MEM0_DIR": str(scratch / "mem0")}
        provide_mem0(options.mem0)
        embedder = WordLlamaEmbedding()

        def made(item: Any) -> list[Peer]:
            folder = scratch / item.id
            lines = [f"{turn.speaker}: {turn.text}" for turn in item.turns]
            return [
                Remembered(folder, options.data, item.id, EMBEDDING),
                Mem0(folder, lines, embedder),
                PlainQdrant(folder, lines, embedder),
            ]

        names = ("Character Memory", "mem0", "plain qdrant-client")
        ranked, taken = ask_all(conversations, names, made)
    figures = {}
    for name in names:
        result = measure.evaluate(
            name, conversations, lambda item, question, name=name: ranked[name][item.id, question.text]
        )
        figures[name] = (result["R@10"], taken[name].spread)
        print(f"    a question: {taken[name].spread}")
    print(support.machine())
    print(
        " ".join(
            f"{key}_R@10={figures[name][0]:.3f} {key}_p50_ms={figures[name][1].p50:.1f}"
            for key, name in zip(("ours", "mem0", "qdrant"), names, strict=True)
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
