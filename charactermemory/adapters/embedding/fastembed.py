"""FastEmbed: ONNX sentence models (bge, MiniLM) from a local folder; an optional extra."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from charactermemory.adapters.embedding.checks import checked_batch, require_text, require_texts
from charactermemory.adapters.embedding.packages import require_package
from charactermemory.errors import OutOfDomain
from charactermemory.ports.embedding import Vector

_BATCH = 16
"""Texts per ONNX run; the library's 256 needs gigabytes for long texts."""


class FastEmbedEmbedding:
    """A model that FastEmbed supports, read from a local folder and never downloaded. Thread-safe.

    The package is imported when the vector size is first asked for, the model loaded on first use.
    Queries and passages are embedded alike, without the prefixes some models define for the two.
    """

    def __init__(self, model: str, path: Path) -> None:
        """Take the model's name in FastEmbed's list and the folder that holds its files.

        Raises:
            OutOfDomain: the extra is not installed, or `path` is no folder.
        """
        require_package("fastembed")
        if not path.is_dir():
            raise OutOfDomain(
                keys=("EMBEDDING_MODEL_PATH",), expected="a folder with the model's files", actual=str(path)
            )
        self._name = model
        self._path = path
        self._lock = Lock()
        self._model: Any = None
        self._size: int | None = None

    def __repr__(self) -> str:
        return f"FastEmbedEmbedding({self._name!r}, {self._path!r})"

    def fingerprint(self) -> str:
        """Return `fastembed:<model>:<dimension>`."""
        return f"fastembed:{self._name}:{self.vector_size()}"

    def vector_size(self) -> int:
        """Return the dimension FastEmbed lists for the model.

        Raises:
            OutOfDomain: FastEmbed does not know the model.
        """
        if self._size is None:
            from fastembed import TextEmbedding

            try:
                self._size = int(TextEmbedding.get_embedding_size(self._name))
            except ValueError:
                raise OutOfDomain(
                    keys=("EMBEDDING_MODEL",), expected="a text model that fastembed lists", actual=self._name
                ) from None
        return self._size

    def generate_embedding(self, text: str) -> Vector:
        """Embed one text.

        Raises:
            EmbeddingError: `blank_input`, or what is wrong with the vector.
        """
        require_text(text)
        return self._embed([text])[0]

    def bulk_generate_embeddings(self, texts: Sequence[str]) -> list[Vector]:
        """Embed many texts in their order.

        Raises:
            EmbeddingError: `blank_input` naming the index, or what is wrong with the vectors.
        """
        require_texts(texts)
        return self._embed(list(texts)) if texts else []

    def _embed(self, texts: list[str]) -> list[Vector]:
        size = self.vector_size()
        with self._lock:
            if self._model is None:
                self._model = self._load()
            rows = list(self._model.embed(texts, batch_size=_BATCH))
        return list(checked_batch(rows, len(texts), size))

    def _load(self) -> Any:
        from fastembed import TextEmbedding

        return TextEmbedding(
            model_name=self._name, specific_model_path=str(self._path), local_files_only=True
        )
