"""Health: alive without stores, ready with a database and a graph, well without overdue or dead repairs."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import DatabaseError, connections, transaction
from django.test import Client
from django.utils import timezone

from charactermemory import CharacterMemory
from charactermemory.errors import NotAStore, StoreInUse, StoreUnavailable
from charactermemory.ports.vectors import Cursor
from memory_app import health, runtime
from memory_app.health import Check
from memory_app.models import MemoryCollection, RepairMarker
from memory_app.observed import ObservedMemory
from memory_app.operations import repair
from memory_app.repairs import breaker, queue
from tests.repairs.world import OUTAGE, POLICY, TOO_LONG, failure
from tests.support.plans import episode_ref

pytestmark = [pytest.mark.django_db, pytest.mark.urls("memory_app.urls_health")]


def wrong() -> set[str]:
    return {name for name, check in health.report().checks.items() if not check.ok}


def test_alive_asks_nothing(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "report", lambda: pytest.fail("a store was asked"))
    answer = client.get("/live/")
    assert (answer.status_code, answer.json()) == (200, {"live": True})
    assert client.post("/live/").status_code == 405


def test_a_host_that_asks_everybody_to_sign_in_is_still_asked_by_its_load_balancer(
    client: Client, settings: Any
) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django.contrib.auth.middleware.LoginRequiredMiddleware"]
    assert [client.get(f"/{name}/").status_code for name in ("live", "ready")] == [200, 200]


def test_a_database_that_is_out_is_told_where_every_request_begins_a_transaction(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(*_: object) -> None:
        raise DatabaseError("the server closed the connection")

    monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", True)
    monkeypatch.setattr(transaction.Atomic, "__enter__", down)
    monkeypatch.setattr(health, "database_now", down)
    assert client.get("/live/").status_code == 200
    assert client.get("/ready/").status_code == 503


def test_ready_names_the_open_collections_and_no_secret(
    shed: CharacterMemory, client: Client, mapping: dict[str, Any]
) -> None:
    answer = client.get("/ready/")
    assert answer.status_code == 200
    assert answer.json()["ready"] is True
    assert answer.json()["checks"]["collection.shed.graph"]["value"] == 4
    assert mapping["OXIGRAPH_PATH"] not in json.dumps(answer.json())
    assert wrong() == set()


def test_a_graph_that_is_out_makes_it_unready(
    shed: CharacterMemory, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down() -> int:
        raise StoreUnavailable(store="graph store", detail="http://user:secret@graph:7878 refused")

    monkeypatch.setattr(shed.stores.graph, "head", down)
    answer = client.get("/ready/")
    assert answer.status_code == 503
    assert answer.json()["checks"]["collection.shed.graph"]["detail"] == "store_unavailable"
    assert "secret" not in answer.content.decode()


def test_a_memory_that_could_not_be_opened_is_told_until_it_can_be(
    shed: CharacterMemory, client: Client, mapping: dict[str, Any]
) -> None:
    folder = Path(mapping["OXIGRAPH_PATH"]) / "cellar"
    folder.mkdir()
    (folder / "notes.txt").touch()
    with pytest.raises(NotAStore):
        runtime.get_memory("cellar")
    answer = client.get("/ready/")
    assert (answer.status_code, wrong()) == (200, {"collection.cellar.opened"}), "the others can be served"
    assert answer.json()["checks"]["collection.cellar.opened"]["detail"] == "not_a_store"
    (folder / "notes.txt").unlink()
    assert wrong() == set()
    assert runtime.open_collections() == ("cellar", "shed")


def test_a_store_that_another_process_holds_makes_it_unready(
    mapping: dict[str, Any], client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def held(*_: object, **__: object) -> None:
        raise StoreInUse(store="graph store", detail="", path="/x", holder="process 7")

    with monkeypatch.context() as patch:
        patch.setattr(ObservedMemory, "open", held)
        with pytest.raises(StoreInUse):
            runtime.get_memory("shed")
        assert client.get("/ready/").status_code == 503
    assert client.get("/ready/").status_code == 200


def test_nobody_who_asks_for_health_waits_for_a_memory_that_is_being_opened(
    mapping: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[dict[str, Check]] = []

    def slowly(*_: object, **__: object) -> None:
        told.append(health.report().checks)  # would wait for itself
        raise NotAStore(path="/x", expected="graph", found="notes")

    monkeypatch.setattr(ObservedMemory, "open", slowly)
    with pytest.raises(NotAStore):
        runtime.get_memory("shed")
    assert not any(name.startswith("collection.") for name in told[0])


def test_a_disk_that_is_nearly_full_is_told_before_it_ends_the_process(
    mapping: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Path] = []

    def usage(folder: Path) -> Any:
        asked.append(folder)
        return SimpleNamespace(free=100 * 2**20)

    monkeypatch.setattr("shutil.disk_usage", usage)
    assert wrong() == {"disk.OXIGRAPH_PATH", "disk.VECTOR_STORE_PATH"}
    assert all(folder.exists() for folder in asked), "the folders of the stores are not there yet"
    report = health.report()
    assert report.ready and report.checks["disk.OXIGRAPH_PATH"].detail == "100 MiB free"


def test_settings_that_cannot_be_used_make_it_unready(client: Client, settings: Any) -> None:
    settings.CHARACTER_MEMORY = {"GRAPH_STORE_MODE": "sqlite"}
    answer = client.get("/ready/")
    assert (answer.status_code, wrong()) == (503, {"settings"})
    assert answer.json()["checks"]["settings"]["detail"] == "config_out_of_domain"


def test_a_database_that_is_out_makes_it_unready(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def down() -> None:
        raise DatabaseError("password=secret")

    monkeypatch.setattr(health, "database_now", down)
    answer = client.get("/ready/")
    assert answer.status_code == 503
    assert "secret" not in answer.content.decode()


def test_overdue_and_dead_repairs_and_an_open_breaker_make_it_unwell_but_ready(db: None) -> None:
    now = timezone.now()
    queue.record("shed", [failure(episode_ref(1), OUTAGE)], "commit", now, POLICY)
    assert wrong() == set()
    RepairMarker.objects.update(created_at=now - timedelta(seconds=901))
    assert wrong() == {"repairs.oldest_seconds"}
    queue.record("shed", [failure(episode_ref(2), TOO_LONG)], "commit", now, POLICY)
    assert wrong() == {"repairs.oldest_seconds", "repairs.dead"}
    breaker.trip("vector", now, 60)
    assert "breaker.vector" in wrong()
    assert health.report().ready


def test_a_collection_archived_since_it_was_opened_is_nobodys_business(
    shed: CharacterMemory, caplog: pytest.LogCaptureFixture
) -> None:
    MemoryCollection.objects.update(archived=True)
    report = health.report()
    assert (report.ready, report.well) == (True, True)
    assert not any(name.startswith("collection.shed") for name in report.checks)
    assert repair.sweep_open() == {}
    assert not caplog.records


def test_a_graph_that_went_back_is_told(shed: CharacterMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    head = shed.stores.graph.head()
    monkeypatch.setattr(shed.stores.graph, "head", lambda: head - 1)
    assert wrong() == {"collection.shed.commits"}
    told = health.report().checks["collection.shed.commits"]
    assert (told.detail, told.critical) == (
        f"graph_went_back: they end at {head - 1}, and {head} was seen",
        False,
    )


def test_a_graph_that_lost_what_a_store_had_begun_to_reflect_is_told_too(
    shed: CharacterMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = shed.stores.graph.head()
    monkeypatch.setattr(shed.stores.vectors, "cursor", lambda: Cursor(applied=head, high=head + 1))
    assert "collection.shed.commits" in wrong()


def test_a_commit_between_two_reads_of_a_check_is_no_graph_that_went_back(
    shed: CharacterMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = shed.stores.graph.head()
    answers = iter([head - 1])
    monkeypatch.setattr(shed.stores.graph, "head", lambda: next(answers, head))
    assert wrong() == set()


def test_an_index_made_by_another_model_is_told(shed: CharacterMemory) -> None:
    MemoryCollection.objects.update_or_create(
        name="shed", defaults={"embedding_fingerprint": "openai:text-embedding-3-small:1536"}
    )
    assert wrong() == {"collection.shed.fingerprint"}
