from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.repairs.world import COLLECTION, Clock, Provider, Routed, World


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def queued(database: str, settings: Any, monkeypatch: Any) -> str:
    """The alias of the database that has the queue: SQLite, then PostgreSQL."""
    monkeypatch.setattr(Routed, "alias", database)
    settings.DATABASE_ROUTERS = ["tests.repairs.world.Routed"]
    return database


@pytest.fixture
def world(tmp_path: Path, db: None, clock: Clock, settings: Any, monkeypatch: Any) -> Iterator[World]:
    """An observed memory on a real graph and index, its queue, and an embedding provider that does as told."""
    settings.CHARACTER_MEMORY = {
        "GRAPH_STORE_MODE": "in_memory",
        "VECTOR_STORE_PATH": str(tmp_path / "vectors"),
        "RETRIEVAL_STATS_STORE_MODE": "in_memory",
        "EMBEDDING_PROVIDER": "hashing",
    }
    monkeypatch.setattr("memory_app.repairs.dispatch._configured", lambda: "none")
    monkeypatch.setattr("memory_app.observed.database_now", clock)
    made = World(settings.CHARACTER_MEMORY, COLLECTION, Provider(), clock)
    yield made
    made.memory.close()
