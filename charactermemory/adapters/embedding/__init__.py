"""Embedding providers behind `charactermemory.ports.embedding`.

Importing this package loads no SDK and no weights: each provider does that on first use.
"""

from charactermemory.adapters.embedding.cache import CachedQueries
from charactermemory.adapters.embedding.fastembed import FastEmbedEmbedding
from charactermemory.adapters.embedding.guard import guarded
from charactermemory.adapters.embedding.hashing import HashingEmbedding
from charactermemory.adapters.embedding.openai import OpenAIEmbedding
from charactermemory.adapters.embedding.wordllama import WordLlamaEmbedding

__all__ = [
    "CachedQueries",
    "FastEmbedEmbedding",
    "HashingEmbedding",
    "OpenAIEmbedding",
    "WordLlamaEmbedding",
    "guarded",
]
