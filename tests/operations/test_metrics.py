"""The gauges for Prometheus, read through a registry as a scrape reads them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import DatabaseError
from django.utils import timezone
from prometheus_client import CollectorRegistry, generate_latest

from charactermemory import CharacterMemory
from memory_app import health
from memory_app.metrics import MemoryCollector
from memory_app.models import RepairMarker
from memory_app.repairs import breaker, queue
from tests.repairs.world import OUTAGE, POLICY, TOO_LONG, failure
from tests.support.plans import episode, episode_ref, plan

pytestmark = pytest.mark.django_db


def scraped() -> dict[str, float]:
    registry = CollectorRegistry()
    registry.register(MemoryCollector())
    lines = generate_latest(registry).decode().splitlines()
    pairs = (line.removeprefix("character_memory_").rsplit(" ", 1) for line in lines if line[0] != "#")
    return {name: float(value) for name, value in pairs}


def test_registering_asks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "report", lambda: pytest.fail("a store was asked"))
    CollectorRegistry().register(MemoryCollector())


def test_a_memory_at_rest(shed: CharacterMemory) -> None:
    shed.commit(plan(episode(1, "day 1")))
    found = scraped()
    assert found["ready"] == found["well"] == 1
    assert found['commits_behind{collection="shed",store="statistics"}'] == 0
    assert found['commits_behind{collection="shed",store="vectors"}'] == 5, "its place is written later"
    assert found['breaker_closed{store="vector"}'] == 1
    assert found["repairs_oldest_seconds"] == 0


def test_troubles_show() -> None:
    now = timezone.now()
    queue.record("shed", [failure(episode_ref(1), OUTAGE)], "commit", now, POLICY)
    queue.record("shed", [failure(episode_ref(2), TOO_LONG)], "commit", now, POLICY)
    RepairMarker.objects.update(created_at=now - timedelta(seconds=901))
    breaker.trip("vector", now, 60)
    found = scraped()
    assert (found["ready"], found["well"]) == (1, 0)
    assert found['repairs{status="pending",store="vector"}'] == 1
    assert found['repairs{status="dead",store="vector"}'] == 1
    assert found['breaker_closed{store="vector"}'] == 0
    assert found["repairs_oldest_seconds"] >= 901


def test_with_the_database_out_it_still_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def down() -> None:
        raise DatabaseError("password=secret")

    monkeypatch.setattr(health, "database_now", down)
    assert scraped() == {"ready": 0, "well": 0}
