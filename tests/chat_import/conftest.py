from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from charactermemory import CharacterMemory

OpenMemory = Callable[..., CharacterMemory]
"""`open_memory(provider="hashing")`: the one memory of the test; opening it again closes it first."""


@pytest.fixture
def open_memory(tmp_path: Path) -> Iterator[OpenMemory]:
    stack = ExitStack()

    def open_memory(provider: str = "hashing") -> CharacterMemory:
        stack.close()
        settings = {
            "OXIGRAPH_PATH": str(tmp_path / "oxigraph"),
            "VECTOR_STORE_PATH": str(tmp_path / "vectors"),
            "RETRIEVAL_STATS_PATH": str(tmp_path / "statistics.sqlite3"),
            "EMBEDDING_PROVIDER": provider,
        }
        return stack.enter_context(CharacterMemory.open(settings, "chat"))

    yield open_memory
    stack.close()


@pytest.fixture
def memory(open_memory: OpenMemory) -> CharacterMemory:
    return open_memory()
