"""The hashing provider: deterministic, of length 1, never zero."""

import math
import subprocess
import sys

import pytest

from charactermemory.adapters.embedding import HashingEmbedding
from charactermemory.errors import EmbeddingError


def similarity(left: str, right: str) -> float:
    provider = HashingEmbedding()
    return sum(
        a * b
        for a, b in zip(provider.generate_embedding(left), provider.generate_embedding(right), strict=True)
    )


def test_another_process_with_another_hash_seed_gives_the_same_vector() -> None:
    code = (
        "from charactermemory.adapters.embedding import HashingEmbedding;"
        "print(HashingEmbedding(32).generate_embedding('Alice, 京都 👋'))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": "7"}
    )
    assert run.stdout.strip() == str(HashingEmbedding(32).generate_embedding("Alice, 京都 👋"))


@pytest.mark.parametrize("dimension", [1, 2, 3, 256])
@pytest.mark.parametrize(
    "text", ["a", "!", "👋", "\u200b", "a b c d e f g h", "京都に行きました", "x" * 4000]
)
def test_every_text_that_is_not_blank_has_a_vector_of_length_one(text: str, dimension: int) -> None:
    vector = HashingEmbedding(dimension).generate_embedding(text)
    assert len(vector) == dimension
    assert math.isclose(math.hypot(*vector), 1.0)


def test_features_that_cancel_out_do_not_leave_zero() -> None:
    provider = HashingEmbedding(1)
    signs = {provider.generate_embedding(letter)[0]: letter for letter in "abcdefghij"}
    assert abs(provider.generate_embedding(f"{signs[1.0]} {signs[-1.0]}")[0]) == 1.0


def test_texts_with_common_words_or_word_forms_are_nearer() -> None:
    assert similarity("Alice promised a boat", "Alice keeps a boat") > similarity(
        "Alice promised a boat", "rain"
    )
    assert similarity("promised", "promise") > similarity("promised", "harbour") + 0.3
    assert similarity("京都に行きました", "京都に行く") > similarity("京都に行きました", "寿司を食べた") + 0.2
    assert similarity("ＡＬＩＣＥ", "alice") == pytest.approx(1.0)


def test_a_batch_gives_what_single_calls_give_in_order() -> None:
    provider = HashingEmbedding(64)
    texts = ["one", "two three", "four"]
    assert provider.bulk_generate_embeddings(texts) == [provider.generate_embedding(text) for text in texts]
    assert provider.bulk_generate_embeddings([]) == []


def test_blank_text_is_refused() -> None:
    with pytest.raises(EmbeddingError) as single:
        HashingEmbedding().generate_embedding(" ")
    with pytest.raises(EmbeddingError) as batch:
        HashingEmbedding().bulk_generate_embeddings(["a", "\t"])
    assert (single.value.kind, single.value.details) == ("blank_input", ())
    assert (batch.value.kind, batch.value.details) == ("blank_input", (("index", 1),))


@pytest.mark.parametrize("dimension", [0, -3, True])
def test_a_dimension_below_one_is_refused(dimension: int) -> None:
    with pytest.raises(EmbeddingError) as caught:
        HashingEmbedding(dimension)
    assert caught.value.kind == "invalid_vector_size"


def test_the_fingerprint_names_features_and_dimension() -> None:
    assert HashingEmbedding(64).fingerprint() == "hashing:words-trigrams-1:64"
    assert HashingEmbedding(64).vector_size() == 64
