"""docker-compose.yml starts what is there: commands that parse, variables that somebody reads, pinned images.

No container runs here.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import get_commands

from charactermemory.testing.servers import free_port
from config.environment import memory_settings
from memory_app import checks
from memory_app.conf import AppSettings
from tests.support.services import eventually

ROOT = Path(__file__).resolve().parents[2]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
EXAMPLE = dict(
    line.split("=", 1)
    for line in (ROOT / ".env.example").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
)
PROJECT = ("migrate", "web", "worker", "beat")


def filled_in(value: str) -> str:
    """What compose makes of a value with the example's file, whose secrets have been set."""

    def variable(match: re.Match[str]) -> str:
        name, kind, rest = match.groups()
        return EXAMPLE[name] or ("a secret" if kind == ":?" else rest or "")

    return re.sub(r"\$\{(\w+)(:[-?])?([^}]*)\}", variable, value)


ENVIRONMENT = {name: filled_in(value) for name, value in SERVICES["web"]["environment"].items()}


def test_it_is_the_production_row_with_health_checks_and_volumes() -> None:
    assert SERVICES.keys() == {*PROJECT, "redis", "postgres", "qdrant", "oxigraph"}
    assert {name for name, service in SERVICES.items() if "healthcheck" not in service} == {"migrate"}
    kept = {
        name: service["volumes"][0].split(":")[0]
        for name, service in SERVICES.items()
        if "volumes" in service
    }
    assert kept == {name: name for name in ("postgres", "qdrant", "oxigraph")}
    assert COMPOSE["volumes"].keys() == set(kept.values())


def test_images_are_pinned_and_what_is_built_can_be() -> None:
    stages = set(re.findall(r"^FROM \S+ AS (\w+)$", DOCKERFILE, re.MULTILINE))
    for service in SERVICES.values():
        assert re.fullmatch(r"[\w./-]+:v?\d+\.\d+(\.\d+)?(-\w+)?", service["image"]), service["image"]
        if "build" in service:
            assert service["build"]["target"] in stages
    for source in re.findall(r"^COPY ((?:[\w./-]+ )+)", DOCKERFILE, re.MULTILINE):
        for path in source.split():
            assert (ROOT / path).exists(), path


def test_the_images_have_the_pinned_versions() -> None:
    pinned = (ROOT / "requirements-dev.txt").read_text(encoding="utf-8")
    for package in re.findall(r"(?:pip install|\.txt) \"?(\w+)(?:\[binary\])?==", DOCKERFILE):
        version = re.search(rf"{package}(?:\[binary\])?==([\d.]+)", DOCKERFILE)
        assert version and f"\n{package}=={version[1]}\n" in pinned, package


def test_every_variable_is_read_by_somebody() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "config").glob("*.py"))
    read = set(re.findall(r"environ(?:\.get\(|\[)\"(\w+)\"", sources))
    read |= set(re.findall(r"environment(?:\.get\(|\[)\"(\w+)\"", sources))
    known = read | memory_settings(dict.fromkeys(ENVIRONMENT, "given"), Path("/data")).keys()
    for name in PROJECT:
        assert SERVICES[name]["environment"].keys() <= known


def test_what_it_asks_for_is_what_the_example_lists() -> None:
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    assert set(re.findall(r"\$\{(\w+)", text)) == EXAMPLE.keys()
    secrets = {"DJANGO_SECRET_KEY", "POSTGRES_PASSWORD", "FENCE_SECRET", "OPENAI_API_KEY"}
    assert all(EXAMPLE[name] == "" for name in secrets)
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert "/.env" in ignored


def test_the_app_accepts_its_settings(settings: Any) -> None:
    settings.CHARACTER_MEMORY = memory_settings(ENVIRONMENT, Path("/data"))
    read = AppSettings.from_mapping(settings.CHARACTER_MEMORY)
    assert (read.embedded, read.dispatch, read.statistics) == (False, "celery", "orm")
    found = [*checks.check_processes(), *checks.check_folders(), *checks.check_deployment()]
    assert found == []


def test_addresses_name_the_services_and_their_ports() -> None:
    hosts = {
        "OXIGRAPH_URL": "http://oxigraph:7878",
        "QDRANT_CONNECTION_STRING": "http://qdrant:6333",
        "CELERY_BROKER_URL": "redis://redis:6379/0",
        "POSTGRES_HOST": "postgres",
    }
    assert {name: ENVIRONMENT[name] for name in hosts} == hosts
    assert 'oxigraph-durable", "/store", "0.0.0.0:7878"' in DOCKERFILE
    database = SERVICES["postgres"]["environment"]
    assert {name: filled_in(value) for name, value in database.items()}.items() <= ENVIRONMENT.items()


@pytest.mark.parametrize("name", ["worker", "beat"])
def test_celery_understands_its_command(name: str) -> None:
    from celery.app.utils import find_app
    from celery.bin.base import CLIContext
    from celery.bin.celery import celery

    from config.celery import app

    program, *arguments = SERVICES[name]["command"]
    assert program == "celery"
    context = celery.make_context("celery", list(arguments))
    assert find_app(context.params["app"]) is app
    context.obj = CLIContext(app=app, no_color=True, workdir=None)
    found, command, rest = celery.resolve_command(context, [*context._protected_args, *context.args])
    assert found == name
    made = command.make_context(found, rest, parent=context)
    assert made.args == []
    queues = made.params.get("queues")
    assert queues in (None, ["memory_repair", "celery"])


def test_gunicorn_understands_its_command(tmp_path: Path) -> None:
    program, *arguments = SERVICES["web"]["command"]
    environment = {**os.environ, "DATA_DIR": str(tmp_path), "HOME": str(tmp_path)}
    command = [sys.executable, "-m", program, "--check-config", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_its_django_commands_exist() -> None:
    program, script, command, *_ = SERVICES["migrate"]["command"]
    assert (program, script) == ("python", "manage.py")
    assert command in get_commands()


def test_the_graph_is_served_by_its_script_and_written_through(tmp_path: Path) -> None:
    port = free_port()
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    command = [ROOT / "deploy" / "oxigraph.sh", tmp_path / "store", f"127.0.0.1:{port}"]
    process = subprocess.Popen(command, env={**os.environ, "PATH": path}, stderr=subprocess.PIPE, text=True)

    def answers() -> bool:
        connection = HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", "/")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    try:
        eventually("the graph is served", answers)
        attributes = subprocess.run(["lsattr", tmp_path / "store"], capture_output=True, text=True)
    finally:
        process.terminate()
        _, said = process.communicate(timeout=30)
    if "WARNING" in said:
        assert "a power cut may lose acknowledged commits" in said
    else:
        flags = [line.split()[0] for line in attributes.stdout.splitlines()]
        assert flags and all("S" in found for found in flags)
