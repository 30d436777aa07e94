"""The examples of docs/history.md and docs/integrations.md run as they stand, with a server in the API's place."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from charactermemory.history import BaseAlgorithm, HistoryManager, MemoryStorage
from charactermemory.testing.openai_stub import OpenAIStub

DOCS = Path(__file__).parents[2] / "docs"


def run(page: str, number: int, **names: Any) -> dict[str, Any]:
    example = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)[number]
    exec(compile(example, page, "exec"), names)
    return names


@pytest.fixture(autouse=True)
def surroundings(stub: OpenAIStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", stub.url)
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    monkeypatch.chdir(tmp_path)


def test_the_chat_window(stub: OpenAIStub) -> None:
    names = run("history.md", 0)
    names["client"].close()
    assert [message.role for message in names["manager"].get_messages("ann")] == [
        "user",
        "assistant",
    ]
    names["manager"].storage.close()


def test_an_algorithm_of_ones_own() -> None:
    pinned = run("history.md", 1)["Pinned"]
    assert issubclass(pinned, BaseAlgorithm)
    manager = HistoryManager(MemoryStorage(), pinned(1))
    manager.create_thread(thread_id="ann")
    for text, metadata in (("one", {"pinned": True}), ("two", {}), ("three", {})):
        manager.add_message("ann", role="user", content=text, metadata=metadata)
    assert [message.content for message in manager.get_thread("ann").messages] == ["one", "three"]
    assert "last" in manager.get_thread("ann").metadata


def test_both_memories_in_one_client(stub: OpenAIStub) -> None:
    settings = {
        "OXIGRAPH_PATH": "graph",
        "VECTOR_STORE_PATH": "vectors",
        "EMBEDDING_PROVIDER": "hashing",
        "FENCE_SECRET": "secret",
    }
    names = run("integrations.md", 0, settings=settings)
    with names["memory"] as memory:
        names["client"].close()
        found = memory.retrieve("Miso the cat").pack.salient_observations
        assert "My cat is Miso." in [observation.text for observation in found]
    names["manager"].storage.close()
