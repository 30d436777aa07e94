"""Writers and a keeper at work on one memory at the same time, and what must hold however it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

import pytest

from charactermemory import composition
from charactermemory.domain.kinds import RelationType
from charactermemory.errors import (
    DeterministicIdCollision,
    GraphExpansionRootNotFound,
    ReplacementIdentityConflict,
    UnknownObjectRef,
    WritePlanValidationRejected,
)
from charactermemory.ids import MemoryObjectRef, ObjectType
from charactermemory.memory import CharacterMemory
from charactermemory.recall.context import RetrievalContext
from charactermemory.remember.outcome import CommitOptions
from charactermemory.remember.plan import RememberWritePlan
from charactermemory.revise.drafts import ForgetMemoryDraft
from charactermemory.testing.statistics_model import assert_equal_to_recount
from charactermemory.upkeep.reading import pages
from charactermemory.upkeep.rebuild import projections
from charactermemory.upkeep.surfaces import surface_of
from tests.crash.turns import Mutex, Turns, TurnsWriterLock
from tests.revise.drafts import correction, sourced
from tests.support.grounds import Ground
from tests.support.plans import (
    episode,
    episode_ref,
    link,
    memory_ref,
    observation,
    observation_ref,
    plan,
    uid,
)
from tests.support.steps import Moment, Step

EVENINGS = range(0x100, 0x1C0, 0x10)
"""Few, so that the writers often meet: the same plan twice, or a forget of what another has just stored."""
OLD_MEMORIES = (0x13, 0x15, 0x23, 0x24)
WRITES = {
    ("index", "write"),
    ("index rebuild", "switch"),
    ("statistics", "apply"),
    ("statistics", "advance"),
    ("statistics", "rebuild"),
}
"""Steps after which a derived store says something else than before."""
TELLING = {("graph", "sync"), *WRITES}
HOLD_UPS = (20, 60, 150)
"""Turns; a deed with all that is derived from it takes about 30."""
DEEDS_OF_A_WRITER = 4
DEEDS_OF_THE_KEEPER = 2

Acknowledge = Callable[[str, MemoryObjectRef], None]
"""Notes what an answer promises: that an object is stored, suppressed or superseded."""

_LEGITIMATE = (
    DeterministicIdCollision,
    GraphExpansionRootNotFound,
    ReplacementIdentityConflict,
    UnknownObjectRef,
    WritePlanValidationRejected,
)
"""What another writer may have brought about; nothing is written then."""


def evening(number: int) -> RememberWritePlan:
    """An evening; what every other one means takes the place of something older."""
    old = OLD_MEMORIES[number // 0x10 % len(OLD_MEMORIES)]
    supersedes = (uid(old),) if number & 0x10 else ()
    meaning = f"Note {number + 3} of what it means"
    return plan(
        episode(number, f"Evening {number} in the garden"),
        observation(number + 1, number, f"Note {number + 1} of what was said"),
        sourced(number + 3, meaning, episodes=(number,), supersedes=supersedes, thread_ids=(uid(3),)),
    )


def writer(memory: CharacterMemory, random: Random, acknowledge: Acknowledge) -> None:
    """Do some deeds, one after the other."""
    deeds = (*[remember] * 5, *[forget_the_latest] * 4, forget, forget_within, correct, relate)
    for _ in range(DEEDS_OF_A_WRITER):
        try:
            random.choice(deeds)(memory, random, acknowledge)
        except _LEGITIMATE:
            continue


def remember(memory: CharacterMemory, random: Random, acknowledge: Acknowledge) -> None:
    number = random.choice(EVENINGS)
    left = random.random() < 0.2
    options = CommitOptions(update_vectors=not left, update_stats=not left)
    for ref in memory.commit(evening(number), options).persisted_object_ids:
        acknowledge("stored", ref)
    if number & 0x10:
        acknowledge("superseded", memory_ref(OLD_MEMORIES[number // 0x10 % len(OLD_MEMORIES)]))


def forget(memory: CharacterMemory, random: Random, acknowledge: Acknowledge) -> None:
    """Forget an evening or what it means, with all that rests on it."""
    numbers = [0x10, 0x20, *EVENINGS]
    targets = [*map(episode_ref, numbers), *(memory_ref(number + 3) for number in numbers)]
    _forget(memory, random.choice(targets), acknowledge)


def forget_the_latest(memory: CharacterMemory, random: Random, acknowledge: Acknowledge) -> None:
    """Forget something that has just been stored, while its writer may still be at work on it."""
    head = memory.stores.graph.head()
    targets = [
        ref
        for receipt in memory.stores.graph.receipts(head - 1, head)
        for ref in receipt.objects
        if ref.object_type in (ObjectType.EPISODE, ObjectType.OBSERVATION, ObjectType.DERIVED_MEMORY)
    ]
    if targets:
        _forget(memory, random.choice(targets), acknowledge)


def forget_within(memory: CharacterMemory, random: Random, acknowledge: Acknowledge) -> None:
    """Forget one thing that was said."""
    _forget(memory, observation_ref(random.choice([0x10, 0x20, *EVENINGS]) + 1), acknowledge)


def _forget(memory: CharacterMemory, target: MemoryObjectRef, acknowledge: Acknowledge) -> None:
    memory.forget(ForgetMemoryDraft.suppress(target, "asked to"))
    acknowledge("suppressed", target)


def correct(memory: CharacterMemory, random: Random, acknowledge: Acknowledge) -> None:
    number = random.choice([*OLD_MEMORIES, *(evening + 3 for evening in EVENINGS)])
    rationale = f"Note {number} is otherwise, says {random.choice(('one', 'another'))}"
    for ref in memory.correct(correction(number, rationale=rationale)).graph_mutated_object_ids:
        acknowledge("stored", ref)
    acknowledge("superseded", memory_ref(number))


def relate(memory: CharacterMemory, random: Random, acknowledge: Acknowledge) -> None:
    number = random.choice(EVENINGS)
    draft = link(uid(number + 9), episode_ref(number), RelationType.ASSOCIATED_WITH, episode_ref(0x10))
    acknowledge("stored", memory.link(draft).link.ref)


def keeper(memory: CharacterMemory, random: Random) -> None:
    """Sweep, rebuild, repair or recall while the writers write."""
    upkeep = memory.upkeep
    doings: tuple[Callable[[], object], ...] = (
        upkeep.sweep,
        upkeep.sweep,
        upkeep.rebuild_vectors,
        upkeep.rebuild_statistics,
        lambda: upkeep.verify(repair=True),
        lambda: memory.retrieve(RetrievalContext(topic="note")),
    )
    for _ in range(DEEDS_OF_THE_KEEPER):
        random.choice(doings)()


@contextmanager
def taking_turns(
    ground: Ground, turns: Turns, random: Random, note: Callable[[Step, Moment], None]
) -> Iterator[None]:
    """Open the ground's memory so that its threads give the turn on before every step.

    Before a step that tells others something they are often held up long enough for others to do much meanwhile.
    """

    def watch(step: Step, moment: Moment) -> None:
        if moment == "before":
            telling = (step.port, step.name) in TELLING
            turns.give(hold_up=random.choice(HOLD_UPS) if telling and random.random() < 0.5 else 0)
        note(step, moment)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(composition, "RLock", lambda: Mutex(turns))
        patch.setattr(ground, "writer_lock", lambda: TurnsWriterLock(f"turns {turns.number}", turns))
        ground.start()
        ground.steps.watch = watch
        yield


def assert_whole(memory: CharacterMemory, acknowledged: set[tuple[str, str]]) -> None:
    """After a sweep: graph, index and statistics agree, and nothing that was acknowledged is missing."""
    found = memory.upkeep.verify().found
    assert found == (), f"the stores differ: {', '.join(map(str, found))}"
    graph, stores = memory.stores.graph, memory.stores
    stored = {ref: item for refs in pages(graph) for ref, item in graph.read(refs).items()}
    wanted = {ref: surface_of(item.object) for ref, item in stored.items() if item.current}
    texts = {ref: surface.embedding_text for ref, surface in wanted.items() if surface is not None}
    assert dict(stores.vectors.scan(None, 10_000)[0]) == texts, (
        "the stores differ: not the points that are wanted"
    )
    try:
        assert_equal_to_recount(stores.statistics, list(projections(graph, pages(graph))))
    except AssertionError as error:
        raise AssertionError(f"the stores differ: statistics are not those of a recount {error}") from error
    head = graph.head()
    places = (stores.vectors.cursor().applied, stores.statistics.cursor().applied)
    assert places == (head, head), f"the stores differ: they are at {places}, the graph at {head}"
    true = {("stored", str(ref)) for ref in stored}
    true |= {("suppressed", str(ref)) for ref, item in stored.items() if item.suppressed}
    true |= {("superseded", str(ref)) for ref, item in stored.items() if item.superseded}
    assert acknowledged <= true, f"what was acknowledged is missing: {acknowledged - true}"
