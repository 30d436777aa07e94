"""Remembers the embeddings of recent queries: the same question is often asked twice in a row."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from threading import Lock

from charactermemory.ports.embedding import EmbeddingProvider, Vector

DEFAULT_CAPACITY = 64
"""Queries kept for each memory, of which a process may have hundreds; at 1,536 components of 8 bytes 0.8 MB."""


class CachedQueries:
    """A provider whose single-text embeddings are kept, least recently used first out.

    The key is a digest of the text, so no query text stays in memory. Batches (indexing) pass by, and a
    failure is not kept. Thread-safe; two threads that ask for one new text may both reach the provider.
    """

    def __init__(self, provider: EmbeddingProvider, capacity: int = DEFAULT_CAPACITY) -> None:
        """Wrap `provider`; `capacity` is the number of queries kept, at least 1."""
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1, got {capacity}")
        self._provider = provider
        self._capacity = capacity
        self._lock = Lock()
        self._kept: OrderedDict[bytes, array[float]] = OrderedDict()

    def __repr__(self) -> str:
        return f"CachedQueries({self._provider!r}, capacity={self._capacity})"

    def fingerprint(self) -> str:
        """Return the wrapped provider's fingerprint."""
        return self._provider.fingerprint()

    def vector_size(self) -> int:
        """Return the wrapped provider's vector size."""
        return self._provider.vector_size()

    def generate_embedding(self, text: str) -> Vector:
        """Return the kept embedding of `text`, or ask the provider and keep it.

        Raises:
            EmbeddingError: as the provider does.
        """
        key = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None:
                self._kept.move_to_end(key)
                return kept.tolist()
        vector = self._provider.generate_embedding(text)
        with self._lock:
            self._kept[key] = array("d", vector)
            self._kept.move_to_end(key)
            if len(self._kept) > self._capacity:
                self._kept.popitem(last=False)
        return vector

    def bulk_generate_embeddings(self, texts: Sequence[str]) -> list[Vector]:
        """Pass the batch to the provider."""
        return self._provider.bulk_generate_embeddings(texts)
