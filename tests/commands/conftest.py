from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

Manage = Callable[..., tuple[str, str]]
"""`manage("recall", "question", collection="c")`: what the command wrote to stdout and to stderr."""


@pytest.fixture
def mapping(tmp_path: Path, settings: Any, transactional_db: None) -> dict[str, str]:
    """CHARACTER_MEMORY with embedded stores of the test's own and an embedder that loads nothing."""
    settings.CHARACTER_MEMORY = {
        "OXIGRAPH_PATH": str(tmp_path / "oxigraph"),
        "VECTOR_STORE_PATH": str(tmp_path / "vectors"),
        "RETRIEVAL_STATS_PATH": str(tmp_path / "statistics.sqlite3"),
        "EMBEDDING_PROVIDER": "hashing",
    }
    return settings.CHARACTER_MEMORY


@pytest.fixture
def manage(mapping: dict[str, str]) -> Manage:
    def manage(*arguments: Any, **options: Any) -> tuple[str, str]:
        out, err = StringIO(), StringIO()
        call_command(*arguments, stdout=out, stderr=err, **options)
        return out.getvalue(), err.getvalue()

    return manage
