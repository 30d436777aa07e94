"""docs/deployment.md speaks of what is there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from django.apps import apps
from django.core.management import get_commands

from config.environment import memory_settings
from memory_app import tasks
from memory_app.conf import known_keys
from memory_app.models import (
    EntityEdge,
    EntityRelationCount,
    GlobalRelationCount,
    MemoryState,
    StatisticsHealth,
    WriterLease,
)
from memory_app.schedule import BEAT_SCHEDULE, TASK_ROUTES
from tests.deployment.test_compose import DOCKERFILE, ENVIRONMENT, SERVICES

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "deployment.md").read_text(encoding="utf-8")
OF_DJANGO = {"ATOMIC_REQUESTS", "SECURE_PROXY_SSL_HEADER", "CSRF_TRUSTED_ORIGINS"}


def test_its_commands_exist_with_the_options_it_names() -> None:
    commands = get_commands()
    from django.core.management import load_command_class

    for name, rest in re.findall(r"manage\.py\s+(\w+)([^`\n#]*)", TEXT):
        assert name in commands, name
        parser = load_command_class(commands[name], name).create_parser("manage.py", name)
        for option in re.findall(r"(--[\w-]+)", rest):
            assert option in parser._option_string_actions, f"{name} {option}"


def test_its_settings_and_variables_are_known() -> None:
    schedule = {"CELERY_SETTINGS", "TASK_ROUTES"}
    known = known_keys() | ENVIRONMENT.keys() | OF_DJANGO | schedule | {"DATA_DIR", "CHARACTER_MEMORY"}
    named = set(re.findall(r"`([A-Z][A-Z_]{3,})(?:/\w+)?`", TEXT))
    assert {"OXIGRAPH_URL", "REPAIR_LEASE_SECONDS", "POSTGRES_DB"} <= named
    assert named - {"NAME"} <= known
    assert memory_settings(ENVIRONMENT, Path("/data")).keys() <= known


def test_its_tasks_and_their_times_are_those_of_the_schedule() -> None:
    rows = dict(re.findall(r"^\| `(memory_app\.[\w.]+)` \| every ([\w ]*\w)", TEXT, re.MULTILINE))
    assert rows == {"memory_app.repair.sweep": "30 s", "memory_app.repair.prune": "day"}
    seconds = {entry["task"]: entry["schedule"] for entry in BEAT_SCHEDULE.values()}
    assert seconds == {"memory_app.repair.sweep": 30, "memory_app.repair.prune": 24 * 3600}
    assert tasks.run.name == "memory_app.repair.run"


def test_its_example_adds_to_the_celery_settings_of_a_project() -> None:
    (example,) = re.findall(r"```python\n(from memory_app\.schedule.+?)```", TEXT, re.DOTALL)
    made: dict[str, Any] = {}
    exec(compile(example, "deployment.md", "exec"), made)
    assert made["CELERY_BEAT_SCHEDULE"].keys() == {*BEAT_SCHEDULE, "shop.invoices"}
    assert made["CELERY_TASK_ROUTES"].items() > TASK_ROUTES.items()


def test_its_ports_are_those_of_the_compose_file() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (\d+) \|", TEXT, re.MULTILINE))
    assert rows == {"web": "8000", "postgres": "5432", "redis": "6379", "qdrant": "6333", "oxigraph": "7878"}
    assert SERVICES["web"]["ports"] == ["127.0.0.1:8000:8000"]
    assert {name for name, service in SERVICES.items() if "ports" in service} == {"web"}
    addresses = " ".join(ENVIRONMENT.values())
    for name in ("redis", "qdrant", "oxigraph"):
        assert f"{name}:{rows[name]}" in addresses
    assert "EXPOSE 8000" in DOCKERFILE and "EXPOSE 7878" in DOCKERFILE


def test_erasing_names_every_table_that_keeps_rows_of_a_collection() -> None:
    section = TEXT.partition("## Erasing a memory")[2].partition("\n## ")[0]
    emptied = {
        EntityEdge,
        EntityRelationCount,
        GlobalRelationCount,
        MemoryState,
        StatisticsHealth,
        WriterLease,
    }
    models = set(apps.get_app_config("memory_app").get_models()) - emptied
    keeping = {model for model in models if "collection" in {field.name for field in model._meta.fields}}
    assert {model.__name__ for model in keeping} >= {"ExternalKey", "RepairMarker"}
    for model in keeping:
        assert f"`{model.__name__}`" in section, model
