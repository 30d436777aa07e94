"""What hosts test with: memories of the test's own, and the example that shows them."""

from __future__ import annotations

import re
import unittest
from pathlib import Path
from typing import Any

import pytest

from memory_app.runtime import get_memory, open_collections
from memory_app.testing import temporary_memories

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"


@pytest.fixture(autouse=True)
def hosts(tmp_path: Path, settings: Any) -> Path:
    """Settings of a host whose memories no test may touch."""
    settings.CHARACTER_MEMORY = {
        "GRAPH_STORE_MODE": "service",
        "OXIGRAPH_URL": "http://127.0.0.1:9",
        "VECTOR_STORE_MODE": "service",
        "QDRANT_CONNECTION_STRING": "http://127.0.0.1:9",
        "EMBEDDING_PROVIDER": "openai",
        "EMBEDDING_MODEL": "text-embedding-3-small",
        "OPENAI_API_KEY": "key",
        "LANGUAGE": "german",
    }
    return tmp_path


@pytest.mark.django_db
def test_memories_begin_empty_leave_nothing_and_keep_the_hosts_other_settings(settings: Any) -> None:
    before = settings.CHARACTER_MEMORY
    for _ in range(2):
        with temporary_memories(EMBEDDING_PROVIDER="hashing"):
            memory = get_memory("ada")
            assert memory.settings.language == "german"
            assert memory.retrieve("kettle").pack.salient_observations == ()
            memory.remember("The kettle whistles.")
            assert len(memory.retrieve("kettle").pack.salient_observations) == 1
            folder = Path(str(memory.settings.vector_store_path))
            assert folder.is_dir()
        assert memory.closed and open_collections() == () and not folder.exists()
    assert settings.CHARACTER_MEMORY == before


@pytest.mark.django_db
def test_the_example_of_the_page_passes() -> None:
    (example,) = re.findall(r"```python\n(from django\.test.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(example, str(PAGE), "exec"), names)
    result = unittest.defaultTestLoader.loadTestsFromTestCase(names["KettleTest"]).run(unittest.TestResult())
    assert result is not None
    assert (result.testsRun, result.errors, result.failures) == (1, [], [])
