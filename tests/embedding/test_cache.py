"""The query cache is bounded, keyed by digest, and safe under threads."""

import threading
from collections.abc import Sequence

import pytest

from charactermemory.adapters.embedding import CachedQueries, HashingEmbedding
from charactermemory.errors import EmbeddingError
from charactermemory.ports.embedding import Vector


class Counting(HashingEmbedding):
    """Counts what reaches it."""

    def __init__(self) -> None:
        super().__init__(16)
        self.asked: list[str] = []
        self.batches = 0

    def generate_embedding(self, text: str) -> Vector:
        self.asked.append(text)
        return super().generate_embedding(text)

    def bulk_generate_embeddings(self, texts: Sequence[str]) -> list[Vector]:
        self.batches += 1
        return super().bulk_generate_embeddings(texts)


def test_the_second_ask_is_answered_from_the_cache_with_the_same_values() -> None:
    provider = Counting()
    cache = CachedQueries(provider)
    first, second = cache.generate_embedding("where is Alice?"), cache.generate_embedding("where is Alice?")
    assert list(first) == list(second) == HashingEmbedding(16).generate_embedding("where is Alice?")
    assert provider.asked == ["where is Alice?"]


def test_a_caller_cannot_change_what_is_kept() -> None:
    cache = CachedQueries(HashingEmbedding(16))
    expected = list(cache.generate_embedding("x"))
    for _ in range(2):
        handed = cache.generate_embedding("x")
        assert isinstance(handed, list)
        handed[0] = 99.0
    assert cache.generate_embedding("x") == expected


def test_texts_that_differ_in_one_space_are_two_queries() -> None:
    provider = Counting()
    cache = CachedQueries(provider)
    cache.generate_embedding("a b")
    cache.generate_embedding("a b ")
    assert provider.asked == ["a b", "a b "]


def test_the_least_recently_used_query_goes_first() -> None:
    provider = Counting()
    cache = CachedQueries(provider, capacity=2)
    for text in ("one", "two", "one", "three", "one", "two"):
        cache.generate_embedding(text)
    assert provider.asked == ["one", "two", "three", "two"]


def test_the_bound_holds_for_many_queries() -> None:
    provider = Counting()
    cache = CachedQueries(provider, capacity=8)
    for number in range(100):
        cache.generate_embedding(str(number))
    provider.asked.clear()
    for number in range(92, 100):
        cache.generate_embedding(str(number))
    assert provider.asked == []
    cache.generate_embedding("91")
    assert provider.asked == ["91"]


def test_no_text_is_kept() -> None:
    cache = CachedQueries(HashingEmbedding(16))
    cache.generate_embedding("a secret question")
    assert "secret" not in repr(vars(cache))


def test_failures_are_not_kept() -> None:
    provider = Counting()
    cache = CachedQueries(provider)
    for _ in range(2):
        with pytest.raises(EmbeddingError):
            cache.generate_embedding(" ")
    assert provider.asked == [" ", " "]


def test_batches_pass_by() -> None:
    provider = Counting()
    cache = CachedQueries(provider)
    for _ in range(2):
        assert len(cache.bulk_generate_embeddings(["a", "b"])) == 2
    cache.generate_embedding("a")
    assert (provider.batches, provider.asked) == (2, ["a"])


def test_it_describes_the_wrapped_provider() -> None:
    cache = CachedQueries(HashingEmbedding(16))
    assert (cache.vector_size(), cache.fingerprint()) == (16, "hashing:words-trigrams-1:16")


def test_a_capacity_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="capacity must be at least 1, got 0"):
        CachedQueries(HashingEmbedding(16), capacity=0)


def test_threads_that_push_each_other_out_get_right_vectors() -> None:
    cache = CachedQueries(HashingEmbedding(16), capacity=3)
    expected = {text: HashingEmbedding(16).generate_embedding(text) for text in map(str, range(8))}
    wrong: list[object] = []

    def ask(offset: int) -> None:
        try:
            for turn in range(300):
                text = str((turn * 5 + offset) % 8)
                if cache.generate_embedding(text) != expected[text]:
                    wrong.append(text)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=ask, args=(offset,)) for offset in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
