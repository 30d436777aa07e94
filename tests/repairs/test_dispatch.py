"""Who is asked to repair, and that asking never fails."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from memory_app.repairs import dispatch


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    done: list[str] = []
    monkeypatch.setattr(dispatch, "_run", lambda: done.append("run"))
    monkeypatch.setattr(dispatch, "_sweep_open", lambda: done.append("sweep"))
    monkeypatch.setattr(dispatch, "_prune", lambda: done.append("prune"))
    return done


@pytest.fixture
def thread() -> Iterator[dispatch.ThreadDispatcher]:
    made = dispatch.ThreadDispatcher(round_seconds=3600)
    yield made
    made.stop()


def wait_for(condition: Any) -> None:
    until = threading.Event()
    for _ in range(400):
        if condition():
            return
        until.wait(0.05)
    pytest.fail("it did not happen in time")


def test_inline_repairs_at_once_and_swallows_what_goes_wrong(
    runs: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    dispatch.InlineDispatcher().nudge()
    assert runs == ["run"]

    def fail() -> None:
        raise OSError("no")

    monkeypatch.setattr(dispatch, "_run", fail)
    dispatch.InlineDispatcher().nudge()
    assert "a repair run failed" in caplog.text


@pytest.mark.django_db(transaction=True)
def test_a_nudge_wakes_the_thread_and_stopping_ends_it(
    runs: list[str], thread: dispatch.ThreadDispatcher
) -> None:
    thread.start()
    thread.start()
    assert sum(found.name == "memory-repair" for found in threading.enumerate()) == 1
    thread.nudge()
    wait_for(lambda: runs == ["run"])
    thread.stop()
    assert not any(found.name == "memory-repair" for found in threading.enumerate())


@pytest.mark.django_db(transaction=True)
def test_without_a_nudge_the_thread_looks_around_by_itself(runs: list[str]) -> None:
    thread = dispatch.ThreadDispatcher(round_seconds=0.05)
    thread.start()
    wait_for(lambda: len(runs) >= 7)
    thread.stop()
    assert runs[:7] == ["run", "sweep", "prune", "run", "sweep", "run", "sweep"]


@pytest.mark.django_db(transaction=True)
def test_a_thread_that_is_nudged_all_the_time_sweeps_too(
    runs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    thread = dispatch.ThreadDispatcher(round_seconds=0.05)

    def run() -> None:
        runs.append("run")
        thread._wake.set()  # what a nudge does to a thread that runs

    monkeypatch.setattr(dispatch, "_run", run)
    thread.start()
    try:
        wait_for(lambda: runs.count("sweep") >= 2)
    finally:
        thread.stop()


@pytest.mark.django_db(transaction=True)
def test_the_thread_prunes_again_when_a_day_has_passed(
    runs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "PRUNE_SECONDS", 0.0)
    thread = dispatch.ThreadDispatcher(round_seconds=0.05)
    thread.start()
    wait_for(lambda: runs.count("prune") >= 2)
    thread.stop()


@pytest.mark.parametrize("step", ["_run", "close_old_connections"])
@pytest.mark.django_db(transaction=True)
def test_a_round_that_fails_does_not_end_the_thread(
    runs: list[str], thread: dispatch.ThreadDispatcher, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    asked = []

    def fail() -> None:
        asked.append(1)
        raise OSError("no")

    monkeypatch.setattr(dispatch, step, fail)
    thread.nudge()
    wait_for(lambda: len(asked) == 1)
    thread.nudge()
    wait_for(lambda: len(asked) == 2)


def test_a_broker_that_is_down_is_no_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from memory_app import tasks

    def down(**_: Any) -> None:
        raise ConnectionError("broker at 10.0.0.1 refused")

    monkeypatch.setattr(tasks.run, "apply_async", down)
    celery = dispatch.CeleryDispatcher()
    celery.nudge()
    celery.stop()
    assert "the next sweep tells it: ConnectionError" in caplog.text
    assert "10.0.0.1" not in caplog.text


def test_celery_gets_a_message_without_content(monkeypatch: pytest.MonkeyPatch) -> None:
    from memory_app import tasks

    sent = []
    monkeypatch.setattr(tasks.run, "apply_async", lambda *args, **options: sent.append((args, options)))
    celery = dispatch.CeleryDispatcher()
    celery.nudge()
    celery.stop()
    assert sent == [((), {"retry": False})]


def test_no_write_waits_for_a_broker_that_hangs_and_nudges_share_a_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from memory_app import tasks

    sent, hangs, goes_on = [], threading.Event(), threading.Event()

    def hang(**_: Any) -> None:
        sent.append(1)
        hangs.set()
        assert goes_on.wait(30)

    monkeypatch.setattr(tasks.run, "apply_async", hang)
    celery = dispatch.CeleryDispatcher()
    celery.nudge()
    assert hangs.wait(30)
    for _ in range(5):
        celery.nudge()  # comes back, though the first message is still on its way
    assert len(sent) == 1
    goes_on.set()
    celery.stop()
    assert len(sent) == 2


def test_the_setting_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = {
        "thread": dispatch.ThreadDispatcher,
        "celery": dispatch.CeleryDispatcher,
        "inline": dispatch.InlineDispatcher,
        "none": dispatch.NoDispatcher,
    }
    for name, kind in chosen.items():
        monkeypatch.setattr(dispatch, "_configured", lambda name=name: name)
        assert type(dispatch.dispatcher()) is kind
        assert dispatch.dispatcher() is dispatch.dispatcher()


def test_the_tasks_have_the_names_that_the_schedule_uses() -> None:
    from memory_app import tasks
    from memory_app.schedule import BEAT_SCHEDULE, TASK_ROUTES

    names = {task.name for task in (tasks.sweep, tasks.run, tasks.prune, tasks.rebuild_index, tasks.verify)}
    assert names == {
        "memory_app.repair.sweep",
        "memory_app.repair.run",
        "memory_app.repair.prune",
        "memory_app.index.rebuild",
        "memory_app.verify",
    }
    assert {entry["task"] for entry in BEAT_SCHEDULE.values()} <= names
    from config.celery import app

    for name in names:
        assert app.amqp.router.route({}, name)["queue"].name == "memory_repair", name
    assert set(TASK_ROUTES) == {"memory_app.repair.*", "memory_app.index.*", "memory_app.verify"}
