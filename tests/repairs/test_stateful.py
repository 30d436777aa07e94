"""Random deeds, failures, sweeps, runs and lapsed leases: after draining, everything is as the graph says."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from charactermemory.errors import VectorDatabaseError
from charactermemory.remember.outcome import CommitOptions
from memory_app.models import RepairLease, RepairMarker
from memory_app.repairs import desk, queue
from tests.repairs.world import OUTAGE, POLICY, UNCLEAR, Clock, Provider, World
from tests.revise.drafts import forgetting
from tests.support.plans import belief, memory_ref, notion, plan, uid

LATER = CommitOptions(update_vectors=False, update_stats=False)


class Machine(RuleBasedStateMachine):
    """One memory, its queue, workers that die and a provider and index that fail."""

    @initialize()
    def open(self) -> None:
        RepairMarker.objects.all().delete()
        RepairLease.objects.all().delete()
        self.folder = tempfile.TemporaryDirectory()
        mapping = {
            "GRAPH_STORE_MODE": "in_memory",
            "VECTOR_STORE_PATH": str(Path(self.folder.name) / "vectors"),
            "RETRIEVAL_STATS_STORE_MODE": "in_memory",
            "EMBEDDING_PROVIDER": "hashing",
        }
        self.clock = Clock()
        self.patch = mock.patch("memory_app.observed.database_now", self.clock)
        self.patch.start()
        self.world = World(mapping, "ada", Provider(), self.clock)
        self.world.memory.commit(plan(notion(1)))
        self.numbers = itertools.count(2)
        self.live: list[int] = []
        self.write = self.world.memory.stores.vectors.write

    @rule(later=st.booleans())
    def remember(self, later: bool) -> None:
        number = next(self.numbers)
        options = LATER if later else CommitOptions()
        self.world.memory.commit(plan(belief(number, f"belief {number}", (1,))), options)
        self.live.append(number)

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(self.live))
        self.world.memory.forget(forgetting(memory_ref(number)))
        self.live.remove(number)

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def supersede(self, data: st.DataObject) -> None:
        old, new = data.draw(st.sampled_from(self.live)), next(self.numbers)
        self.world.memory.commit(plan(belief(new, f"belief {new}", (1,), supersedes=(uid(old),))))
        self.live.remove(old)
        self.live.append(new)

    @rule(error=st.sampled_from([None, OUTAGE, UNCLEAR]))
    def provider(self, error: Exception | None) -> None:
        self.world.provider.error = error

    @rule(down=st.booleans())
    def index(self, down: bool) -> None:
        def fail(*_: Any) -> None:
            raise VectorDatabaseError("edge", "io", "full")

        self.world.memory.stores.vectors.write = fail if down else self.write  # type: ignore[method-assign]

    @rule(limit=st.integers(1, 3))
    def worker_dies(self, limit: int) -> None:
        queue.claim("dies", self.clock.now, limit, POLICY)

    @rule(seconds=st.sampled_from([1, 30, 360, 4000]))
    def time_passes(self, seconds: float) -> None:
        self.clock.forward(seconds)

    @rule()
    def run_worker(self) -> None:
        self.world.run()

    @rule()
    def sweep(self) -> None:
        self.world.sweeper().sweep_all(["ada"])

    @rule()
    def cancel_all(self) -> None:
        desk.cancel(RepairMarker.objects.all(), self.clock.now)

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        try:
            self.drain()
            assert self.world.differences() == 0
            assert {ref for ref, _ in self.world.memory.stores.vectors.scan(None, 1000)[0]} == {
                memory_ref(number) for number in self.live
            }
            assert not RepairMarker.objects.filter(status__in=RepairMarker.OPEN).exists()
        finally:
            self.patch.stop()
            self.world.memory.close()
            self.folder.cleanup()

    def drain(self) -> None:
        self.provider(None)
        self.index(False)
        for _ in range(3):
            self.clock.forward(4000)
            self.world.run()
            desk.requeue(RepairMarker.objects.filter(status="dead"), self.clock.now)
            self.world.sweeper().sweep_all(["ada"])


@pytest.mark.django_db(transaction=True)
def test_after_any_sequence_everything_drains_to_what_the_graph_says(monkeypatch: Any) -> None:
    monkeypatch.setattr("memory_app.repairs.dispatch._configured", lambda: "none")
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=8,
            stateful_step_count=15,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
