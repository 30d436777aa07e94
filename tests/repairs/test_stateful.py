"""Random deeds, failures, sweeps, runs and lapsed leases: after draining, everything is as the graph says.

Vectors are the current, active, embeddable objects, and the counters in the database are what one counts anew.
"""

from __future__ import annotations

import itertools
import tempfile
from collections import Counter
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

from charactermemory.errors import RetrievalStatsStoreError, VectorDatabaseError
from charactermemory.ids import MemoryObjectRef, ObjectType
from charactermemory.remember.outcome import CommitOptions
from charactermemory.revise.drafts import ForgetCascade
from memory_app.models import (
    EntityEdge,
    EntityRelationCount,
    GlobalRelationCount,
    MemoryState,
    RepairLease,
    RepairMarker,
    StatisticsHealth,
)
from memory_app.models.statistics import Standing
from memory_app.repairs import desk, queue
from memory_app.statistics import OrmStatistics
from tests.repairs.world import OUTAGE, POLICY, UNCLEAR, Clock, Provider, World
from tests.revise.drafts import correction, forgetting, replacement
from tests.support.plans import belief, episode, memory_ref, notion, plan, thread, thread_ref, uid

pytestmark = pytest.mark.long

LATER = CommitOptions(update_vectors=False, update_stats=False)
NOTIONS = (0xA1, 0xA2)
THREAD = 0xB1
COLLECTION = "ada"

ROWS = (
    RepairMarker,
    RepairLease,
    StatisticsHealth,
    MemoryState,
    EntityEdge,
    EntityRelationCount,
    GlobalRelationCount,
)
abouts = st.sets(st.sampled_from(NOTIONS), min_size=1).map(tuple)


class Machine(RuleBasedStateMachine):
    """One memory, its queue, workers that die, and a provider, an index and a database that fail.

    `beliefs` and `episodes` are what is current and not forgotten; `threaded` are beliefs of the thread.
    """

    @initialize()
    def open(self) -> None:
        for model in ROWS:
            model._default_manager.all().delete()
        self.folder = tempfile.TemporaryDirectory()
        mapping = {
            "GRAPH_STORE_MODE": "in_memory",
            "VECTOR_STORE_PATH": str(Path(self.folder.name) / "vectors"),
            "EMBEDDING_PROVIDER": "hashing",
        }
        self.clock = Clock()
        self.patch = mock.patch("memory_app.observed.database_now", self.clock)
        self.patch.start()
        self.world = World(mapping, COLLECTION, Provider(), self.clock, statistics=OrmStatistics)
        self.memory = self.world.memory
        self.memory.commit(plan(*(notion(number) for number in NOTIONS), thread(THREAD)))
        self.numbers = itertools.count(1)
        self.beliefs: dict[MemoryObjectRef, tuple[int, ...]] = {}
        self.episodes: set[MemoryObjectRef] = set()
        self.threaded: set[MemoryObjectRef] = set()
        self.write = self.memory.stores.vectors.write
        self.apply = self.memory.stores.statistics.apply

    # --- deeds ---

    @rule(later=st.booleans(), about=abouts, threaded=st.booleans())
    def remember(self, later: bool, about: tuple[int, ...], threaded: bool) -> None:
        number = next(self.numbers)
        threads = (uid(THREAD),) if threaded else ()
        draft = belief(number, f"belief {number}", about, thread_ids=threads)
        self.memory.commit(plan(draft), LATER if later else CommitOptions())
        self.beliefs[memory_ref(number)] = about
        self.threaded |= {memory_ref(number)} if threaded else set()

    @rule()
    def live_through(self) -> None:
        number = next(self.numbers)
        outcome = self.memory.commit(plan(episode(number, f"day {number}")))
        self.episodes.add(outcome.persisted_object_ids[0])

    @precondition(lambda self: self.beliefs or self.episodes)
    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        ref = data.draw(st.sampled_from(sorted({*self.beliefs, *self.episodes})))
        self.memory.forget(forgetting(ref))
        self.gone(ref)

    @rule()
    def forget_the_thread(self) -> None:
        cascade = ForgetCascade(apply_to_thread_members=True)
        self.memory.forget(forgetting(thread_ref(THREAD), cascade_policy=cascade))
        for ref in list(self.threaded):
            self.gone(ref)

    @precondition(lambda self: self.beliefs)
    @rule(data=st.data(), about=abouts)
    def correct(self, data: st.DataObject, about: tuple[int, ...]) -> None:
        old = data.draw(st.sampled_from(sorted(self.beliefs)))
        entities = tuple(uid(number) for number in about)
        new = replacement(f"not {old.id}", entity_ids=entities, given_by_application=True)
        changed = self.memory.correct(correction(old.id.int, replacements=(new,))).graph_mutated_object_ids
        (successor,) = (ref for ref in changed if ref != old and ref.object_type is ObjectType.DERIVED_MEMORY)
        self.gone(old)
        self.beliefs[successor] = about

    def gone(self, ref: MemoryObjectRef) -> None:
        self.beliefs.pop(ref, None)
        self.episodes.discard(ref)
        self.threaded.discard(ref)

    # --- failures ---

    @rule(error=st.sampled_from([None, OUTAGE, UNCLEAR]))
    def provider(self, error: Exception | None) -> None:
        self.world.provider.error = error

    @rule(down=st.booleans())
    def index(self, down: bool) -> None:
        def fail(*_: Any) -> None:
            raise VectorDatabaseError("edge", "io", "full")

        self.memory.stores.vectors.write = fail if down else self.write  # type: ignore[method-assign]

    @rule(down=st.booleans())
    def database(self, down: bool) -> None:
        def fail(*_: Any) -> None:
            raise RetrievalStatsStoreError("database", "locked")

        self.memory.stores.statistics.apply = fail if down else self.apply  # type: ignore[method-assign]

    @rule(limit=st.integers(1, 3))
    def worker_dies(self, limit: int) -> None:
        queue.claim("dies", self.clock.now, limit, POLICY)

    @rule(seconds=st.sampled_from([1, 30, 360, 4000]))
    def time_passes(self, seconds: float) -> None:
        self.clock.forward(seconds)

    # --- repairs ---

    @rule()
    def run_worker(self) -> None:
        self.world.run()

    @rule()
    def sweep(self) -> None:
        self.world.sweeper().sweep_all([COLLECTION])

    @rule()
    def cancel_all(self) -> None:
        desk.cancel(RepairMarker.objects.all(), self.clock.now)

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        try:
            self.drain()
            assert self.world.differences() == 0
            indexed = {ref for ref, _ in self.memory.stores.vectors.scan(None, 1000)[0]}
            assert indexed == {*self.beliefs, *self.episodes, thread_ref(THREAD)}
            assert not RepairMarker.objects.filter(status__in=RepairMarker.OPEN).exists()
            assert counters() == counted_anew()
            current = Counter(number for about in self.beliefs.values() for number in about)
            assert current_beliefs_by_notion() == {uid(number): current[number] for number in NOTIONS}
        finally:
            self.patch.stop()
            self.memory.close()
            self.folder.cleanup()

    def drain(self) -> None:
        self.provider(None)
        self.index(False)
        self.database(False)
        for _ in range(3):
            self.clock.forward(4000)
            self.world.run()
            desk.requeue(RepairMarker.objects.filter(status="dead"), self.clock.now)
            self.world.sweeper().sweep_all([COLLECTION])


