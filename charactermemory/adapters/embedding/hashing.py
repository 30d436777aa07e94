"""A provider without a model: tokens hashed into a fixed number of components.

It knows words, not meaning. It is there for tests and for a first start without network or weights.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from math import hypot

from charactermemory.adapters.embedding.checks import checked_size, require_text, require_texts
from charactermemory.ports.embedding import Vector

DEFAULT_DIMENSION = 256

_WORD = re.compile(r"\w+")


class HashingEmbedding:
    """Signed feature hashing over words and their letter trigrams, of length 1.

    The trigrams let word forms meet ("promise", "promised"), and languages written without spaces.
    The same text gives the same vector in every process. Thread-safe.
    """

    def __init__(self, dimension: int = DEFAULT_DIMENSION) -> None:
        """Take the number of components.

        Raises:
            EmbeddingError: `invalid_vector_size` unless `dimension` is a positive integer.
        """
        self._dimension = checked_size(dimension)

    def __repr__(self) -> str:
        return f"HashingEmbedding(dimension={self._dimension})"

    def fingerprint(self) -> str:
        """Return `hashing:words-trigrams-1:<dimension>`; the 1 counts changes of the features."""
        return f"hashing:words-trigrams-1:{self._dimension}"

    def vector_size(self) -> int:
        """Return the dimension given at construction."""
        return self._dimension

    def generate_embedding(self, text: str) -> Vector:
        """Embed one text.

        Raises:
            EmbeddingError: `blank_input`.
        """
        require_text(text)
        return self._embed(text)

    def bulk_generate_embeddings(self, texts: Sequence[str]) -> list[Vector]:
        """Embed many texts, each as it would be alone.

        Raises:
            EmbeddingError: `blank_input` naming the index.
        """
        require_texts(texts)
        return [self._embed(text) for text in texts]

    def _embed(self, text: str) -> list[float]:
        components = [0.0] * self._dimension
        for feature, weight in _features(text).items():
            place, sign = self._slot(feature)
            components[place] += sign * weight
        length = hypot(*components)
        if length == 0.0:  # every feature met its opposite: fall back to the text as one feature
            place, sign = self._slot(text)
            components[place], length = sign, 1.0
        return [component / length for component in components]

    def _slot(self, feature: str) -> tuple[int, float]:
        number = int.from_bytes(blake2b(feature.encode(), digest_size=8).digest(), "big")
        return (number >> 1) % self._dimension, 1.0 if number & 1 else -1.0


def _features(text: str) -> Counter[str]:
    """Count words and trigrams; a text without a word (signs, emoji) counts its characters."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    words = _WORD.findall(folded) or list(folded)
    features = Counter(words)
    for word in words:
        features.update(f"{word[start : start + 3]}*" for start in range(len(word) - 2))
    return features
