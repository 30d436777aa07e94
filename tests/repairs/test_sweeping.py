"""Sweeps: what nobody recorded is found in the receipts; what is parked or waits is left to the queue."""

from __future__ import annotations

import threading

import pytest

from charactermemory.remember.outcome import CommitOptions
from memory_app.models import RepairLease, RepairMarker
from memory_app.repairs import lease, queue
from tests.repairs.world import COLLECTION, OUTAGE, START, TOO_LONG, UNCLEAR, World
from tests.support.plans import episode, episode_ref, plan

LATER = CommitOptions(update_vectors=False, update_stats=False)


def test_a_sweep_repairs_what_has_no_row_and_records_what_still_fails(world: World) -> None:
    world.memory.commit(plan(episode(1, "day one")), LATER)
    world.memory.commit(plan(episode(2, "day two")), LATER)
    world.provider.poison["two"] = UNCLEAR
    report = world.sweeper().sweep(COLLECTION)
    assert report is not None
    assert report.repaired == (episode_ref(1),)
    row = RepairMarker.objects.get()
    assert (queue.ref_of(row), row.origin, row.store) == (episode_ref(2), "sweep", "vector")
    world.provider.poison.clear()
    assert world.run().succeeded == 1
    assert world.differences() == 0
    world.sweeper().sweep(COLLECTION)
    assert world.memory.stores.vectors.cursor().applied == world.memory.stores.graph.head()


def test_a_sweep_leaves_to_the_queue_what_waits_there_and_holds_the_mark(world: World) -> None:
    world.provider.error = UNCLEAR
    world.memory.commit(plan(episode(1, "day one")))
    world.provider.error = None
    calls = world.provider.calls
    report = world.sweeper().sweep(COLLECTION)
    assert world.provider.calls == calls
    assert report is not None and report.vector_backlog == 1 and report.statistics_backlog == 0


def test_a_parked_object_costs_nothing_and_holds_up_nothing(world: World) -> None:
    world.provider.poison["long"] = TOO_LONG
    world.memory.commit(plan(episode(1, "too long")))
    world.memory.commit(plan(episode(2, "day two")))
    assert world.statuses() == {"dead": 1}
    calls = world.provider.calls
    report = world.sweeper().sweep(COLLECTION)
    assert world.provider.calls == calls
    assert report is not None and report.vector_backlog == 0
    assert world.differences() == 1, "verify asks the graph, not the queue"


def test_in_an_outage_no_sweep_asks_the_provider(world: World) -> None:
    world.provider.error = OUTAGE
    for number in (1, 2, 3):
        world.memory.commit(plan(episode(number, f"day {number}")))
    world.memory.commit(plan(episode(4, "day four")), LATER)
    world.run()
    calls = world.provider.calls
    assert world.sweeper().sweep(COLLECTION) is None
    world.clock.forward(30)
    assert world.sweeper().sweep(COLLECTION) is None, "a row waits that is a better canary"
    assert world.provider.calls == calls
    RepairMarker.objects.all().delete()
    assert world.sweeper().sweep(COLLECTION) is not None, "without a row the sweep must try"


def test_two_beats_sweep_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.memory.commit(plan(episode(1, "day one")), LATER)
    swept = []
    sweep = world.memory.upkeep.sweep

    class Upkeep:
        def sweep(self, **options):  # type: ignore[no-untyped-def]
            swept.append(world.sweeper().sweep(COLLECTION))  # the other beat, meanwhile
            return sweep(**options)

    monkeypatch.setattr(type(world.memory), "upkeep", property(lambda self: Upkeep()))
    report = world.sweeper().sweep(COLLECTION)
    assert swept == [None]
    assert report is not None and report.repaired == (episode_ref(1),)
    assert RepairLease.objects.get(name=f"sweep:{COLLECTION}").until is None


@pytest.mark.usefixtures("closing_threads")
def test_of_many_who_ask_for_a_lease_at_once_one_gets_it(queued: str) -> None:
    start, done, got = threading.Barrier(6), threading.Barrier(6), []

    def ask(number: int) -> None:
        start.wait()
        with lease.held("sweep:ada", f"w{number}", START, 60) as mine:
            got.append(mine)
            done.wait(timeout=30)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == [False] * 5 + [True]


def test_one_collection_that_fails_holds_up_no_other(world: World) -> None:
    world.memory.commit(plan(episode(1, "day one")), LATER)
    reports = world.sweeper().sweep_all(["lost", COLLECTION])
    assert reports["lost"] is None
    assert reports[COLLECTION] is not None


def test_unhealthy_statistics_are_rebuilt_without_a_commit(world: World) -> None:
    world.memory.commit(plan(episode(1, "day one")))
    world.memory.stores.statistics.mark_unhealthy("a test says so")
    world.sweeper().sweep(COLLECTION)
    assert world.memory.stores.statistics.health(1).state == "healthy"
