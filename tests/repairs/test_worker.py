"""What a run does with what it claims: repairs, waits, parks, and tells an outage from an object's own fault."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from charactermemory.errors import EmbeddingError, GraphQueryError, RetrievalStatsStoreError, StoreUnavailable
from memory_app.errors import CollectionArchived
from memory_app.models import RepairMarker
from memory_app.repairs import breaker, queue
from memory_app.repairs.worker import RunReport
from tests.repairs.world import (
    COLLECTION,
    LATER,
    OUTAGE,
    POLICY,
    RATE_LIMIT,
    START,
    TOO_LONG,
    UNCLEAR,
    World,
    failure,
)
from tests.support.plans import episode, episode_ref, observation, plan


def remember_failing(world: World, count: int, error: Exception = OUTAGE, first: int = 1) -> None:
    """Commit episodes one by one while the provider is down."""
    world.provider.error = error
    for number in range(first, first + count):
        world.memory.commit(plan(episode(number, f"day {number}")))
    world.provider.error = None
    world.provider.calls = 0


def test_a_run_makes_the_index_as_the_graph_says(world: World) -> None:
    remember_failing(world, 3)
    assert world.differences() == 3
    assert world.run() == RunReport(claimed=3, succeeded=3)
    assert world.differences() == 0
    assert world.statuses() == {"succeeded": 3}
    assert world.run() == RunReport()


def test_what_was_forgotten_meanwhile_is_not_embedded(world: World) -> None:
    from tests.revise.drafts import forgetting

    remember_failing(world, 1)
    world.memory.forget(forgetting(episode_ref(1)))
    assert world.run().succeeded == 1
    assert world.provider.calls == 0
    assert world.memory.stores.vectors.count() == 0


def test_an_unclear_failure_beside_successes_waits_with_full_jitter_and_ends_as_dead(world: World) -> None:
    remember_failing(world, 3)
    world.provider.poison["day 2"] = UNCLEAR
    report = world.run()
    assert (report.succeeded, report.retried) == (2, 1)
    (row,) = RepairMarker.objects.filter(status="pending")
    assert (row.attempts, row.available_at) == (1, START + timedelta(seconds=5))
    assert row.cause_code == "embedding:unrecognized"
    for attempt, wait in enumerate((10, 20, 40, 80, 160, 320), start=2):
        world.clock.now = row.available_at
        remember_failing(world, 1, first=100 + attempt)  # so that the provider is seen to answer
        world.provider.poison["day 2"] = UNCLEAR
        world.run()
        row.refresh_from_db()
        assert (row.status, row.attempts) == ("pending", attempt)
        assert row.available_at == world.clock.now + timedelta(seconds=wait)
    world.clock.now = row.available_at
    world.run()
    row.refresh_from_db()
    assert (row.status, row.attempts) == ("dead", 8)
    world.clock.forward(10**6)
    calls = world.provider.calls
    world.run()
    assert world.provider.calls == calls, "a dead row costs nothing"


def test_a_permanent_cause_is_parked_at_the_first_attempt_and_holds_up_no_other(world: World) -> None:
    remember_failing(world, 40)
    world.provider.poison["day 7"] = TOO_LONG
    report = world.run()
    assert (report.succeeded, report.dead) == (39, 1)
    (row,) = RepairMarker.objects.filter(status="dead")
    assert (row.attempts, row.retryable, row.cause_code) == (1, False, "embedding:http_status:400")
    assert queue.ref_of(row) == episode_ref(7)


@pytest.mark.parametrize("error", [OUTAGE, RATE_LIMIT])
def test_an_outage_opens_the_breaker_and_spends_no_attempt(world: World, error: Exception) -> None:
    remember_failing(world, 20)
    world.provider.error = error
    report = world.run()
    assert (report.claimed, report.deferred, report.succeeded, report.retried) == (20, 20, 0, 0)
    assert world.provider.calls == 2
    rows = RepairMarker.objects.all()
    assert {(row.status, row.attempts, row.available_at) for row in rows} == {
        ("pending", 0, START + timedelta(seconds=30))
    }
    assert breaker.states(world.clock.now)["vector"] == "open"
    assert world.run() == RunReport()
    assert world.provider.calls == 2


def test_nothing_is_tried_before_the_time_that_the_provider_asked_for(world: World) -> None:
    remember_failing(world, 1, OUTAGE)
    remember_failing(world, 3, LATER)  # the row that waits already is not tried earlier either
    due = START + timedelta(seconds=120)
    assert {row.available_at for row in RepairMarker.objects.all()} == {due}
    world.clock.forward(119)
    assert (world.run(), world.provider.calls) == (RunReport(), 0)
    world.clock.forward(1)
    world.provider.error = LATER
    assert world.run().deferred == 3
    assert world.provider.calls == 1, "told once, it is left alone at once"
    assert {row.available_at for row in RepairMarker.objects.all()} == {due + timedelta(seconds=120)}
    world.provider.error = None
    world.clock.forward(119)
    world.sweeper().sweep_all([COLLECTION])
    assert (world.run(), world.provider.calls) == (RunReport(), 1)
    world.clock.forward(1)
    assert world.run().succeeded == 3


def test_a_worker_that_meets_an_outage_does_not_shorten_the_wait_that_another_was_told_of(
    world: World,
) -> None:
    now = world.clock.now
    breaker.trip("vector", now, 600)
    for shorter in (breaker.trip, breaker.outage):
        shorter("vector", now, 30)
        assert breaker.states(now + timedelta(seconds=599))["vector"] == "open"
    assert breaker.states(now + timedelta(seconds=600))["vector"] == "half_open"
    assert breaker.outage("vector", now + timedelta(seconds=590), 30)
    assert breaker.states(now + timedelta(seconds=619))["vector"] == "open", "a longer one counts"


@pytest.mark.parametrize(("asked", "expected"), [(1.0, 5.0), (60.0, 60.0), (1e6, POLICY.backoff_cap_seconds)])
def test_a_row_waits_as_long_as_was_asked_and_never_beyond_the_longest_wait(
    world: World, asked: float, expected: float
) -> None:
    remember_failing(world, 3)
    world.provider.poison["day 2"] = EmbeddingError("unrecognized", retry_after_seconds=asked)
    assert (world.run().retried, RepairMarker.objects.filter(status="succeeded").count()) == (1, 2)
    (row,) = RepairMarker.objects.filter(status="pending")
    assert row.available_at == START + timedelta(seconds=expected)


def test_after_the_cooldown_one_canary_goes_first(world: World) -> None:
    remember_failing(world, 20)
    world.provider.error = OUTAGE
    world.run()
    world.clock.forward(30)
    assert world.run() == RunReport(claimed=1, deferred=1)
    assert world.provider.calls == 3
    assert set(RepairMarker.objects.values_list("attempts", flat=True)) == {0}
    world.clock.forward(30)
    world.provider.error = None
    assert world.run() == RunReport(claimed=20, succeeded=20)
    assert breaker.states(world.clock.now)["vector"] == "closed"
    assert world.provider.calls == 5, "the canary, then the rest in one call"


def test_two_workers_send_one_canary(world: World) -> None:
    remember_failing(world, 5)
    world.provider.error = OUTAGE
    world.run()
    world.clock.forward(30)
    assert breaker.take_canary("vector", world.clock.now, 30)
    assert world.run() == RunReport()
    assert world.provider.calls == 2


def test_a_single_outage_is_the_rows_own_failure(world: World) -> None:
    remember_failing(world, 1)
    world.provider.error = OUTAGE
    assert world.run() == RunReport(claimed=1, retried=1)
    assert RepairMarker.objects.get().attempts == 1


def test_two_rows_with_unclear_causes_and_no_success_are_taken_for_an_outage(world: World) -> None:
    remember_failing(world, 9)
    world.provider.error = UNCLEAR
    assert world.run() == RunReport(claimed=9, deferred=9)
    assert world.provider.calls == 2
    assert set(RepairMarker.objects.values_list("attempts", flat=True)) == {0}


def test_what_an_archived_collection_was_owed_is_given_up_and_found_again_later(world: World) -> None:
    remember_failing(world, 3)
    world.unreachable[COLLECTION] = CollectionArchived(COLLECTION)
    assert world.run() == RunReport(claimed=3, cancelled=3)
    assert world.statuses() == {"cancelled": 3}
    assert world.run() == RunReport()
    world.unreachable.clear()
    world.sweeper().sweep(COLLECTION)
    assert world.differences() == 0


def test_a_memory_that_cannot_be_opened_puts_off_its_rows_alone(world: World) -> None:
    remember_failing(world, 2)
    queue.record("lost", [failure(episode_ref(1)), failure(episode_ref(2))], "commit", START, POLICY)
    world.unreachable["lost"] = StoreUnavailable(store="graph store", detail="down")
    report = world.run()
    assert (report.succeeded, report.deferred) == (2, 2)
    rows = RepairMarker.objects.filter(collection="lost")
    assert {(row.status, row.attempts, row.cause_code) for row in rows} == {
        ("pending", 0, "store_unavailable")
    }
    assert breaker.states(world.clock.now)["vector"] == "closed"


def test_an_object_that_cannot_be_read_does_not_fail_those_beside_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember_failing(world, 6)
    graph = world.memory.stores.graph
    read = graph.read

    def refuse(refs, anew=False):  # type: ignore[no-untyped-def]
        if episode_ref(4) in refs:
            raise GraphQueryError("hydration", "corrupt")
        return read(refs, anew)

    monkeypatch.setattr(graph, "read", refuse)
    report = world.run()
    assert (report.succeeded, report.dead) == (5, 1)
    assert queue.ref_of(RepairMarker.objects.get(status="dead")) == episode_ref(4)


def test_unhealthy_statistics_are_rebuilt(world: World) -> None:
    world.memory.stores.statistics.mark_unhealthy("a test says so")
    outcome = world.memory.commit(plan(episode(1, "day one")))
    assert outcome.stats_update_status.status == "failed"
    assert RepairMarker.objects.get().store == "statistics"
    assert world.run() == RunReport(claimed=1, succeeded=1)
    head = world.memory.stores.graph.head()
    assert world.memory.stores.statistics.health(head).state == "healthy"
    assert world.differences() == 0


def test_statistics_and_vectors_break_apart(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    remember_failing(world, 3)
    refs = [episode_ref(number) for number in (1, 2, 3)]
    queue.record(
        COLLECTION,
        [failure(ref, RetrievalStatsStoreError("database", "down"), "statistics") for ref in refs],
        "commit",
        START,
        POLICY,
    )

    def down(*_: object) -> None:
        raise RetrievalStatsStoreError("database", "down")

    with monkeypatch.context() as patched:
        patched.setattr(world.memory.stores.statistics, "apply", down)
        world.run()
    assert RepairMarker.objects.filter(store="vector", status="succeeded").count() == 3
    assert RepairMarker.objects.filter(store="statistics", status="pending", attempts=0).count() == 3
    assert breaker.states(world.clock.now) == {"vector": "closed", "statistics": "open"}
    world.clock.forward(30)
    assert world.run().succeeded == 3


def test_after_an_outage_a_store_that_had_answered_is_tried_with_one_row_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember_failing(world, 9)
    sizes: list[int] = []
    embed = world.provider.bulk_generate_embeddings

    def ask(texts: Sequence[str]) -> list[list[float]]:
        sizes.append(len(texts))
        world.provider.error = OUTAGE if len(sizes) > 1 else None
        return embed(texts)

    monkeypatch.setattr(world.provider, "bulk_generate_embeddings", ask)
    worker = world.worker()
    worker.policy = replace(POLICY, batch=3)
    worker.run()
    assert sizes == [1, 2, 1], "one alone, the rest of its claim, and then one alone once more"


def test_a_run_of_one_collection_leaves_the_others(world: World) -> None:
    remember_failing(world, 1)
    queue.record("other", [failure(episode_ref(1))], "commit", START, POLICY)
    assert world.worker(collection=COLLECTION).run() == RunReport(claimed=1, succeeded=1)
    assert RepairMarker.objects.get(collection="other").status == "pending"


def test_a_long_batch_prolongs_its_lease(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    remember_failing(world, 3)
    from memory_app.repairs import worker

    ticks = iter(range(0, 100_000, 200))
    monkeypatch.setattr(worker.time, "monotonic", lambda: float(next(ticks)))
    extended = []
    monkeypatch.setattr(queue, "extend", lambda *_: extended.append(1))
    world.run()
    assert extended


def test_a_limit_holds(world: World) -> None:
    remember_failing(world, 5)
    assert world.run(limit=2) == RunReport(claimed=2, succeeded=2)
    assert world.statuses() == {"pending": 3, "succeeded": 2}


def test_one_bad_text_of_a_plan_is_parked_alone_after_the_whole_batch_failed(world: World) -> None:
    world.provider.poison["too long"] = TOO_LONG
    world.memory.commit(plan(episode(1, "fine"), observation(2, 1, "too long"), observation(3, 1, "fine", 1)))
    assert world.statuses() == {"pending": 3}, "the provider's answer does not say which text it means"
    report = world.run()
    assert (report.succeeded, report.dead) == (2, 1)
