"""Holds any provider to the port, so that the layers above need not check again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from charactermemory.adapters.embedding.checks import (
    checked_batch,
    checked_size,
    checked_vector,
    require_text,
    require_texts,
)
from charactermemory.adapters.embedding.disclosure import failure_text
from charactermemory.errors import EmbeddingError
from charactermemory.ports.embedding import EmbeddingProvider, Vector

_T = TypeVar("_T")


def guarded(provider: EmbeddingProvider) -> EmbeddingProvider:
    """Wrap a provider of any origin in the pre- and postconditions of the port.

    Its fingerprint and vector size are read once, here. Blank text and empty batches never reach it.
    Whatever `Exception` it raises that is no `EmbeddingError` becomes `EmbeddingError("unrecognized")`
    (decisions.md R7); a `KeyboardInterrupt` or other `BaseException` passes through.

    Raises:
        EmbeddingError: `invalid_vector_size`, or `unrecognized` for a blank fingerprint and for
            whatever the provider raised.
    """
    return _Guarded(provider)


class _Guarded:
    def __init__(self, provider: EmbeddingProvider) -> None:
        self._provider = provider
        self._size = checked_size(_call(provider.vector_size, ()))
        self._fingerprint = _call(provider.fingerprint, ())
        if not isinstance(self._fingerprint, str) or not self._fingerprint.strip():
            raise EmbeddingError(
                "unrecognized", "the provider's fingerprint must be a text that is not blank"
            )

    def __repr__(self) -> str:
        return f"guarded({self._provider!r})"

    def fingerprint(self) -> str:
        return self._fingerprint

    def vector_size(self) -> int:
        return self._size

    def generate_embedding(self, text: str) -> Vector:
        require_text(text)
        return _call(lambda: checked_vector(self._provider.generate_embedding(text), 0, self._size), (text,))

    def bulk_generate_embeddings(self, texts: Sequence[str]) -> list[Vector]:
        require_texts(texts)
        if not texts:
            return []
        rows = _call(
            lambda: checked_batch(self._provider.bulk_generate_embeddings(texts), len(texts), self._size),
            texts,
        )
        return list(rows)


def _call(ask: Callable[[], _T], private: Sequence[str]) -> _T:
    """Run one foreign call; reading its result counts as part of it, an array may fail at that too."""
    try:
        return ask()
    except EmbeddingError:
        raise
    except Exception as error:
        detail = failure_text(error, private)
    # Raised outside the handler: a chained foreign error would carry its message, and perhaps the text
    # in it, into every log that prints the traceback.
    raise EmbeddingError("unrecognized", detail)
