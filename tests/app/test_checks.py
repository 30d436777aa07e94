"""The system checks: each finds its fault, says what to do, and is silent without it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from django.core.checks import CheckMessage, run_checks
from django.core.management import call_command
from django.db import connection, connections
from django.urls import include, path
from django.views.defaults import page_not_found as not_found

from memory_app import checks, mounts, writable
from memory_app.checks import Id
from tests.app.test_conf import EMBEDDED, SERVICE
from tests.repairs.world import Routed

not_callable = "text"


def found(*, deploy: bool = False, databases: Sequence[str] | None = None) -> list[CheckMessage]:
    messages = run_checks(include_deployment_checks=deploy, databases=databases)
    return [message for message in messages if str(message.id).startswith("memory_app.")]


def ids(**options: Any) -> list[str]:
    return [str(message.id).removeprefix("memory_app.") for message in found(**options)]


@pytest.fixture(autouse=True)
def sound(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.CHARACTER_MEMORY = EMBEDDED
    # Whoever runs the tests: root may write everywhere, others have no way to make /stores.
    monkeypatch.setattr(writable, "may_write", lambda path: True)


def test_every_id_is_of_its_own_and_every_message_has_a_hint(settings: Any) -> None:
    assert len({item.value for item in Id}) == len(Id) == len({item.code for item in Id})
    settings.CHARACTER_MEMORY = EMBEDDED | {"DISPATCH": "celery"}
    messages = found(deploy=True)
    assert len(messages) == 2
    assert all(message.hint and message.hint.endswith(".") for message in messages)


def test_sound_settings_are_met_with_silence() -> None:
    assert ids() == []


def test_e001_each_unknown_key_and_the_rest_is_checked_all_the_same(settings: Any) -> None:
    settings.CHARACTER_MEMORY = {"OXIGRAPH_PATHS": "/x", "DISPATCHER": "thread", "OXIGRAPH_PATH": "/x"}
    assert ids() == ["E001", "E001", "E005"]
    first, _, missing = found()
    assert "OXIGRAPH_PATH" in first.msg
    assert missing.hint is not None and "VECTOR_STORE_PATH" in missing.hint
    settings.CHARACTER_MEMORY = EMBEDDED | {"API": {"BODY": 1}}
    assert ids() == ["E001"]


@pytest.mark.parametrize("wrong", [{"REPAIR_BATCH": "x"}, {"DISPATCH": "cron"}, {"LANGUAGE": "klingon"}])
def test_e002_a_wrong_value(settings: Any, wrong: dict[str, str]) -> None:
    settings.CHARACTER_MEMORY = EMBEDDED | wrong
    assert ids() == ["E002"]
    settings.CHARACTER_MEMORY = [1]
    assert ids() == ["E002"]


@pytest.mark.parametrize(
    "options",
    [
        {"MAX_BODY_BYTES": "lots"},
        {"IDEMPOTENCY_HOURS": 0},
        {"THROTTLE_RATES": {"memory_retrieve": "60 per minute"}},
        {"THROTTLE_RATES": {"retrieve": "60/min"}},
        {"AUTHENTICATION_CLASSES": "rest_framework.authentication.SessionAuthentication"},
    ],
)
def test_e002_a_wrong_value_among_the_options_of_the_api(settings: Any, options: dict[str, object]) -> None:
    settings.CHARACTER_MEMORY = EMBEDDED | {"API": options}
    assert ids() == ["E002"]
    assert f"CHARACTER_MEMORY['API'][{next(iter(options))!r}]" in found()[0].msg


def test_options_of_the_api_that_are_allowed(settings: Any) -> None:
    rates = {"memory_retrieve": "60/min", "memory_read": None, "memory_write": "5/second"}
    settings.CHARACTER_MEMORY = EMBEDDED | {"API": {"THROTTLE_RATES": rates, "MAX_BODY_BYTES": 1000}}
    assert ids() == []


@pytest.mark.parametrize("path", ["nowhere", "tests.app.nothing.here", "tests.app.test_checks.not_callable"])
def test_e003_an_import_string_that_names_nothing_callable(settings: Any, path: str) -> None:
    settings.CHARACTER_MEMORY = EMBEDDED | {"EMBEDDING_PROVIDER_FACTORY": path}
    assert ids() == ["E003"]
    assert path in found()[0].msg


def test_e004_a_near_name_without_the_right_one(settings: Any) -> None:
    settings.CHARACTERMEMORY = EMBEDDED
    assert ids() == []
    del settings.CHARACTER_MEMORY
    assert ids() == ["E004"]


def test_e005_a_mode_without_what_it_needs(settings: Any) -> None:
    settings.CHARACTER_MEMORY = EMBEDDED | {"GRAPH_STORE_MODE": "service", "DISPATCH": "none"}
    assert ids() == ["E005"]
    settings.CHARACTER_MEMORY = EMBEDDED | {"EMBEDDING_PROVIDER": "openai"}
    assert ids() == ["E005"]


def test_e005_who_has_set_nothing_is_told_all_that_is_needed_at_once(settings: Any) -> None:
    settings.CHARACTER_MEMORY = {}
    (message,) = found()
    assert message.id == "memory_app.E005"
    assert (
        message.hint is not None and "OXIGRAPH_PATH" in message.hint and "VECTOR_STORE_PATH" in message.hint
    )


@pytest.mark.usefixtures("on_sqlite")
def test_e005_writers_of_several_processes_without_a_lock_in_common(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory_app.runtime.lock_folder", lambda: None)
    settings.CHARACTER_MEMORY = SERVICE
    assert ids() == ["E005"]
    settings.CHARACTER_MEMORY = SERVICE | {"WRITER_LOCK_PATH": "/locks"}
    assert ids() == []


def test_e007_embedded_stores_with_a_worker(settings: Any) -> None:
    settings.CHARACTER_MEMORY = EMBEDDED | {"DISPATCH": "celery"}
    assert ids() == ["E007"]
    settings.CHARACTER_MEMORY = SERVICE | {"VECTOR_STORE_MODE": "embedded", "DISPATCH": "celery"} | EMBEDDED
    assert ids() == ["E007"], "one embedded store suffices"


def test_e008_celery_that_is_not_installed(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.CHARACTER_MEMORY = SERVICE
    assert ids() == []
    monkeypatch.setattr(checks, "find_spec", lambda name: None)
    assert ids() == ["E008"]


def test_e009_an_embedded_store_on_a_network_file_system(
    settings: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    table = tmp_path / "mounts"
    table.write_text(
        "/dev/sda / ext4 rw 0 0\nserver:/export /mnt/net\\040share nfs4 rw 0 0\n"
        "/dev/sdb /mnt/net\\040share/local xfs rw 0 0\n"
    )
    monkeypatch.setattr(mounts, "TABLE", table)
    for folder, expected in {
        "/mnt/net share/graph": ["E009"],
        "/mnt/net share/local/graph": [],
        "/mnt/net shares": [],
    }.items():
        settings.CHARACTER_MEMORY = EMBEDDED | {"OXIGRAPH_PATH": folder}
        assert ids() == expected, folder
    monkeypatch.setattr(mounts, "TABLE", tmp_path / "missing")
    assert ids() == []


def test_e010_naive_times(settings: Any) -> None:
    settings.USE_TZ = False
    assert ids() == ["E010"]


FILES = {
    "OXIGRAPH_PATH": {},
    "VECTOR_STORE_PATH": {},
    "RETRIEVAL_STATS_PATH": {"STATISTICS": "core"},
    "WRITER_LOCK_PATH": SERVICE | {"DISPATCH": "none"},
}
"""Keys that name something on disk, each with the settings that make use of it."""


@pytest.mark.parametrize("key", FILES)
def test_e011_a_file_where_a_folder_has_to_be(settings: Any, tmp_path: Path, key: str) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    before = sorted(tmp_path.rglob("*"))
    name = "statistics.sqlite3" if key == "RETRIEVAL_STATS_PATH" else ""
    for folder, expected in {
        "file": ["E011"],
        "file/below/it": ["E011"],
        "new/one": [],
        ".": [],
        "nowhere": [],
    }.items():
        settings.CHARACTER_MEMORY = EMBEDDED | FILES[key] | {key: tmp_path / folder / name}
        assert ids() == expected, folder
    settings.CHARACTER_MEMORY = EMBEDDED | FILES[key] | {key: tmp_path / "file" / "below" / name}
    (message,) = found()
    assert key in message.msg
    assert str(tmp_path / "file") in message.msg
    assert sorted(tmp_path.rglob("*")) == before, "a check makes nothing"


def test_e011_a_folder_where_the_statistics_file_has_to_be(settings: Any, tmp_path: Path) -> None:
    settings.CHARACTER_MEMORY = EMBEDDED | {"RETRIEVAL_STATS_PATH": tmp_path}
    assert ids() == [], "the host's database has the statistics"
    settings.CHARACTER_MEMORY = EMBEDDED | {"RETRIEVAL_STATS_PATH": tmp_path, "STATISTICS": "core"}
    assert ids() == ["E011"]


@pytest.mark.parametrize("key", FILES)
def test_w010_a_folder_that_this_user_may_not_write(
    settings: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, key: str
) -> None:
    name = "statistics.sqlite3" if key == "RETRIEVAL_STATS_PATH" else ""
    settings.CHARACTER_MEMORY = EMBEDDED | FILES[key] | {key: tmp_path / "of_root" / "new" / name}
    (tmp_path / "of_root").mkdir()
    assert ids() == []
    monkeypatch.setattr(writable, "may_write", lambda path: path != tmp_path / "of_root")
    (message,) = found()
    assert message.id == "memory_app.W010"
    assert key in message.msg
    assert str(tmp_path / "of_root") + " cannot" in message.msg


def test_w010_a_collection_that_another_user_has_made(
    settings: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("ada", "ben"):
        (tmp_path / name).mkdir()
    settings.CHARACTER_MEMORY = EMBEDDED | {"OXIGRAPH_PATH": tmp_path}
    assert ids() == []
    monkeypatch.setattr(writable, "may_write", lambda path: path != tmp_path / "ben")
    (message,) = found()
    assert f"{tmp_path / 'ben'} cannot be written" in message.msg


def test_who_may_write_is_what_the_system_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert writable.may_write(tmp_path)
    asked = []
    monkeypatch.setattr(os, "access", lambda path, mode: asked.append((path, mode)))
    assert not writable.may_write(tmp_path)
    assert asked == [(tmp_path, os.R_OK | os.W_OK | os.X_OK)]


def test_e012_an_embedding_provider_that_is_not_installed(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "find_spec", lambda name: None)
    assert ids() == [], "the default comes with the app"
    openai = {"OPENAI_API_KEY": "sk-x", "EMBEDDING_MODEL": "text-embedding-3-small"}
    settings.CHARACTER_MEMORY = EMBEDDED | openai
    (message,) = found()
    assert message.id == "memory_app.E012"
    assert message.hint is not None
    assert "'django-character-memory[openai]'" in message.hint
    settings.CHARACTER_MEMORY |= {"EMBEDDING_PROVIDER_FACTORY": "tests.app.test_conf.provider"}
    assert ids() == []


def test_w011_a_folder_that_moves_with_the_one_a_process_starts_in(settings: Any) -> None:
    settings.CHARACTER_MEMORY = EMBEDDED | {"OXIGRAPH_PATH": "data/graph"}
    (message,) = found()
    assert message.id == "memory_app.W011"
    assert message.hint is not None
    assert "BASE_DIR / 'data/graph'" in message.hint
    settings.CHARACTER_MEMORY = EMBEDDED | {"STATISTICS": "core"}
    assert ids() == ["W011"]
    settings.CHARACTER_MEMORY = EMBEDDED | {"RETRIEVAL_STATS_PATH": "statistics.sqlite3"}
    assert ids() == [], "it is not used"


def test_e013_a_database_that_the_app_does_not_speak_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections["default"], "vendor", "mysql")
    (message,) = found()
    assert message.id == "memory_app.E013"
    assert "'default', which is mysql" in message.msg


def test_w012_rows_in_another_database_than_their_owners(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.DATABASE_ROUTERS = ["tests.repairs.world.Routed"]
    assert ids() == []
    monkeypatch.setattr(Routed, "alias", "elsewhere")
    (message,) = found()
    assert message.id == "memory_app.W012"
    assert "'elsewhere'" in message.msg


def test_w001_and_w002_speak_of_production_only(settings: Any) -> None:
    assert ids(deploy=True) == ["W001"]
    settings.CHARACTER_MEMORY = {"GRAPH_STORE_MODE": "in_memory", "VECTOR_STORE_PATH": "/stores/vectors"}
    assert ids(deploy=True) == ["W002", "W001"]
    assert ids() == []
    settings.DEBUG = True
    assert ids(deploy=True) == []
    settings.DEBUG, settings.CHARACTER_MEMORY = False, SERVICE
    assert ids(deploy=True) == []


@pytest.mark.parametrize("name", ["MEDIA_ROOT", "STATIC_ROOT"])
def test_w003_stores_that_the_web_server_serves(settings: Any, name: str) -> None:
    setattr(settings, name, "/stores")
    assert ids() == ["W003", "W003"]
    setattr(settings, name, "/store")
    assert ids() == []


@pytest.mark.parametrize(
    ("broker", "visible", "limit", "expected"),
    [
        ("redis://broker", 400, 300, ["W005"]),
        ("rediss://broker", 400, None, ["W005"]),
        ("redis://broker", 600, 300, []),
        ("redis://broker", None, 300, []),
        ("amqp://broker", 10, 300, []),
    ],
)
def test_w005_a_broker_that_hands_tasks_out_twice(
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    broker: str,
    visible: int | None,
    limit: int | None,
    expected: list[str],
) -> None:
    settings.CHARACTER_MEMORY = SERVICE
    options = {} if visible is None else {"visibility_timeout": visible}
    conf = SimpleNamespace(broker_url=broker, broker_transport_options=options, task_time_limit=limit)
    loaded = SimpleNamespace(current_app=SimpleNamespace(conf=conf), __spec__=object())
    monkeypatch.setitem(sys.modules, "celery", loaded)
    assert ids() == expected
    settings.CHARACTER_MEMORY = EMBEDDED
    assert ids() == []


def test_w009_migrations_that_cannot_be_put_in_order(
    settings: Any, transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_migrations(*given: Any) -> None:
        raise ValueError("Dependency on app with no migrations: people")

    monkeypatch.setattr("django.db.migrations.executor.MigrationExecutor", without_migrations)
    (message,) = found(databases=["default"])
    assert message.id == "memory_app.W009"
    assert "no migrations: people" in message.msg


def test_w008_and_w009_ask_the_database_and_only_when_told_to(
    settings: Any, transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ids(databases=["default"]) == []
    settings.CHARACTER_MEMORY = SERVICE
    assert ids() == []
    assert ids(databases=["default"]) == (["W008"] if connection.vendor == "sqlite" else [])
    settings.CHARACTER_MEMORY = EMBEDDED
    call_command("migrate", "memory_app", "zero", fake=True, verbosity=0)
    try:
        (missing,) = found(databases=["default"])
        assert missing.id == "memory_app.W009"
        assert "memory_app.0001_initial" in missing.msg
        monkeypatch.setattr(sys, "argv", ["manage.py", "migrate"])
        assert ids(databases=["default"]) == []
    finally:
        call_command("migrate", "memory_app", fake=True, verbosity=0)


# --- addresses ---


def urlconf(*patterns: Any) -> ModuleType:
    made = ModuleType("urls")
    made.urlpatterns = patterns  # type: ignore[attr-defined]
    return made


def test_addresses_behind_the_api_under_its_prefix_are_hidden(settings: Any) -> None:
    ours, shops = path("api/v1/", include("memory_app.urls")), path("api/v1/shops", not_found)
    settings.ROOT_URLCONF = urlconf(ours, shops, path("api/v2/shops", not_found))
    (message,) = found()
    assert message.id == "memory_app.W013"
    assert "'api/v1/shops'" in message.msg and "api/v2" not in message.msg
    settings.ROOT_URLCONF = urlconf(shops, ours)
    assert ids() == []


def test_they_are_found_at_the_root_and_deep_in_a_project(settings: Any) -> None:
    everything = path("", include("memory_app.urls"))
    inner = [path("memory/", include([everything, path("shops", not_found)]))]
    settings.ROOT_URLCONF = urlconf(path("<slug:tenant>/", include(inner)))
    (message,) = found()
    assert "'<slug:tenant>/memory/shops'" in message.msg
