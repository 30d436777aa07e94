"""The databases of the tests: SQLite in a file, and PostgreSQL where it is installed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.apps import apps
from django.core.management import call_command
from django.db import connections

from tests.support.postgres import PostgresServer, programs

POSTGRES = "postgres"
"""Alias of the PostgreSQL database, there while a test uses `postgres`."""


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    tmp_path_factory: pytest.TempPathFactory, django_db_modify_db_settings_parallel_suffix: None
) -> None:
    """Keep Django's SQLite test database in a file: one in memory cannot be used by two threads at once.

    And no connection beyond its request, for nobody closes those of threads that have ended.
    """
    settings = connections["default"].settings_dict
    settings["CONN_MAX_AGE"] = 0
    if settings["ENGINE"].endswith("sqlite3"):
        settings["TEST"]["NAME"] = str(tmp_path_factory.mktemp("database") / "test.sqlite3")


@pytest.fixture(scope="session")
def postgres_server(django_db_blocker: Any) -> Iterator[PostgresServer]:
    """A cluster with the app's tables."""
    binaries = programs()
    if binaries is None:
        pytest.skip("PostgreSQL is not installed (apt-get install postgresql)")
    server = PostgresServer(binaries)
    try:
        with django_db_blocker.unblock(), _known(server):
            call_command("migrate", database=POSTGRES, verbosity=0)
        yield server
    finally:
        server.stop()


@pytest.fixture
def postgres(postgres_server: PostgresServer, django_db_blocker: Any) -> Iterator[str]:
    """The alias of a PostgreSQL database without rows of the app's, and no transaction around the test."""
    with django_db_blocker.unblock(), _known(postgres_server):
        yield POSTGRES
        for model in apps.get_app_config("memory_app").get_models():
            model._default_manager.using(POSTGRES).all().delete()


@contextmanager
def _known(server: PostgresServer) -> Iterator[None]:
    """Tell Django of the database for a while; a Django test case refuses every database it finds and was
    not told of before.
    """
    before = connections.settings
    connections.settings = connections.configure_settings({**before, POSTGRES: server.settings})
    try:
        yield
    finally:
        connections[POSTGRES].close()
        del connections[POSTGRES]
        connections.settings = before


@pytest.fixture(params=["default", POSTGRES])
def database(request: pytest.FixtureRequest, transactional_db: None) -> str:
    """The alias of an empty database, first the default one and then PostgreSQL."""
    if request.param == POSTGRES:
        request.getfixturevalue(POSTGRES)
    return str(request.param)


@pytest.fixture
def on_sqlite() -> None:
    """For what is said of SQLite alone, where the tests' database is another (`POSTGRES_DB` and the like)."""
    if connections["default"].vendor != "sqlite":
        pytest.skip("said of SQLite")


@pytest.fixture
def closing_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close what a thread of the test opened, as a server does when a request ends; async code has one thread."""
    run = threading.Thread.run

    def run_and_close(thread: threading.Thread) -> None:
        try:
            run(thread)
        finally:
            connections.close_all()

    monkeypatch.setattr(threading.Thread, "run", run_and_close)
    yield
    asyncio.run(sync_to_async(connections.close_all)())
