from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from charactermemory import CharacterMemory
from memory_app.quickstart.living import LifeClock, live
from memory_app.sample.life import SampleLife
from memory_app.sample.loader import load_life


def mapping(folder: Path, provider: str = "wordllama") -> dict[str, str]:
    return {
        "OXIGRAPH_PATH": str(folder / "oxigraph"),
        "VECTOR_STORE_PATH": str(folder / "vectors"),
        "RETRIEVAL_STATS_PATH": str(folder / "statistics.sqlite3"),
        "EMBEDDING_PROVIDER": provider,
    }


@pytest.fixture(scope="session")
def life() -> SampleLife:
    return load_life()


@pytest.fixture(scope="session")
def lived(life: SampleLife, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CharacterMemory]:
    """A memory of the whole life; only read."""
    clock = LifeClock(life.beginning.time)
    with CharacterMemory.open(mapping(tmp_path_factory.mktemp("lived")), "mees", clock=clock) as memory:
        live(memory, life, clock)
        yield memory
