"""From embedded stores to servers: export, import, verify; the index and the statistics are made anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.apps import apps

from charactermemory import RetrievalContext
from charactermemory.testing.servers import OxigraphServer
from memory_app import operations, runtime
from memory_app.models import MemoryCollection, MemoryState
from tests.faults.world import OPERATIONS, grounds
from tests.support.qdrant_stub import QdrantStub

NAME = "moving"
QUESTIONS = ("Which animal is Mimi?", "Was the ferry late?", "beans")


@pytest.mark.django_db
def test_a_memory_moves_to_servers_and_recalls_there_what_it_recalled(
    tmp_path: Path, settings: Any, oxigraph_server: OxigraphServer
) -> None:
    common = {"EMBEDDING_PROVIDER": "hashing", "DISPATCH": "none"}
    embedded = {"OXIGRAPH_PATH": str(tmp_path / "graph"), "VECTOR_STORE_PATH": str(tmp_path / "vectors")}
    settings.CHARACTER_MEMORY = {**common, **embedded}
    memory = runtime.get_memory(NAME)
    memory.commit(grounds())
    for operation in OPERATIONS.values():
        operation(memory)
    asked = [RetrievalContext(topic=question) for question in QUESTIONS]
    before = [memory.retrieve(context).pack for context in asked]
    assert all(pack.admissions for pack in before)
    operations.exporting.export(NAME, tmp_path / "export")
    runtime.close_memories()
    for model in apps.get_app_config("memory_app").get_models():  # another database
        model._default_manager.all().delete()
    assert not MemoryState.objects.exists()

    with QdrantStub() as stub:
        settings.CHARACTER_MEMORY = {
            **common,
            "GRAPH_STORE_MODE": "service",
            "OXIGRAPH_URL": oxigraph_server.url,
            "VECTOR_STORE_MODE": "service",
            "QDRANT_CONNECTION_STRING": stub.url,
            "WRITER_LOCK_PATH": str(tmp_path / "locks"),
        }
        imported = operations.importing.import_export(tmp_path / "export" / f"{NAME}.manifest.json")
        assert imported.complete
        moved = runtime.get_memory(NAME)
        assert moved.upkeep.verify().differences == 0
        assert [moved.retrieve(context).pack for context in asked] == before
        assert MemoryCollection.objects.get().name == NAME
        runtime.close_memories()
