"""A story on embedded stores, with the bundled embedder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from charactermemory import CharacterMemory
from tests.scenarios.story import Story


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    """A memory that nothing was told yet."""

    def reopen() -> CharacterMemory:
        return CharacterMemory.open(
            {
                "OXIGRAPH_PATH": str(tmp_path / "graph"),
                "VECTOR_STORE_PATH": str(tmp_path / "vectors"),
                "RETRIEVAL_STATS_PATH": str(tmp_path / "statistics.sqlite3"),
                "EMBEDDING_PROVIDER": "wordllama",
                "FENCE_SECRET": "known to nobody in these stories",
            },
            "story",
        )

    told = Story(reopen)
    yield told
    told.close()
