"""Fixtures of recall's tests."""

from collections.abc import Callable
from pathlib import Path

import pytest

from charactermemory import CharacterMemory
from tests.recall.world import World


@pytest.fixture
def world() -> World:
    """An empty collection."""
    return World()


@pytest.fixture
def open_memory(tmp_path: Path) -> Callable[[], CharacterMemory]:
    """Open a memory of its own on embedded stores, with the bundled embedder."""

    def opened() -> CharacterMemory:
        return CharacterMemory.open(
            {
                "OXIGRAPH_PATH": str(tmp_path / "graph"),
                "VECTOR_STORE_PATH": str(tmp_path / "vectors"),
                "RETRIEVAL_STATS_PATH": str(tmp_path / "statistics.sqlite3"),
                "EMBEDDING_PROVIDER": "wordllama",
            },
            "recall",
        )

    return opened
