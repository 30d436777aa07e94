"""The FastEmbed provider against a stand-in for the optional package."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy
import pytest

from charactermemory.adapters.embedding import FastEmbedEmbedding
from charactermemory.errors import EmbeddingError, OutOfDomain


class TextEmbedding:
    """The part of fastembed 0.9's class that the provider uses."""

    built: list[dict[str, Any]] = []
    size = 2

    @classmethod
    def get_embedding_size(cls, model_name: str) -> int:
        if model_name != "BAAI/bge-small-en-v1.5":
            raise ValueError("not listed")
        return 2

    def __init__(self, **settings: Any) -> None:
        self.built.append(settings)

    def embed(self, documents: list[str], batch_size: int) -> Iterator[Any]:
        for text in documents:
            yield numpy.array([len(text)] * self.size, dtype=numpy.float32)


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> type[TextEmbedding]:
    module = ModuleType("fastembed")
    module.TextEmbedding = TextEmbedding  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "fastembed", module)
    monkeypatch.setattr("charactermemory.adapters.embedding.packages.find_spec", lambda name: object())
    monkeypatch.setattr(TextEmbedding, "built", [])
    return TextEmbedding


def test_a_missing_extra_is_said_at_construction(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("charactermemory.adapters.embedding.packages.find_spec", lambda name: None)
    with pytest.raises(OutOfDomain) as caught:
        FastEmbedEmbedding("BAAI/bge-small-en-v1.5", tmp_path)
    assert caught.value.keys == ("EMBEDDING_PROVIDER",)
    assert "pip install 'django-character-memory[fastembed]'" in str(caught.value)


@pytest.mark.usefixtures("package")
def test_a_path_that_is_no_folder_is_refused_at_construction(tmp_path: Path) -> None:
    with pytest.raises(OutOfDomain) as caught:
        FastEmbedEmbedding("BAAI/bge-small-en-v1.5", tmp_path / "absent")
    assert (caught.value.keys, caught.value.actual) == (("EMBEDDING_MODEL_PATH",), str(tmp_path / "absent"))


@pytest.mark.usefixtures("package")
def test_an_unknown_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OutOfDomain) as caught:
        FastEmbedEmbedding("no/such-model", tmp_path).vector_size()
    assert (caught.value.keys, caught.value.actual) == (("EMBEDDING_MODEL",), "no/such-model")


def test_the_model_is_loaded_once_from_the_folder_and_never_downloaded(
    package: type[TextEmbedding], tmp_path: Path
) -> None:
    provider = FastEmbedEmbedding("BAAI/bge-small-en-v1.5", tmp_path)
    assert (provider.vector_size(), provider.fingerprint()) == (2, "fastembed:BAAI/bge-small-en-v1.5:2")
    assert package.built == []
    assert provider.bulk_generate_embeddings(["a", "bcd"]) == [[1.0, 1.0], [3.0, 3.0]]
    assert provider.generate_embedding("four") == [4.0, 4.0]
    assert package.built == [
        {
            "model_name": "BAAI/bge-small-en-v1.5",
            "specific_model_path": str(tmp_path),
            "local_files_only": True,
        }
    ]


def test_blank_text_and_empty_batches_load_nothing(package: type[TextEmbedding], tmp_path: Path) -> None:
    provider = FastEmbedEmbedding("BAAI/bge-small-en-v1.5", tmp_path)
    with pytest.raises(EmbeddingError) as single:
        provider.generate_embedding(" ")
    with pytest.raises(EmbeddingError) as batch:
        provider.bulk_generate_embeddings(["a", "\n"])
    assert (single.value.kind, single.value.details) == ("blank_input", ())
    assert (batch.value.kind, batch.value.details) == ("blank_input", (("index", 1),))
    assert provider.bulk_generate_embeddings([]) == []
    assert package.built == []


def test_a_folder_with_another_models_files_is_noticed(
    package: type[TextEmbedding], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package, "size", 3)
    with pytest.raises(EmbeddingError) as caught:
        FastEmbedEmbedding("BAAI/bge-small-en-v1.5", tmp_path).generate_embedding("x")
    assert (caught.value.kind, dict(caught.value.details)) == (
        "dimension_mismatch",
        {"index": 0, "expected": 2, "actual": 3},
    )
