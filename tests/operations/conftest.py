from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from charactermemory import CharacterMemory
from memory_app import runtime

Manage = Callable[..., Any]


@pytest.fixture
def mapping(tmp_path: Path, settings: Any, db: None, monkeypatch: Any) -> Iterator[dict[str, Any]]:
    """CHARACTER_MEMORY with embedded stores of the test's own; what was opened is closed at the end."""
    settings.CHARACTER_MEMORY = {
        "OXIGRAPH_PATH": str(tmp_path / "oxigraph"),
        "VECTOR_STORE_PATH": str(tmp_path / "vectors"),
        "RETRIEVAL_STATS_PATH": str(tmp_path / "statistics.sqlite3"),
        "EMBEDDING_PROVIDER": "hashing",
    }
    monkeypatch.setattr("memory_app.repairs.dispatch._configured", lambda: "none")
    yield settings.CHARACTER_MEMORY
    runtime.close_memories()


@pytest.fixture
def shed(mapping: dict[str, Any]) -> CharacterMemory:
    """A memory with utterances, one of them forgotten."""
    from tests.revise.drafts import forgetting

    memory = runtime.get_memory("shed")
    for text in (
        "The harmonium lacks a reed.",
        'Robin said: "number\nthe reeds" \\ 🎹',
        "The bellows leaks.",
    ):
        last = memory.remember(text)
    memory.forget(forgetting(last.persisted_object_ids[0]))
    return memory


@pytest.fixture
def manage(mapping: dict[str, Any]) -> Manage:
    """`manage("memory_verify", json=True)`: the JSON document; otherwise the lines on stdout."""

    def manage(*arguments: Any, fails: bool = False, **options: Any) -> Any:
        out = StringIO()
        problem = None
        try:
            call_command(*arguments, stdout=out, stderr=StringIO(), **options)
        except CommandError as error:
            problem = str(error)
        assert (problem is not None) == fails, problem
        text = out.getvalue()
        answer = json.loads(text) if options.get("json") and text else text
        return (answer, problem) if fails else answer

    return manage
