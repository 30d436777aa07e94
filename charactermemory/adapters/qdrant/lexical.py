"""The lexical leg: BM25 sparse vectors made by Qdrant Edge's own model, in embedded and service mode alike.

One maker for both modes gives one index (DESIGN R6). The model holds the term frequency part; the engine
multiplies the inverse document frequency in (modifier `idf`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from charactermemory.errors import OutOfDomain

if TYPE_CHECKING:
    from qdrant_edge import Bm25

SPARSE_NAME = "bm25"
"""Name of the sparse vector of every point."""

DEFAULT_LANGUAGE = "english"

K = 1.2
"""Saturation of term frequency; the usual value of BM25, and the engine's default."""

B = 0.75
"""Weight of the length normalisation; the usual value of BM25, and the engine's default."""

AVERAGE_LENGTH = 256.0
"""Expected tokens of a document. On chat turns of about 20 tokens 256 gave R@10 .631, 20 gave .618
(decisions.md "To R6"): short turns are better off with less length normalisation."""


class Terms(NamedTuple):
    """A sparse vector: token hashes and their weights, equally long, never empty."""

    indices: list[int]
    values: list[float]


@lru_cache(maxsize=8)
def _model(language: str) -> Bm25:
    from qdrant_edge import Bm25, Bm25Config, TokenizerType

    # The default Word tokenizer makes one token of a whole sentence in Japanese or Chinese.
    config = Bm25Config(
        k=K, b=B, avg_len=AVERAGE_LENGTH, tokenizer=TokenizerType.Multilingual, language=language
    )
    try:
        return Bm25(config)
    except ValueError as error:
        raise OutOfDomain(
            keys=("language",), expected="a language known to the BM25 model", actual=repr(language)
        ) from error


class Lexical:
    """Makes the sparse vectors of documents and queries in one language (stop words and stemmer)."""

    def __init__(self, language: str = DEFAULT_LANGUAGE) -> None:
        """Raise `OutOfDomain` for a language that the model does not know."""
        self._bm25 = _model(language)
        self.fingerprint = f"bm25:multilingual:{language}:{K}:{B}:{AVERAGE_LENGTH}"

    def document(self, text: str) -> Terms | None:
        """Return the weighted terms of an indexed text; None when only stop words or nothing is left."""
        vector = self._bm25.embed_document(text)
        return Terms(vector.indices, vector.values) if vector.indices else None

    def query(self, text: str) -> Terms | None:
        """Return the terms of a query, each of weight 1; None when only stop words or nothing is left."""
        vector = self._bm25.embed_query(text)
        return Terms(vector.indices, vector.values) if vector.indices else None
