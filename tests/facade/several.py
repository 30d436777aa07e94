"""Several memories of one collection in one process, each with what it keeps, that write and read by turns."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from itertools import count
from typing import Any

from charactermemory.adapters.oxigraph.embedded import EmbeddedConnection
from charactermemory.adapters.oxigraph.store import OxigraphStore
from charactermemory.domain.kinds import RelationType
from charactermemory.domain.lifecycle import LifecyclePolicy
from charactermemory.domain.scene import Participant, Scene
from charactermemory.errors import CharacterMemoryError
from charactermemory.ids import MemoryObjectRef, ObjectType
from charactermemory.memory import CharacterMemory
from charactermemory.recall.context import CandidateLimits, GraphLimits, RetrievalContext, SectionLimits
from charactermemory.remember.plan import RememberWritePlan
from tests.revise.drafts import correction, forgetting, sourced
from tests.support.plans import AT, episode, link, naming, notion, observation, plan, thread, uid

NAMES = tuple(f"Name{letter}" for letter in "abcdef")
RELATIONS = tuple(RelationType)
LINKED = (RelationType.ASSOCIATED_WITH, RelationType.MENTIONS, RelationType.INVOLVES, RelationType.ABOUT)
OLDEST = 24
"""Objects that deeds are about, from the oldest on: few, so that much happens to each."""

_WIDE: dict[str, Any] = {
    "candidate_limits": CandidateLimits(max_vector_candidates=200, max_graph_roots=40),
    "graph_limits": GraphLimits(max_depth=2, max_nodes=400, max_fanout_per_node=32, max_hub_edges=200),
    "section_limits": SectionLimits(**dict.fromkeys(SectionLimits.model_fields, 100)),
}
CONTEXTS = (
    RetrievalContext(topic="note"),
    RetrievalContext(topic="note", include_trace=True, **_WIDE),
    RetrievalContext(topic=f"what does {NAMES[0]} note of {NAMES[1]}?", include_trace=True, **_WIDE),
    RetrievalContext(
        topic="note",
        lifecycle_policy=LifecyclePolicy(include_suppressed=True, include_superseded=True),
        **_WIDE,
    ),
    RetrievalContext(scene=Scene.at(AT, Participant(key=uid(1)), Participant(name=NAMES[2])), **_WIDE),
)


class Company:
    """Memories that do random deeds about the same few objects.

    Attributes:
        memories: the memories, which stay open.
        stored: what was stored, in order.
    """

    def __init__(self, open_memory: Callable[[], CharacterMemory], seed: int, members: int = 2) -> None:
        self._open = open_memory
        self._rng = random.Random(seed)
        self._numbers = count(16)
        self._plans: list[RememberWritePlan] = []
        self.memories = [open_memory() for _ in range(members)]
        self.stored: list[MemoryObjectRef] = []
        self._remember(self.memories[0], *(notion(n) for n in (1, 2, 3)), thread(4), episode(5, "Note one"))

    def act(self, member: int | None = None) -> str:
        """Let one of them do something, and return what it was."""
        memory = self._rng.choice(self.memories) if member is None else self.memories[member]
        deed = self._rng.choice(
            (
                self._experience,
                self._believe,
                self._name,
                self._relate,
                self._correct,
                self._forget,
                self._repeat,
            )
        )
        try:
            deed(memory)
        except CharacterMemoryError as error:
            return f"{deed.__name__}: {error!r}"
        return deed.__name__

    def disturb(self) -> str:
        """Let something happen to the stores that changes nothing of what is remembered."""
        number = self._rng.randrange(len(self.memories))
        memory = self.memories[number]
        match self._rng.choice(("reopen", "rest", "raise the head", "sweep")):
            case "reopen":
                memory.close()
                self.memories[number] = self._open()
                return "reopened"
            case "rest":
                store = memory.stores.graph
                assert isinstance(store, OxigraphStore) and isinstance(store._connection, EmbeddedConnection)
                store._connection._store.rest()
                return "rested"
            case "raise the head":
                memory.stores.graph.raise_head(memory.stores.graph.head() + 2)
                return "raised"
            case _:
                memory.upkeep.sweep()
                return "swept"

    # Deeds.

    def _remember(self, memory: CharacterMemory, *drafts: Any) -> None:
        made = plan(*drafts)
        memory.commit(made)
        self._plans.append(made)
        self.stored += [MemoryObjectRef.of(draft.object_type, draft.id) for draft in drafts]

    def _experience(self, memory: CharacterMemory) -> None:
        """A new episode, or turns that are added to one."""
        happened, summary = next(self._numbers), f"Note {self._rng.randrange(9)} of an evening"
        drafts: list[Any] = []
        if self._rng.random() < 0.6:
            present = [Participant(key=uid(n)) for n in self._rng.sample((1, 2, 3), self._rng.randrange(3))]
            drafts = [episode(happened, summary, scene=Scene.at(AT, *present))]
        else:
            happened = self._some(ObjectType.EPISODE).id.int
        speaker = self._rng.choice((None, uid(1), uid(2)))
        for position in self._rng.sample(range(6), 2):
            number = next(self._numbers)
            text = f"Note {number} of what was said"
            drafts.append(observation(number, happened, text, position, speaker_entity_id=speaker))
        self._remember(memory, *drafts)

    def _believe(self, memory: CharacterMemory) -> None:
        """A memory about notions, in a thread or in none, that may take the place of another."""
        number, source = next(self._numbers), self._some(ObjectType.EPISODE, ObjectType.OBSERVATION)
        old = self._rng.random() < 0.4 and self._some(ObjectType.DERIVED_MEMORY)
        rests = "episodes" if source.object_type is ObjectType.EPISODE else "observations"
        self._remember(
            memory,
            sourced(
                number,
                f"Note {number} of what it means",
                entity_ids=tuple(uid(n) for n in self._rng.sample((1, 2, 3), 2)),
                thread_ids=(uid(4),) if self._rng.random() < 0.3 else (),
                supersedes=(old.id,) if old else (),
                **{rests: (source.id.int,)},  # type: ignore[arg-type]
            ),
        )

    def _name(self, memory: CharacterMemory) -> None:
        """A name for a notion, which may take the place of what it was called before."""
        number = next(self._numbers)
        old = self._rng.random() < 0.5 and self._some(ObjectType.DERIVED_MEMORY)
        name, supersedes = self._rng.choice(NAMES), (old.id,) if old else ()
        self._remember(memory, naming(number, self._rng.choice((1, 2, 3)), name, supersedes=supersedes))

    def _relate(self, memory: CharacterMemory) -> None:
        source, target = self._some(), self._some()
        draft = link(uid(next(self._numbers)), source, self._rng.choice(LINKED), target)
        memory.link(draft)
        self.stored.append(MemoryObjectRef.of(ObjectType.MEMORY_LINK, draft.id))

    def _correct(self, memory: CharacterMemory) -> None:
        done = memory.correct(correction(self._some(ObjectType.DERIVED_MEMORY).id.int))
        self.stored += [ref for ref in done.graph_mutated_object_ids if ref not in self.stored]

    def _forget(self, memory: CharacterMemory) -> None:
        target = self._some(ObjectType.OBSERVATION, ObjectType.DERIVED_MEMORY, ObjectType.EPISODE)
        memory.forget(forgetting(target))

    def _repeat(self, memory: CharacterMemory) -> None:
        memory.commit(self._rng.choice(self._plans))

    def _some(self, *types: ObjectType) -> MemoryObjectRef:
        """One of the stored objects of these types: of the oldest, or the newest."""
        found = [ref for ref in self.stored if not types or ref.object_type in types]
        return self._rng.choice([*found[:OLDEST], *found[-2:]] or self.stored)

    # Looking.

    def differences(self) -> Iterator[str]:
        """Ask each of them, and one that was opened just now, the same; tell what they answer otherwise.

        In an order of its own each: what was asked before must make no difference.
        """
        asked = self._rng.sample(self.stored, min(len(self.stored), 30))
        with closing(self._open()) as fresh:
            right = self._answers(fresh, asked)
        for number, memory in enumerate(self.memories):
            for name, answer in self._answers(memory, asked).items():
                if answer != right[name]:
                    yield f"memory {number} says of {name} {answer}, not {right[name]}"

    def _answers(self, memory: CharacterMemory, asked: list[MemoryObjectRef]) -> dict[str, object]:
        asks = list(questions(memory, asked).items())
        self._rng.shuffle(asks)
        return {name: ask() for name, ask in asks}


def questions(memory: CharacterMemory, asked: list[MemoryObjectRef]) -> dict[str, Callable[[], object]]:
    """Return what a memory can be asked about objects."""
    graph = memory.stores.graph
    said = [ref for ref in asked if ref.object_type is ObjectType.OBSERVATION]
    happened = [ref for ref in asked if ref.object_type is ObjectType.EPISODE]
    turns = [(ref, position) for ref in happened for position in range(6)]
    notions = [MemoryObjectRef.of(ObjectType.ENTITY, uid(n)) for n in (1, 2, 3)]
    crowds = [(ref, RelationType.ABOUT) for ref in notions]

    def around() -> object:
        found = graph.neighbours(asked, RELATIONS, 40, turns)
        return {ref: (sorted(item.edges), item.capped, dict(item.turns)) for ref, item in found.items()}

    def few(sparing: list[tuple[MemoryObjectRef, RelationType]], cap: int) -> object:
        """Which edges are read where the cap bites is the store's choice."""
        found = graph.neighbours(notions, RELATIONS, cap, sparing=sparing)
        return {ref: (len(item.edges), item.capped) for ref, item in found.items()}

    return {
        "neighbours": around,
        "neighbours with a cap": lambda: few([], 3),
        "neighbours without crowds": lambda: few(crowds, 3),
        "neighbours without great crowds": lambda: few(crowds, 8),
        "bearers": lambda: graph.notions_known_as([name.lower() for name in NAMES]),
        "names": lambda: graph.names_of([ref.id for ref in notions]),
        "speakers": lambda: graph.places(said, speakers=True),
        "places": lambda: {ref: place[:2] for ref, place in graph.places(said).items()},
        "turns": lambda: graph.turns(turns),
        "existence": lambda: graph.existing(asked),
        "head": graph.head,
        "objects": lambda: graph.read(asked),
        **{
            f"context {number}": partial(recalled, memory, context) for number, context in enumerate(CONTEXTS)
        },
    }


def recalled(memory: CharacterMemory, context: RetrievalContext) -> str:
    """Return what comes to mind, byte for byte."""
    return memory.retrieve(context).to_json()
