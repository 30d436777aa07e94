"""What it is worth to know who asks: LoCoMo in one memory, with the names taken out of the questions.

    python -m benchmarks.presence ../shared/data/locomo10.json [--conversations conv-43 conv-44 conv-47]

Several conversations are imported into one memory, so that it knows twice as many people. Of their questions
those count that name exactly one of the two who speak in the conversation. Each is asked as it is and with the
name left out, as the person would ask who is meant, and with different people present. Evidence recall is
measured as `benchmarks.recall_quality` does it.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.locomo import LIMITS, measure_of
from charactermemory import CharacterMemory, MemoryId, Participant, RetrievalContext, Scene
from memory_app.chat_import.formats import read_locomo
from memory_app.chat_import.importer import import_chat, observation_id, speaker_id

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Talk(NamedTuple):
    """A conversation: its own part of the measure, its people by name, and the number of each of its turns."""

    measured: Any
    people: Mapping[str, MemoryId]
    turns: Mapping[MemoryId, int]


def main() -> None:
    """Import, ask, print a row for each way of asking."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("data", type=Path, help="a LoCoMo file; read in place, never copied")
    arguments.add_argument("--reference", type=Path, help="folder of locomo_reference.py")
    arguments.add_argument("--conversations", nargs="+", help="instead of the three tuning conversations")
    arguments.add_argument(
        "--apart", action="store_true", help="a memory for each, where both are in everything"
    )
    options = arguments.parse_args()
    measure = measure_of(options.data, options.reference)
    wanted = options.conversations or measure.TUNING
    conversations = [item for item in measure.load(str(options.data)) if item.id in wanted]
    if len(conversations) != len(set(wanted)):
        raise SystemExit(f"{options.data} does not hold all of {', '.join(sorted(wanted))}")
    found: dict[str, list[tuple[float, float]]] = {}
    for together in [[item] for item in conversations] if options.apart else [conversations]:
        ask(together, options.data, found)
    for way, rows in found.items():
        recall, reciprocal = (sum(part) / len(rows) for part in zip(*rows, strict=True))
        print(f"{way:30} questions {len(rows)}  R@10 {recall:.3f}  MRR {reciprocal:.3f}")


def ask(conversations: Sequence[Any], data: Path, found: dict[str, list[tuple[float, float]]]) -> None:
    """Import conversations into one memory, ask it all ways and note the scores."""
    with tempfile.TemporaryDirectory() as folder:
        memory = CharacterMemory.open(
            {
                "OXIGRAPH_PATH": f"{folder}/graph",
                "VECTOR_STORE_PATH": f"{folder}/vectors",
                "RETRIEVAL_STATS_PATH": f"{folder}/statistics.sqlite3",
                "EMBEDDING_PROVIDER": "wordllama",
            },
            "everybody",
        )
        talks = [imported(memory, data, conversation) for conversation in conversations]
        for place, talk in enumerate(talks):
            strangers = [
                person for other in talks[:place] + talks[place + 1 :] for person in other.people.values()
            ]
            for question in talk.measured.questions:
                for way, topic, here in ways(question.text, talk.people, strangers[:1]):
                    rank = asked(memory, talk, topic, here)
                    found.setdefault(way, []).append(scores(rank, question.evidence))
        memory.close()


def imported(memory: CharacterMemory, data: Path, conversation: Any) -> Talk:
    """Import one conversation."""
    sessions = read_locomo(data, conversation.id)
    import_chat(memory, sessions)
    ids = [observation_id(session, turn) for session in sessions for turn in session.turns]
    names = sorted({turn.speaker for session in sessions for turn in session.turns if turn.speaker})
    people = {name: speaker_id(sessions[0], name) for name in names}
    return Talk(conversation, people, {id_: place for place, id_ in enumerate(ids)})


def ways(
    question: str, people: Mapping[str, MemoryId], strangers: Collection[MemoryId]
) -> Iterator[tuple[str, str, Collection[MemoryId]]]:
    """Yield what a way of asking is called, its topic and who is present; nothing if not one person is named."""
    named = [name for name in people if re.search(rf"\b{name}\b", question)]
    if len(named) != 1:
        return
    bare = " ".join(re.sub(rf"\b{named[0]}(['’]s)?\b", "", question).split())
    meant = people[named[0]]
    (other,) = (person for person in people.values() if person != meant)
    for label, topic in (("without the name", bare), ("with the name", question)):
        yield f"{label}, nobody", topic, ()
        yield f"{label}, who is meant", topic, (meant,)
        yield f"{label}, both", topic, (meant, other)
        yield f"{label}, the other", topic, (other,)
        if strangers:
            yield f"{label}, a stranger", topic, strangers


def asked(memory: CharacterMemory, talk: Talk, topic: str, here: Collection[MemoryId]) -> Sequence[int]:
    """Return the numbers of the turns that come back, best first; -1 for one of another conversation."""
    scene = Scene(time=NOW, participants=tuple(Participant(key=person) for person in here))
    outcome = memory.retrieve(RetrievalContext(topic=topic, scene=scene, **LIMITS))
    return [talk.turns.get(item.id, -1) for item in outcome.pack.salient_observations]


def scores(rank: Sequence[int], evidence: Collection[int]) -> tuple[float, float]:
    """Return the share of the evidence among the first ten, and 1 / the place of the first of it."""
    first = next((place for place, turn in enumerate(rank, 1) if turn in evidence), None)
    return len(set(rank[:10]) & set(evidence)) / len(evidence), 1 / first if first else 0.0


if __name__ == "__main__":
    main()
