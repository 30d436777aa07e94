"""Every write's outcome is observed: its repairs are queued outside the host's transaction, its hosts are told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import DatabaseError, transaction
from django.dispatch import Signal

from charactermemory import RelationType
from memory_app import signals
from memory_app.models import RepairMarker, RetrievalEvent
from memory_app.repairs import queue
from tests.repairs.world import COLLECTION, OUTAGE, World
from tests.revise.drafts import forgetting
from tests.support.plans import belief, episode, episode_ref, link, memory_ref, notion, plan, uid


@contextmanager
def heard(signal: Signal) -> Iterator[list[dict[str, Any]]]:
    calls: list[dict[str, Any]] = []

    def hear(sender: Any, signal: Any, **values: Any) -> None:
        calls.append(values)

    signal.connect(hear)
    try:
        yield calls
    finally:
        signal.disconnect(hear)


def test_a_commit_tells_what_it_stored_and_queues_what_failed(world: World) -> None:
    world.provider.error = OUTAGE
    with heard(signals.memory_committed) as told:
        world.memory.commit(plan(episode(1, "day one")))
        world.memory.remember("We met.")
    assert told[0] == {
        "collection": COLLECTION,
        "operation": "commit",
        "objects": (episode_ref(1),),
        "complete": False,
    }
    assert len(told) == 2
    assert RepairMarker.objects.filter(origin="commit").count() == 2


def test_forgetting_and_linking_tell_too(world: World) -> None:
    world.memory.commit(plan(notion(1), belief(2, "It rains.", (1,)), belief(3, "It snows.", (1,))))
    with heard(signals.memory_lifecycle_changed) as told:
        world.memory.forget(forgetting(memory_ref(2)))
    assert [(call["operation"], memory_ref(2) in call["objects"]) for call in told] == [("forget", True)]
    with heard(signals.memory_committed) as told:
        made = world.memory.link(link(uid(9), memory_ref(3), RelationType.SUPPORTS, memory_ref(2)))
    assert [(call["operation"], call["objects"]) for call in told] == [("link", (made.link.ref,))]


def test_a_receiver_that_fails_harms_nobody(world: World, caplog: pytest.LogCaptureFixture) -> None:
    def fail(**_: Any) -> None:
        raise ValueError("a host's mistake")

    signals.memory_committed.connect(fail)
    try:
        assert world.memory.commit(plan(episode(1, "day one"))).complete
    finally:
        signals.memory_committed.disconnect(fail)
    assert "a host's mistake" in caplog.text


@pytest.mark.django_db(transaction=True)
def test_inside_a_hosts_transaction_rows_are_written_after_its_commit(world: World) -> None:
    world.provider.error = OUTAGE
    with transaction.atomic():
        world.memory.commit(plan(episode(1, "day one")))
        assert RepairMarker.objects.count() == 0
    assert RepairMarker.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_rolled_back_host_leaves_it_to_the_sweep(world: World) -> None:
    world.provider.error = OUTAGE
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        world.memory.commit(plan(episode(1, "day one")))
        raise ZeroDivisionError
    assert RepairMarker.objects.count() == 0
    world.provider.error = None
    report = world.sweeper().sweep(COLLECTION)
    assert report is not None and report.repaired == (episode_ref(1),)
    assert world.differences() == 0


def test_a_queue_that_is_out_breaks_no_commit(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world.provider.error = OUTAGE

    def down(*_: Any) -> None:
        raise DatabaseError("down")

    monkeypatch.setattr(queue, "record", down)
    outcome = world.memory.commit(plan(episode(1, "day one")))
    assert outcome.persisted_object_ids == (episode_ref(1),)
    assert "the next sweep finds them" in caplog.text


def test_no_row_no_signal_and_no_event_holds_a_text(world: World) -> None:
    secret = "The password is swordfish"
    world.memory.commit(plan(episode(1, secret)))
    world.provider.error = OUTAGE
    world.memory.commit(plan(episode(2, secret + " still")))
    with heard(signals.retrieval_performed) as told:
        world.memory.retrieve("What is the password?")
    kept = [*RepairMarker.objects.values(), *RetrievalEvent.objects.values(), *told]
    assert len(kept) >= 3
    assert "swordfish" not in repr(kept)
    assert "password" not in repr(kept)


def test_a_retrieve_leaves_an_event_and_tells(world: World) -> None:
    world.memory.commit(plan(episode(1, "We met at the harbour.")))
    with heard(signals.retrieval_performed) as told:
        world.memory.retrieve("harbour")
    event = RetrievalEvent.objects.get()
    assert event.collection == COLLECTION
    assert event.included == 1
    assert event.admitted == [str(episode_ref(1))]
    assert event.sections == {"relevant_episodes": 1}
    assert event.duration_ms > 0
    (call,) = told
    assert call["objects"] == (episode_ref(1),)
    assert call["degraded"] == ()
