"""LoCoMo as a memory's life: the corpus, imported by the public importer, and the measure of the reference script.

One conversation is one character's memory, one session an episode, one turn an observation. A question is asked
with nothing but its text. A turn's rank is its place in `salient_observations`, with that section's limit and the
candidate limits raised to `LIMIT`; no other section counts.
"""

from __future__ import annotations

import importlib
import sys
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


def measure_of(data: Path, reference: Path | None) -> Any:
    """Return the reference script as a module, read from where it lies: `load`, `evaluate`, `TUNING`.

    Without a folder it is looked for in `tools` beside the data's folder.
    """
    folder = reference or data.resolve().parent.parent / "tools"
    if not (folder / "locomo_reference.py").is_file():
        raise SystemExit(f"no locomo_reference.py in {folder}; name its folder with --reference")
    sys.path.insert(0, str(folder))
    return importlib.import_module("locomo_reference")


class Remembered:
    """One conversation in a memory of its own on embedded stores."""

    def __init__(self, folder: Path, data: Path, conversation: str, embedding: str) -> None:
        """Import the conversation into `folder`, or find it imported there."""
        self.memory = CharacterMemory.open(
            {
                "OXIGRAPH_PATH": str(folder / "graph"),
                "VECTOR_STORE_PATH": str(folder / "vectors"),
                "RETRIEVAL_STATS_PATH": str(folder / "statistics.sqlite3"),
                "EMBEDDING_PROVIDER": embedding,
            },
            conversation,
        )
        sessions = read_locomo(data, conversation)
        import_chat(self.memory, sessions)
        ids = [observation_id(session, turn) for session in sessions for turn in session.turns]
        self._places = {id_: place for place, id_ in enumerate(ids)}

    def rank(self, question: str) -> list[int]:
        """Return the numbers of the turns that a question brings back, best first."""
        outcome = self.memory.retrieve(RetrievalContext(topic=question, **LIMITS))
        return [self._places[found.id] for found in outcome.pack.salient_observations]

    def close(self) -> None:
        """Close the memory."""
        self.memory.close()
