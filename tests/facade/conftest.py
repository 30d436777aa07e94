"""Memories opened the way a host opens them: from settings, by `CharacterMemory.open`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from charactermemory.memory import CharacterMemory

Open = Callable[..., CharacterMemory]


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, object]:
    """Everything on disk below the test's folder, and embeddings that cost nothing."""
    return {
        "OXIGRAPH_PATH": str(tmp_path / "stores" / "graph"),
        "VECTOR_STORE_PATH": str(tmp_path / "stores" / "vectors"),
        "RETRIEVAL_STATS_PATH": str(tmp_path / "stores" / "statistics.sqlite3"),
        "WRITER_LOCK_PATH": str(tmp_path / "stores" / "locks"),
        "EMBEDDING_PROVIDER": "hashing",
    }


@pytest.fixture
def open_memory(settings: dict[str, object]) -> Iterator[Open]:
    """Open memories with changes to the settings; None leaves a key out. All are closed at the end."""
    opened: list[CharacterMemory] = []

    def open_one(
        name: str = "ada", changes: dict[str, object] | None = None, **options: Any
    ) -> CharacterMemory:
        values = {key: value for key, value in (settings | (changes or {})).items() if value is not None}
        opened.append(CharacterMemory.open(values, name, **options))
        return opened[-1]

    yield open_one
    for memory in opened:
        memory.close()
