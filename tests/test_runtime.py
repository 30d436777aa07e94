"""One open memory per collection and process, opened when first asked for."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from charactermemory import CharacterMemory
from charactermemory.errors import OutOfDomain, StoreClosedError
from memory_app.runtime import close_memories, get_memory, known_collections


@pytest.fixture(autouse=True)
def mapping(tmp_path: Path, settings: Any) -> Iterator[dict[str, str]]:
    settings.CHARACTER_MEMORY = {
        "OXIGRAPH_PATH": str(tmp_path / "oxigraph"),
        "VECTOR_STORE_PATH": str(tmp_path / "vectors"),
        "RETRIEVAL_STATS_PATH": str(tmp_path / "statistics.sqlite3"),
        "EMBEDDING_PROVIDER": "hashing",
    }
    yield settings.CHARACTER_MEMORY
    close_memories()


def test_threads_share_the_one_memory_of_a_collection() -> None:
    start, found = threading.Barrier(8), []

    def ask() -> None:
        start.wait()
        found.append(get_memory("shed"))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and len(set(map(id, found))) == 1
    assert get_memory("kitchen") is not found[0]


def test_closing_releases_and_a_later_call_opens_anew() -> None:
    memory = get_memory("shed")
    memory.remember("The heater ticks.")
    close_memories()
    with pytest.raises(StoreClosedError):
        memory.retrieve("heater")
    again = get_memory("shed")
    assert again is not memory
    assert again.retrieve("heater").pack.salient_observations[0].text == "The heater ticks."


def test_a_bad_name_opens_nothing(mapping: dict[str, str]) -> None:
    with pytest.raises(OutOfDomain):
        get_memory("Not a name")
    assert not Path(mapping["OXIGRAPH_PATH"]).exists()


def test_known_are_the_embedded_collections_and_no_other_folder(mapping: dict[str, str]) -> None:
    assert known_collections(mapping) == ()
    for name in ("shed", "kitchen"):
        CharacterMemory.open(mapping, name).close()
    (Path(mapping["OXIGRAPH_PATH"]) / "lost+found").mkdir()
    assert known_collections(mapping) == ("kitchen", "shed")
    assert known_collections(mapping | {"GRAPH_STORE_MODE": "in_memory"}) is None
