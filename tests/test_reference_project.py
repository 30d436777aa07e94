"""What the reference project makes of the environment, and that Django accepts it."""

import importlib
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.test import Client

import config
from config.environment import flag, make_folder, memory_settings, secret_key


def test_without_variables_the_embedded_stores_lie_under_the_data_folder(tmp_path: Path) -> None:
    made = memory_settings({"PATH": "/bin", "LANGUAGE": "de:en"}, tmp_path)
    assert made == {
        "OXIGRAPH_PATH": str(tmp_path / "oxigraph"),
        "VECTOR_STORE_PATH": str(tmp_path / "vectors"),
        "RETRIEVAL_STATS_PATH": str(tmp_path / "retrieval-stats.sqlite3"),
    }


def test_set_variables_win_empty_ones_do_not_count(tmp_path: Path) -> None:
    given = {
        "GRAPH_STORE_MODE": "service",
        "OXIGRAPH_PATH": "/elsewhere",
        "VECTOR_STORE_PATH": "",
        "RETRIEVAL_FANOUT_INVOLVES_EPISODE_MAX": "7",
        "FENCE_SECRET": "mine",
    }
    made = memory_settings(given | {"MEMORY_LANGUAGE": "german", "OPENAI_API_KEY": ""}, tmp_path)
    expected = given | {
        "LANGUAGE": "german",
        "VECTOR_STORE_PATH": str(tmp_path / "vectors"),
        "RETRIEVAL_STATS_PATH": str(tmp_path / "retrieval-stats.sqlite3"),
    }
    assert made == expected


def test_a_folder_that_cannot_be_used_is_named_with_the_variable_for_another(tmp_path: Path) -> None:
    taken = tmp_path / "data"
    taken.write_text("a file")
    with pytest.raises(ImproperlyConfigured, match=r"data cannot be used: .*Set DATA_DIR"):
        secret_key({}, taken / "secret-key")
    with pytest.raises(ImproperlyConfigured, match=r"data cannot be used: .*Set DATA_DIR"):
        make_folder(taken)


def test_a_secret_key_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "data" / "secret-key"
    key = secret_key({}, path)
    assert len(key) >= 50
    assert secret_key({}, path) == key
    assert secret_key({"DJANGO_SECRET_KEY": "given"}, path) == "given"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_processes_starting_together_agree_on_one_secret_key(tmp_path: Path) -> None:
    path = tmp_path / "secret-key"
    start = threading.Barrier(8)
    keys: list[str] = []

    def make() -> None:
        start.wait()
        keys.append(secret_key({}, path))

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(keys) == 8
    assert len(set(keys)) == 1


def test_a_switch_is_one_or_zero_and_nothing_else() -> None:
    assert [flag({"X": "1"}, "X"), flag({"X": "0"}, "X"), flag({"X": ""}, "X"), flag({}, "X")] == [
        True,
        False,
        False,
        False,
    ]
    with pytest.raises(ValueError, match="X must be 0 or 1, not 'true'"):
        flag({"X": "true"}, "X")


def test_django_accepts_the_project_and_no_migration_is_missing(db: None) -> None:
    call_command("check")
    call_command("makemigrations", check=True, dry_run=True)
    assert settings.DEBUG is False


@pytest.mark.parametrize("name", ["config.wsgi", "config.asgi", "config.celery", "config.gunicorn"])
def test_entry_points_load(name: str) -> None:
    importlib.import_module(name)


def test_every_process_sends_by_the_projects_celery_application_with_the_apps_settings() -> None:
    from celery import current_app

    from memory_app.schedule import BEAT_SCHEDULE, WORKER_SETTINGS

    assert current_app.main == "config"
    assert {name: current_app.conf[name] for name in WORKER_SETTINGS} == WORKER_SETTINGS
    assert current_app.conf.beat_schedule == BEAT_SCHEDULE
    assert settings.CELERY_TASK_ROUTES == current_app.conf.task_routes


def test_health_answers_without_a_login(client: Client, db: None) -> None:
    assert client.get("/health/live/").json() == {"live": True}
    ready = client.get("/health/ready/")
    assert (ready.status_code, ready.json()["ready"]) == (200, True)


def test_the_collector_looks_seldom_in_every_process_of_the_project() -> None:
    """By itself as soon as anything of the project is imported, settings included."""
    code = "import gc, config.settings; print(*gc.get_threshold())"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert tuple(map(int, told.stdout.split())) == config.COLLECTOR_THRESHOLDS
    assert f"gc.set_threshold({', '.join(map('{:_}'.format, config.COLLECTOR_THRESHOLDS))})" in (
        Path("docs/deployment.md").read_text(encoding="utf-8")
    )
