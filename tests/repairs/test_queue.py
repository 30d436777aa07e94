"""Recording, claiming and settling, on SQLite and on PostgreSQL."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction

from memory_app import signals
from memory_app.models import RepairMarker
from memory_app.repairs import desk, queue
from tests.repairs.world import COLLECTION, OUTAGE, POLICY, START, TOO_LONG, UNCLEAR, failure
from tests.support.plans import episode_ref, memory_ref, observation_ref

pytestmark = pytest.mark.usefixtures("queued")

LATER = START + timedelta(seconds=POLICY.lease_seconds)


def record(*failures: queue.Failure, at: object = START) -> queue.Recorded:
    return queue.record(COLLECTION, failures, "commit", at, POLICY)  # type: ignore[arg-type]


def claim(name: str = "w", at: object = START, limit: int = 50) -> queue.Claim:
    return queue.claim(name, at, limit, POLICY)  # type: ignore[arg-type]


def one() -> RepairMarker:
    return RepairMarker.objects.get()


def test_a_failure_becomes_one_open_row_and_tells_the_host() -> None:
    heard = []

    def hear(**values: object) -> None:
        heard.append(values)

    signals.repair_marker_created.connect(hear)
    try:
        assert record(failure(episode_ref(1))) == queue.Recorded(opened=1)
    finally:
        signals.repair_marker_created.disconnect(hear)
    row = one()
    assert (row.collection, row.store, row.origin, row.status) == (COLLECTION, "vector", "commit", "pending")
    assert queue.ref_of(row) == episode_ref(1)
    assert (row.cause_code, row.attempts, row.max_attempts) == ("embedding:transport", 0, 8)
    assert row.available_at == row.due_since == START
    (values,) = heard
    assert values["objects"] == (episode_ref(1),)
    assert values["cause"] == "embedding:transport"


def test_one_id_of_two_types_and_two_stores_are_rows_of_their_own() -> None:
    record(failure(episode_ref(1)), failure(episode_ref(1), store="statistics"))
    record(failure(observation_ref(1)), failure(memory_ref(1)))
    assert RepairMarker.objects.count() == 4


def test_a_row_that_waits_is_asked_for_again_and_no_second_is_opened() -> None:
    record(failure(episode_ref(1)))
    RepairMarker.objects.update(available_at=LATER, attempts=3)
    assert record(failure(episode_ref(1), UNCLEAR), at=START + timedelta(seconds=9)).coalesced == 1
    row = one()
    assert (row.available_at, row.attempts) == (LATER, 3), "the back-off stands"
    assert row.due_since == START + timedelta(seconds=9)
    assert row.cause_code == "embedding:unrecognized"


def test_the_database_refuses_a_second_open_row() -> None:
    record(failure(episode_ref(1)))
    row = one()
    row.pk = None
    with pytest.raises(IntegrityError), transaction.atomic(using=queue.database()):
        row.save(force_insert=True)


def test_what_is_asked_for_while_claimed_is_repaired_once_more() -> None:
    record(failure(episode_ref(1)))
    taken = claim()
    record(failure(episode_ref(1)))
    assert one().dirty
    assert queue.succeeded(taken, taken.markers, START) == 0
    assert (one().status, one().attempts, one().dirty) == ("pending", 0, False)
    again = claim()
    assert queue.succeeded(again, again.markers, START) == 1
    assert one().status == "succeeded"


@pytest.mark.parametrize(("error", "attempts"), [(TOO_LONG, 0), (UNCLEAR, POLICY.max_attempts - 1)])
def test_what_is_asked_for_during_an_attempt_that_would_be_its_last_begins_anew(
    error: Exception, attempts: int
) -> None:
    record(failure(episode_ref(1)))
    RepairMarker.objects.update(attempts=attempts)
    taken = claim()
    record(failure(episode_ref(1)))
    assert queue.failed(taken, taken.markers[0], failure(episode_ref(1), error), LATER, START) == "pending"
    row = one()
    assert (row.status, row.attempts, row.dirty, row.available_at) == ("pending", 0, False, LATER)
    assert row.retryable
    again = claim(at=LATER)
    assert queue.failed(again, again.markers[0], failure(episode_ref(1), TOO_LONG), LATER, LATER) == "dead"


def test_who_lost_a_claim_kills_no_row() -> None:
    record(failure(episode_ref(1)))
    first = claim()
    second = claim(at=LATER)
    queue.failed(first, first.markers[0], failure(episode_ref(1), TOO_LONG), LATER, LATER)
    assert (one().status, one().claim_token) == ("claimed", second.token)


def test_waiting_rows_are_hurried_and_no_others() -> None:
    record(failure(episode_ref(1)), failure(episode_ref(2)), failure(episode_ref(3), TOO_LONG))
    RepairMarker.objects.filter(object_id=episode_ref(1).id).update(available_at=LATER, attempts=3)
    assert desk.hurry(RepairMarker.objects.all(), START) == 1
    assert {(row.status, row.attempts, row.available_at) for row in RepairMarker.objects.all()} == {
        ("pending", 3, START), ("pending", 0, START), ("dead", 0, START),
    }  # fmt: skip


def test_a_permanent_cause_of_its_own_is_parked_at_once() -> None:
    heard = []

    def hear(**values: object) -> None:
        heard.append(values["objects"])

    signals.repair_marker_dead.connect(hear)
    try:
        assert record(failure(episode_ref(1), TOO_LONG)).dead == 1
    finally:
        signals.repair_marker_dead.disconnect(hear)
    row = one()
    assert (row.status, row.retryable, row.cause_code) == ("dead", False, "embedding:http_status:400")
    assert heard == [(episode_ref(1),)]
    assert claim().markers == ()
    record(failure(episode_ref(1), TOO_LONG))
    assert RepairMarker.objects.count() == 1, "parked once, however often it is met"


def test_a_permanent_cause_of_a_whole_batch_accuses_none_of_it() -> None:
    record(*(failure(episode_ref(number), TOO_LONG, alone=False) for number in (1, 2)))
    assert set(RepairMarker.objects.values_list("status", flat=True)) == {"pending"}


def test_a_claim_takes_the_longest_due_and_counts_an_attempt() -> None:
    for number in (1, 2, 3):
        record(failure(episode_ref(number)), at=START + timedelta(seconds=-number))
    record(failure(episode_ref(4)), at=START + timedelta(seconds=1))
    taken = claim(limit=2)
    assert [queue.ref_of(row) for row in taken.markers] == [episode_ref(3), episode_ref(2)]
    assert {row.attempts for row in taken.markers} == {1}
    assert {row.claim_token for row in taken.markers} == {taken.token}
    assert [queue.ref_of(row) for row in claim(limit=9).markers] == [episode_ref(1)]
    assert claim().markers == (), "the fourth is not due yet"


def test_a_lease_that_ended_gives_the_row_to_another_and_the_first_changes_nothing() -> None:
    record(failure(episode_ref(1)))
    first = claim("first")
    assert claim("second", at=LATER - timedelta(seconds=1)).markers == ()
    second = claim("second", at=LATER)
    assert [row.claimed_by for row in second.markers] == ["second"]
    assert queue.succeeded(first, first.markers, LATER) == 0
    assert queue.hand_back(first, first.markers, LATER) == 0
    queue.failed(first, first.markers[0], failure(episode_ref(1)), LATER, LATER)
    row = one()
    assert (row.status, row.claimed_by, row.attempts) == ("claimed", "second", 2)
    assert queue.succeeded(second, second.markers, LATER) == 1


def test_a_lease_is_prolonged_only_by_who_holds_it() -> None:
    record(failure(episode_ref(1)))
    taken = claim()
    queue.extend(taken, START + timedelta(seconds=300), POLICY)
    assert claim("second", at=LATER).markers == ()
    assert claim("second", at=LATER + timedelta(seconds=300)).markers != ()
    queue.extend(taken, LATER, POLICY)
    assert one().claimed_by == "second"


def test_a_row_that_kills_its_workers_ends_as_dead() -> None:
    record(failure(episode_ref(1)))
    now = START
    for _ in range(8):
        assert len(claim(at=now).markers) == 1
        now += timedelta(seconds=POLICY.lease_seconds)
    assert claim(at=now).markers == ()
    assert (one().status, one().cause_code) == ("dead", "worker_lost")


def test_handing_back_spends_no_attempt() -> None:
    record(failure(episode_ref(1)))
    taken = claim()
    assert queue.hand_back(taken, taken.markers, LATER) == 1
    row = one()
    assert (row.status, row.attempts, row.available_at, row.claim_token) == ("pending", 0, LATER, None)


def test_the_last_attempt_and_a_permanent_cause_end_as_dead() -> None:
    record(failure(episode_ref(1)), failure(episode_ref(2)))
    RepairMarker.objects.update(attempts=6)
    taken = claim()
    assert queue.failed(taken, taken.markers[0], failure(episode_ref(1), UNCLEAR), LATER, START) == "pending"
    assert queue.failed(taken, taken.markers[1], failure(episode_ref(2), TOO_LONG), LATER, START) == "dead"
    taken = claim(at=LATER)
    assert queue.failed(taken, taken.markers[0], failure(episode_ref(1), UNCLEAR), LATER, LATER) == "dead"
    assert claim(at=LATER + timedelta(days=1)).markers == ()


def test_a_success_closes_older_dead_rows_of_the_object() -> None:
    record(failure(episode_ref(1), TOO_LONG), failure(episode_ref(2), TOO_LONG))
    record(failure(episode_ref(1)))
    taken = claim()
    queue.succeeded(taken, taken.markers, START)
    assert queue.objects(COLLECTION, "vector", "dead") == {episode_ref(2)}


def test_requeued_rows_start_afresh_and_cancelled_ones_are_left_alone() -> None:
    record(failure(episode_ref(1), TOO_LONG), failure(episode_ref(2)))
    assert desk.cancel(RepairMarker.objects.all(), START) == 2
    assert claim().markers == ()
    assert desk.requeue(RepairMarker.objects.all(), LATER) == 2
    assert {(row.status, row.attempts, row.retryable) for row in RepairMarker.objects.all()} == {
        ("pending", 0, True)
    }
    assert desk.requeue(RepairMarker.objects.all(), LATER) == 0
    assert len(claim(at=LATER).markers) == 2


def test_requeuing_opens_no_second_row_beside_an_open_one() -> None:
    record(failure(episode_ref(1), TOO_LONG))
    record(failure(episode_ref(1)))
    assert desk.requeue(RepairMarker.objects.all(), START) == 0
    assert RepairMarker.objects.filter(status="dead").count() == 1


def test_pruning_deletes_what_is_settled_and_old() -> None:
    record(failure(episode_ref(1)), failure(episode_ref(2)), failure(episode_ref(3), TOO_LONG))
    taken = claim(limit=1)
    queue.succeeded(taken, taken.markers, START)
    assert desk.prune(START) == 0
    assert desk.prune(START + timedelta(seconds=1)) == 1
    assert set(RepairMarker.objects.values_list("status", flat=True)) == {"pending", "dead"}


@pytest.mark.usefixtures("closing_threads")
def test_four_claimants_share_rows_and_take_none_twice() -> None:
    record(*(failure(episode_ref(number)) for number in range(1, 121)))
    start, taken, errors = threading.Barrier(4), [], []

    def work(number: int) -> None:
        start.wait()
        try:
            while rows := claim(f"w{number}", limit=7).markers:
                taken.extend(row.pk for row in rows)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(taken) == len(set(taken)) == 120


def test_a_wide_failure_is_recorded_once() -> None:
    failures = [failure(episode_ref(number), OUTAGE) for number in range(1, 501)]
    assert record(*failures).opened == 500
    assert record(*failures).coalesced == 500
    assert RepairMarker.objects.count() == 500