def generation() -> int:
    """The rows that serve."""
    return StatisticsHealth.objects.get(collection=COLLECTION).generation


def counters() -> dict[tuple[Any, ...], tuple[int, int, int]]:
    """Every counter that counts something, by its key; the global ones without a hub."""
    found: dict[tuple[Any, ...], tuple[int, int, int]] = {}
    for model, hub in ((EntityRelationCount, ("hub_type", "hub_id")), (GlobalRelationCount, ())):
        rows = model.objects.filter(generation=generation(), total__gt=0)  # type: ignore[attr-defined]
        columns = (*hub, "relation", "object_type")
        for row in rows.values_list(*columns, "total", "active", "current"):
            found[row[:-3]] = row[-3:]
    return found


def counted_anew() -> dict[tuple[Any, ...], tuple[int, int, int]]:
    """The same, counted edge by edge."""
    total, active, current = Counter[Any](), Counter[Any](), Counter[Any]()
    columns = ("hub_type", "hub_id", "relation", "object_type", "standing")
    for *key, standing in EntityEdge.objects.filter(generation=generation()).values_list(*columns):
        for counted in (tuple(key), tuple(key[2:])):
            total[counted] += 1
            active[counted] += standing != Standing.SUPPRESSED
            current[counted] += standing == Standing.CURRENT
    return {key: (total[key], active[key], current[key]) for key in total}


def current_beliefs_by_notion() -> dict[Any, int]:
    """What the counters say of how many current beliefs are about each notion."""
    found = {uid(number): 0 for number in NOTIONS}
    rows = EntityRelationCount.objects.filter(
        generation=generation(), relation="about", object_type="derived_memory"
    )
    return found | dict(rows.values_list("hub_id", "current"))


def run(examples: int, steps: int) -> None:
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.django_db(transaction=True)
def test_after_any_sequence_everything_drains_to_what_the_graph_says(monkeypatch: Any) -> None:
    monkeypatch.setattr("memory_app.repairs.dispatch._configured", lambda: "none")
    run(examples=16, steps=25)


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_after_many_long_sequences_too(monkeypatch: Any) -> None:
    monkeypatch.setattr("memory_app.repairs.dispatch._configured", lambda: "none")
    run(examples=60, steps=50)
