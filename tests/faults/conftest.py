from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from charactermemory.testing.servers import OxigraphServer
from memory_app import runtime
from tests.faults import world
from tests.faults.world import NUMBERS, Deployment
from tests.repairs.world import Clock
from tests.support.qdrant_stub import QdrantStub


@pytest.fixture(scope="module")
def stub() -> Iterator[QdrantStub]:
    with QdrantStub() as stub:
        yield stub


@pytest.fixture
def deployment(
    oxigraph_server: OxigraphServer, stub: QdrantStub, tmp_path: Path, settings: Any, monkeypatch: Any
) -> Iterator[Deployment]:
    """A memory with its grounds, everything derived; ask for a database fixture before it."""
    settings.CHARACTER_MEMORY = {
        "GRAPH_STORE_MODE": "service",
        "OXIGRAPH_URL": oxigraph_server.url,
        "VECTOR_STORE_MODE": "service",
        "QDRANT_CONNECTION_STRING": stub.url,
        "WRITER_LOCK_PATH": str(tmp_path / "locks"),
        "EMBEDDING_PROVIDER_FACTORY": "tests.faults.world.embedding_provider",
        "DISPATCH": "none",
    }
    monkeypatch.setattr(world, "provider", world.Provider())
    clock = Clock()
    monkeypatch.setattr("memory_app.observed.database_now", clock)
    memory = runtime.open_memory(f"faults-{next(NUMBERS)}", clock=clock)
    assert memory.commit(world.grounds()).complete
    yield Deployment(memory, oxigraph_server, stub, clock)
    memory.close()
    runtime.close_memories()
