"""Rebuilds beside a memory that goes on being written: nothing of it is missing afterwards."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from charactermemory.ids import MemoryObjectRef
from charactermemory.memory import CharacterMemory
from charactermemory.testing.vector_samples import record
from charactermemory.upkeep import rebuild as rebuild_module
from tests.revise.drafts import correction, forgetting, replacement, sourced
from tests.support.fixtures import OpenRig
from tests.support.plans import episode, episode_ref, memory_ref, notion, observation, plan, uid
from tests.support.rig import DIMENSION, Rig
from tests.upkeep.support import Poisoned

NOTION = 0xFFFF


def live(memory: CharacterMemory, day: int) -> set[MemoryObjectRef]:
    """One day: an episode with a word and two memories; one is corrected, the other forgotten."""
    first = 0x100 * day
    memory.commit(
        plan(
            episode(first, f"day {day}"),
            observation(first + 1, first, f"said on day {day}"),
            sourced(first + 2, f"held on day {day}", episodes=(first,), about=(NOTION,)),
            sourced(first + 3, f"hummed on day {day}", observations=(first + 1,)),
        )
    )
    new = replacement(f"better held on day {day}", id=uid(first + 4), derived_from_episode_ids=(uid(first),))
    memory.correct(correction(first + 2, replacements=(new,)))
    memory.forget(forgetting(memory_ref(first + 3)))
    return {episode_ref(first), memory_ref(first + 2), memory_ref(first + 4)}


@pytest.fixture
def lived(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> Rig:
    """Some days; rebuilds walk in small pages and catch up more than once."""
    monkeypatch.setattr(rebuild_module, "LAST_STRETCH", 3)
    rig.memory.commit(plan(notion(NOTION)))
    for day in range(1, 8):
        live(rig.memory, day)
    return rig


def test_what_is_committed_during_the_walk_is_in_the_new_index(lived: Rig) -> None:
    days = iter(range(8, 11))

    def go_on(done: int) -> None:
        if (day := next(days, None)) is not None:
            live(lived.memory, day)

    before = lived.vectors.inner.count()
    report = lived.memory.upkeep.rebuild_vectors(go_on)
    assert report.failed == ()
    assert report.objects > 7 * 5
    assert lived.vectors.inner.count() == before + 3 * 3
    assert lived.memory.upkeep.verify().differences == 0
    assert lived.backlog()[0] == 0, "the new index says itself how far it reaches"

    points = lived.points()
    lived.reopen()
    assert lived.points() == points
    assert lived.memory.upkeep.verify().differences == 0


@pytest.mark.parametrize("what", ["vectors", "statistics"])
def test_rebuilding_while_another_thread_writes(lived: Rig, what: str) -> None:
    stopping = threading.Event()
    acknowledged: set[MemoryObjectRef] = set()
    troubles: list[BaseException] = []

    def write() -> None:
        day = 20
        try:
            while not stopping.is_set():
                acknowledged.update(live(lived.memory, day))
                day += 1
        except BaseException as error:
            troubles.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(3):
            if what == "vectors":
                assert lived.memory.upkeep.rebuild_vectors().failed == ()
            else:
                lived.memory.upkeep.rebuild_statistics()
    finally:
        stopping.set()
        writer.join(60)
    assert troubles == []
    assert len(acknowledged) >= 3

    report = lived.memory.upkeep.verify()
    assert report.found == ()
    assert lived.graph.existing(acknowledged) == acknowledged
    lived.memory.upkeep.sweep()
    assert lived.backlog() == (0, 0)


def test_a_rebuild_owes_what_it_could_not_embed_to_a_sweep(lived: Rig) -> None:
    lived.memory.commit(plan(episode(0x2000, "poison")))
    healthy, lived.embedder.inner = lived.embedder.inner, Poisoned(DIMENSION)
    report = lived.memory.upkeep.rebuild_vectors()
    assert report.failed == (episode_ref(0x2000),)
    assert episode_ref(0x2000) not in lived.points()
    assert episode_ref(0x100) in lived.points()

    lived.embedder.inner = healthy
    for _ in range(2):  # a replay moves the index's place in the log at once, and not past what is owed
        lived.memory.commit(plan(episode(0x2001, "Sun.")))
    assert lived.memory.upkeep.sweep().repaired == (episode_ref(0x2000),)
    assert lived.memory.upkeep.verify().differences == 0
    assert lived.backlog() == (0, 0)


def test_a_rebuild_that_fails_leaves_the_old_index(lived: Rig) -> None:
    points = lived.points()

    def fail(done: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lived.memory.upkeep.rebuild_vectors(fail)
    assert lived.points() == points
    assert lived.memory.upkeep.rebuild_vectors().failed == ()
    assert lived.points() == points


@pytest.mark.parametrize("anew", [False, True])
def test_an_interrupted_rebuild_is_gone_on_with_and_brings_nothing_old_back(lived: Rig, anew: bool) -> None:
    """What it had embedded need not be embedded again; what was forgotten since is not in the new index."""

    def interrupted(done: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lived.memory.upkeep.rebuild_vectors(interrupted)
    lived.reopen()
    lived.memory.forget(forgetting(memory_ref(0x104)))
    points = lived.points()
    assert memory_ref(0x104) not in points

    report = lived.memory.upkeep.rebuild_vectors(anew=anew)
    assert report.failed == ()
    assert (report.kept > 0) is not anew
    assert lived.points() == points
    assert lived.memory.upkeep.verify().differences == 0


def test_a_rebuild_gone_on_with_drops_what_the_graph_no_longer_has(lived: Rig) -> None:
    """As after a backup of the graph was put back."""
    rebuild = lived.vectors.inner.begin_rebuild()
    rebuild.write([record(0x9999, [1.0] * DIMENSION, "never said")], [], 1)
    rebuild.leave()
    points = lived.points()
    assert lived.memory.upkeep.rebuild_vectors().failed == ()
    assert lived.points() == points


def test_statistics_are_filled_anew_and_healthy(lived: Rig) -> None:
    before = lived.contents()
    lived.statistics.inner.mark_unhealthy("drift")
    assert not lived.memory.commit(plan(episode(0x2000, "one more"))).complete

    upto = lived.memory.upkeep.rebuild_statistics()
    assert upto == lived.head()
    assert lived.statistics.inner.health(upto).state == "healthy"
    after = lived.contents()
    assert set(before.states) < set(after.states)
    assert before.edges == after.edges
    assert lived.memory.upkeep.verify().differences == 0


def test_with_several_processes_the_switch_is_made_while_nobody_writes(open_rig: OpenRig) -> None:
    rig = open_rig(mode="service")
    rig.memory.commit(plan(episode(1, "We met.")))
    committed = threading.Event()

    def write() -> None:
        rig.memory.commit(plan(episode(2, "We parted.")))
        committed.set()

    writer = threading.Thread(target=write)

    def watch(rebuild: Any) -> Any:
        switch = rebuild.switch

        def switching(applied: int) -> None:
            writer.start()
            assert not committed.wait(0.5), "the writer lock is held"
            assert rig.head() == 1
            switch(applied)

        rebuild.switch = switching
        return rebuild

    rig.vectors.alter("begin_rebuild", watch)
    rig.memory.upkeep.rebuild_vectors()
    writer.join(30)
    assert committed.is_set()
    assert rig.points().keys() == {episode_ref(1), episode_ref(2)}
    assert rig.memory.upkeep.verify().differences == 0
