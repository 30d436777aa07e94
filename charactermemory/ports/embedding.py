"""The embedding provider port: text in, vectors of one fixed size out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

Vector = Sequence[float]
"""One embedding: finite floats, as many as `EmbeddingProvider.vector_size()` says, not all zero."""


class EmbeddingProvider(Protocol):
    """Turns natural-language text into vectors. Implementations are thread-safe.

    Every failure is an `EmbeddingError` with its kind (memory-core §14); whatever else a foreign
    provider raises is taken as `EmbeddingError("unrecognized")` by the caller. Repairs wait for the error's
    `retry_after_seconds`, where it says how long the provider wants to be left alone.
    """

    def fingerprint(self) -> str:
        """Name provider, model and dimension, e.g. `wordllama:l2_supercat:256`; stable across processes.

        Stored beside the index: vectors of different fingerprints are never compared (DESIGN R7).
        """
        ...

    def vector_size(self) -> int:
        """Return the number of components of every vector; positive."""
        ...

    def generate_embedding(self, text: str) -> Vector:
        """Embed one text (recall queries).

        Raises:
            EmbeddingError: `blank_input` (index None) for blank text, or what went wrong.
        """
        ...

    def bulk_generate_embeddings(self, texts: Sequence[str]) -> list[Vector]:
        """Embed many texts; the result has their order and length, an empty list costs nothing.

        Raises:
            EmbeddingError: `blank_input` naming the index before anything is sent, or what went wrong.
        """
        ...
