from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pytest
from django.core.management import CommandError

from charactermemory.adapters.embedding.hashing import HashingEmbedding
from charactermemory.errors import CollectionIncompatible, EmbeddingError
from memory_app.runtime import open_memory
from tests.commands.conftest import Manage

pytestmark = pytest.mark.django_db


@pytest.fixture
def shed(mapping: dict[str, str]) -> dict[str, str]:
    """A memory of three utterances, indexed by the hashing embedder."""
    with open_memory("shed") as memory:
        for text in ("The harmonium lacks a reed.", "Robin numbered the reeds.", "The bellows leaks."):
            assert memory.remember(text).complete
    return mapping


def test_after_a_change_of_model_the_rebuilt_index_answers(shed: dict[str, str], manage: Manage) -> None:
    shed["EMBEDDING_PROVIDER"] = "wordllama"
    with pytest.raises(CollectionIncompatible):
        open_memory("shed")
    out, err = manage("memory_rebuild_vectors", collection="shed")
    assert out == "6 objects read; the new index of shed serves\n" and err == ""
    with open_memory("shed") as memory:
        found = memory.retrieve("Who numbered the reeds?").pack.salient_observations
        assert found[0].text == "Robin numbered the reeds."
        assert memory.upkeep.verify().differences == 0


def test_an_unknown_collection_is_refused_and_nothing_is_made(shed: dict[str, str], manage: Manage) -> None:
    with pytest.raises(CommandError, match="no collection is called 'house'; known: shed"):
        manage("memory_rebuild_vectors", collection="house")
    assert os.listdir(shed["OXIGRAPH_PATH"]) == ["shed"]


def test_objects_that_cannot_be_indexed_make_it_fail(
    shed: dict[str, str], manage: Manage, monkeypatch: pytest.MonkeyPatch
) -> None:
    embed = HashingEmbedding.bulk_generate_embeddings

    def refuse_one(self: HashingEmbedding, texts: Sequence[str]) -> Any:
        if any("bellows" in text for text in texts):
            raise EmbeddingError("unrecognized")
        return embed(self, texts)

    monkeypatch.setattr(HashingEmbedding, "bulk_generate_embeddings", refuse_one)
    with pytest.raises(
        CommandError, match=r"^1 of 6 objects could not be indexed \(observation .*next sweep"
    ):
        manage("memory_rebuild_vectors", collection="shed")
    monkeypatch.setattr(HashingEmbedding, "bulk_generate_embeddings", embed)
    with open_memory("shed") as memory:
        assert memory.upkeep.sweep().complete
        assert memory.upkeep.verify().differences == 0
