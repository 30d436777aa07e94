"""What may befall those who repair what the operations owe: killed in the middle, leases that end, two beats,
clocks that differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from charactermemory import CharacterMemory
from memory_app import runtime
from memory_app.models import RepairMarker
from memory_app.repairs import queue
from memory_app.repairs.worker import RunReport
from tests.faults.faults import vectors_down
from tests.faults.world import DULL, MEMBER, NUMBERS, OPERATIONS, POLICY, WRONG, Deployment, grounds
from tests.support.plans import memory_ref

pytestmark = pytest.mark.django_db


class Killed(BaseException):
    """Stands for SIGKILL: nothing handles it, and nothing after it is done."""


@pytest.fixture
def owing(deployment: Deployment) -> Iterator[Deployment]:
    """A deployment that owes its index every operation, and has it right in the end."""
    with vectors_down(deployment):
        for operation in OPERATIONS.values():
            assert not operation(deployment.memory).complete
    assert deployment.waiting() > len(OPERATIONS)
    yield deployment
    deployment.drain()
    assert (deployment.differences(), deployment.waiting()) == (0, 0)


@pytest.mark.parametrize("step", ["present", "write", "written"])
def test_a_worker_killed_at_a_step_leaves_the_rest_to_another(
    step: str, owing: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors: Any = owing.memory.stores.vectors
    name = "present" if step == "present" else "write"
    call = getattr(vectors, name)

    def die(*arguments: Any) -> None:
        if step == "written":
            call(*arguments)
        raise Killed

    wanted = owing.waiting()
    with monkeypatch.context() as patch:
        patch.setattr(vectors, name, die)
        try:
            owing.run()
        except Killed:
            assert RepairMarker.objects.filter(status="claimed").count() == wanted
    owing.clock.forward(POLICY.lease_seconds)
    owing.run()
    assert (owing.differences(), owing.waiting()) == (0, 0)


def test_a_lease_that_ended_settles_nothing_any_more(owing: Deployment) -> None:
    wanted = owing.waiting()
    asleep = queue.claim("asleep", owing.clock.now, 50, POLICY)
    assert owing.run() == RunReport(), "until the lease ends the rows are the sleeper's"
    owing.clock.forward(POLICY.lease_seconds)
    assert owing.run().succeeded == wanted
    before = list(RepairMarker.objects.values())
    assert queue.succeeded(asleep, asleep.markers, owing.clock.now) == 0
    assert queue.hand_back(asleep, asleep.markers, owing.clock.now) == 0
    assert list(RepairMarker.objects.values()) == before


def test_two_beats_do_no_more_than_one(owing: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second sweeps and repairs while the first is at it."""
    first, second = owing.sweeper(), owing.sweeper()
    collection = owing.memory.collection
    seen: list[Any] = []

    def meanwhile(name: str) -> CharacterMemory:
        seen.append(second.sweep(name))
        seen.append(owing.worker().run())
        return owing.memory

    monkeypatch.setattr(first, "memories", meanwhile)
    assert first.sweep(collection) is not None
    assert seen[0] is None, "one sweeps at a time"
    assert seen[1].succeeded > 0, "repairs go on beside a sweep"
    assert owing.worker().run() == RunReport(), "a doubled message finds nothing to do"
    assert (owing.differences(), owing.waiting()) == (0, 0)


@pytest.mark.parametrize("hours", [-26, 26])
def test_a_worker_whose_clock_is_wrong_neither_loses_nor_doubles(hours: int, owing: Deployment) -> None:
    def wrong() -> datetime:
        return owing.clock() + timedelta(hours=hours)

    report = owing.worker(wrong).run()
    assert report.retried == report.dead == 0
    owing.sweeper(wrong).sweep_all([owing.memory.collection])
    owing.run()
    assert owing.differences() == 0


def test_a_process_that_starts_in_an_outage_remembers_and_recalls(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("charactermemory.adapters.qdrant.service.RETRY_SECONDS", 0.0)
    with vectors_down(deployment):
        name = f"faults-{next(NUMBERS)}"
        fresh = runtime.open_memory(name, clock=deployment.clock)
        assert not fresh.commit(grounds()).complete
        outcome = fresh.retrieve("Mimi")
        assert outcome.rationale.degraded
    started = Deployment(fresh, deployment.graph, deployment.vectors, deployment.clock)
    try:
        started.drain()
        assert (started.differences(), started.waiting()) == (0, 0)
        assert started.indexed() >= {memory_ref(number) for number in (WRONG, DULL, MEMBER)}
        assert fresh.stores.vectors.cursor().applied == fresh.stores.graph.head()
    finally:
        fresh.close()
