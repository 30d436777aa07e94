"""An hour's outage with thousands of rows waiting, in simulated time."""

from __future__ import annotations

from typing import Any

import pytest

from memory_app import operations, tasks
from memory_app.models import RepairMarker
from memory_app.repairs import breaker
from tests.repairs.world import OUTAGE, World
from tests.support.plans import episode, observation, plan

pytestmark = pytest.mark.long

ROWS = 5_000
A_COMMIT = 499


def test_an_hours_outage_costs_a_canary_every_cooldown_and_drains_completely(world: World) -> None:
    world.provider.error = OUTAGE
    number = 1
    while number <= ROWS:
        said = range(number + 1, min(number + A_COMMIT, ROWS) + 1)
        turns = (observation(turn, number, f"turn {turn}", turn - number) for turn in said)
        world.memory.commit(plan(episode(number, f"day {number}"), *turns))
        number = said.stop
    assert RepairMarker.objects.filter(status="pending").count() == ROWS
    world.provider.calls = 0

    for _ in range(3600 // 30):  # a beat after the other
        world.sweeper().sweep_all([world.memory.collection])
        world.run()
        world.clock.forward(30)
    assert world.provider.calls <= 3600 / 30 + 2
    assert RepairMarker.objects.filter(status="pending", attempts=0).count() == ROWS
    assert RepairMarker.objects.filter(status="dead").count() == 0

    world.provider.error = None
    world.provider.calls = 0
    world.clock.forward(30)
    world.run()
    assert world.statuses() == {"succeeded": ROWS}
    assert world.provider.calls <= ROWS / 50 + 2
    world.sweeper().sweep_all([world.memory.collection])
    assert world.memory.stores.vectors.count() == ROWS
    assert world.memory.stores.vectors.cursor().applied == world.memory.stores.graph.head()


def test_no_task_goes_round_and_round_while_a_store_is_out(world: World, monkeypatch: Any) -> None:
    sent: list[int] = []
    monkeypatch.setattr(operations.repair, "database_now", world.clock)
    monkeypatch.setattr(operations.repair, "run_due", lambda **_: world.run())
    monkeypatch.setattr(operations.repair, "sweep_known", lambda: world.sweeper().sweep_all([]))
    monkeypatch.setattr(tasks.run, "delay", lambda *_: sent.append(1))
    world.provider.error = OUTAGE
    for number in (1, 2, 3):
        world.memory.commit(plan(episode(number, f"day {number}")))
    tasks.run()
    assert breaker.states(world.clock.now, ["vector"]) == {"vector": "open"}
    world.memory.commit(plan(episode(4, "day 4")))  # a row that is due at once
    for _ in range(29):
        world.clock.forward(1)
        tasks.sweep()
        tasks.run()
    assert sent == []
    world.clock.forward(1)
    tasks.sweep()
    assert sent == [1], "the cooldown is over: one run, for the canary"
    world.provider.error = None
    tasks.run()
    assert world.statuses() == {"succeeded": 4}
    assert sent == [1]
