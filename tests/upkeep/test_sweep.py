"""Sweeps: what was left or failed is derived, and a store's place in the log moves only over what is done."""

from __future__ import annotations

import pytest

from charactermemory.errors import VectorDatabaseError
from charactermemory.ports.vectors import VectorSurface
from charactermemory.remember.outcome import CommitOptions
from charactermemory.upkeep import sweep as sweep_module
from charactermemory.upkeep.reading import PAGE
from tests.revise.drafts import forgetting
from tests.support.fixtures import OpenRig
from tests.support.plans import (
    belief,
    episode,
    episode_ref,
    memory_ref,
    notion,
    observation,
    observation_ref,
    plan,
    uid,
)
from tests.support.rig import DIMENSION, Rig
from tests.upkeep.support import Poisoned, put_point

LATER = CommitOptions(update_vectors=False, update_stats=False)


def test_a_sweep_does_what_a_commit_left(rig: Rig) -> None:
    rig.memory.commit(plan(notion(1), belief(2, "It rains.", (1,))), LATER)
    outcome = rig.memory.commit(plan(belief(3, "It snows.", (1,), supersedes=(uid(2),))), LATER)
    assert memory_ref(3) in outcome.pending
    assert not outcome.complete
    assert rig.points() == {}
    assert rig.backlog() == (2, 2)

    report = rig.memory.upkeep.sweep()
    assert report.commits == 2
    assert report.repaired == (memory_ref(3),)
    assert report.complete
    assert (report.vector_backlog, report.statistics_backlog) == (0, 0)
    assert rig.backlog() == (0, 0)
    assert rig.points() == {memory_ref(3): "It snows."}
    assert rig.memory.upkeep.verify().differences == 0

    again = rig.memory.upkeep.sweep()
    assert (again.commits, again.repaired) == (0, ())


def test_what_a_sweep_found_stays_found_after_reopening(rig: Rig) -> None:
    rig.memory.commit(plan(episode(1, "We met.")), LATER)
    rig.memory.upkeep.sweep()
    rig.reopen()
    assert rig.backlog() == (0, 0)
    assert rig.points() == {episode_ref(1): "We met."}


def test_a_sweep_reads_the_log_in_steps(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_module, "SWEEP_COMMITS", 2)
    for number in range(1, 6):
        rig.memory.commit(plan(episode(number, f"day {number}")), LATER)
    rig.graph.calls.clear()
    assert rig.memory.upkeep.sweep().commits == 5
    assert [call.args for call in rig.graph.calls if call.name == "receipts"] == [(0, 2), (2, 4), (4, 5)]
    assert rig.backlog() == (0, 0)
    assert len(rig.points()) == 5


def test_a_sweep_derives_a_large_commit_in_pages(rig: Rig) -> None:
    said = [observation(number, 1, f"word {number}", number) for number in range(2, PAGE + 50)]
    rig.memory.commit(plan(episode(1), *said), LATER)
    assert rig.memory.upkeep.sweep().complete
    sizes = [len(call.args[0]) for call in rig.embedder.calls if call.name == "bulk_generate_embeddings"]
    assert sum(sizes) == len(said)
    assert max(sizes) <= PAGE
    assert len(rig.points()) == len(said)
    assert rig.backlog() == (0, 0)


def test_one_poison_text_holds_up_the_mark_and_nothing_else(rig: Rig) -> None:
    healthy = rig.embedder.inner
    rig.embedder.inner = Poisoned(DIMENSION)
    rig.memory.commit(plan(episode(1, "day one")), LATER)
    rig.memory.commit(plan(episode(2, "poison"), observation(3, 2, "day two")), LATER)
    rig.memory.commit(plan(episode(4, "day four")), LATER)

    report = rig.memory.upkeep.sweep()
    assert report.repaired == (episode_ref(1), observation_ref(3), episode_ref(4))
    (marker,) = report.repair_needed
    assert marker.objects == (episode_ref(2),)
    assert not report.complete
    assert (report.vector_backlog, report.statistics_backlog) == (2, 0)
    assert rig.backlog() == (2, 0)

    rig.embedder.inner = healthy
    assert rig.memory.upkeep.sweep().repaired == (episode_ref(2),)
    assert rig.backlog() == (0, 0)


def test_a_failed_flush_moves_no_mark(rig: Rig) -> None:
    rig.memory.commit(plan(episode(1, "We met.")), LATER)
    rig.vectors.fail("flush", VectorDatabaseError("edge", "engine", "full"), times=3)
    with pytest.raises(VectorDatabaseError):
        rig.memory.upkeep.sweep()
    assert rig.backlog()[0] == 1
    rig.vectors.recover()
    assert rig.memory.upkeep.sweep().complete
    assert rig.backlog() == (0, 0)


# --- with several processes ---


def test_with_several_processes_a_commit_is_passed_a_minute_after_it_was_made(open_rig: OpenRig) -> None:
    rig = open_rig(mode="service")
    outcome = rig.memory.commit(plan(notion(1), belief(2, "It rains.", (1,))))
    assert outcome.complete
    assert rig.points() == {memory_ref(2): "It rains."}
    assert rig.backlog() == (1, 1), "no writer moves the marks itself"

    young = rig.memory.upkeep.sweep()
    assert young.complete
    assert (young.vector_backlog, young.statistics_backlog) == (1, 1)
    assert rig.backlog() == (1, 1)
    rig.clock.forward(seconds=50)
    rig.memory.upkeep.sweep()
    assert rig.backlog() == (1, 1)

    rig.clock.forward(seconds=10)
    old = rig.memory.upkeep.sweep()
    assert (old.vector_backlog, old.statistics_backlog) == (0, 0)
    assert rig.backlog() == (0, 0)


def test_with_several_processes_only_what_was_found_equal_is_passed(open_rig: OpenRig) -> None:
    rig = open_rig(mode="service")
    rig.memory.commit(plan(episode(1, "We met.")), LATER)
    rig.memory.commit(plan(episode(2, "We parted.")))
    rig.clock.forward(minutes=2)

    first = rig.memory.upkeep.sweep()
    assert first.repaired == (episode_ref(1),)
    assert first.vector_backlog == 2, "what it repaired it looks at again, and all that follows waits"
    second = rig.memory.upkeep.sweep()
    assert second.repaired == ()
    assert rig.backlog() == (0, 0)


def test_with_several_processes_a_late_write_is_found_before_the_mark_passes(open_rig: OpenRig) -> None:
    rig = open_rig(mode="service")
    rig.memory.commit(plan(episode(1, "We met.")))
    rig.memory.forget(forgetting(episode_ref(1)))
    put_point(rig, episode_ref(1), "We met.", VectorSurface.SUMMARY)
    rig.clock.forward(minutes=2)

    assert rig.memory.upkeep.sweep().repaired == (episode_ref(1),)
    assert rig.points() == {}
    assert rig.backlog()[0] == 2
    rig.memory.upkeep.sweep()
    assert rig.backlog() == (0, 0)
