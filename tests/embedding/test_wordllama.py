"""WordLlama from the wheel's own weights: offline, silent, independent of the batch."""

import subprocess
import sys
import textwrap
import threading

import pytest

from charactermemory.adapters.embedding import WordLlamaEmbedding
from charactermemory.errors import EmbeddingError


@pytest.fixture(scope="module")
def provider() -> WordLlamaEmbedding:
    return WordLlamaEmbedding()


def cosine(left: list[float], right: list[float]) -> float:
    dot = sum(a * b for a, b in zip(left, right, strict=True))
    return float(dot / (sum(a * a for a in left) * sum(b * b for b in right)) ** 0.5)


def test_size_and_fingerprint_need_no_weights() -> None:
    fresh = WordLlamaEmbedding()
    assert (fresh.vector_size(), fresh.fingerprint()) == (256, "wordllama:l2_supercat:256")
    assert vars(fresh)["_model"] is None


def test_it_loads_and_embeds_with_no_network_no_output_and_no_logging_set_up() -> None:
    code = """
    import logging, sys

    NETWORK = {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"}

    def refuse(event, args):
        if event in NETWORK or event == "open" and set(str(args[1])) & set("wax+"):
            print("touched", event, args, file=sys.stderr)
            raise OSError(event)

    from charactermemory.adapters.embedding import WordLlamaEmbedding
    sys.dont_write_bytecode = True
    sys.addaudithook(refuse)
    vector = WordLlamaEmbedding().generate_embedding("Alice went to Kyoto")
    assert len(vector) == 256 and any(vector) and {type(value) for value in vector} == {float}
    root = logging.getLogger()
    assert (root.handlers, root.level) == ([], logging.WARNING)
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def test_meaning_brings_texts_nearer(provider: WordLlamaEmbedding) -> None:
    near, query, far = provider.bulk_generate_embeddings(
        ["The cat sleeps on the sofa.", "A kitten naps on the couch.", "The bank raised its interest rate."]
    )
    assert cosine(list(query), list(near)) > cosine(list(query), list(far)) + 0.2


def test_a_vector_does_not_depend_on_the_batch(provider: WordLlamaEmbedding) -> None:
    texts = [
        "short",
        "京都に行きました " * 50,
        "👋",
        "e\u0301",
        "a middle sentence with ten or so words in it",
    ]
    assert provider.bulk_generate_embeddings(texts) == [provider.generate_embedding(text) for text in texts]


@pytest.mark.parametrize("text", ["a", "!", "👋", "\u200b", "\ufeff", "\x00", "ⵣ"])
def test_no_text_that_is_not_blank_is_zero(provider: WordLlamaEmbedding, text: str) -> None:
    assert any(provider.generate_embedding(text))


def test_blank_text_is_refused_without_loading() -> None:
    fresh = WordLlamaEmbedding()
    with pytest.raises(EmbeddingError) as single:
        fresh.generate_embedding(" ")
    with pytest.raises(EmbeddingError) as batch:
        fresh.bulk_generate_embeddings(["a", ""])
    assert (single.value.kind, single.value.details) == ("blank_input", ())
    assert (batch.value.kind, batch.value.details) == ("blank_input", (("index", 1),))
    assert fresh.bulk_generate_embeddings([]) == []
    assert vars(fresh)["_model"] is None


def test_threads_share_one_load(monkeypatch: pytest.MonkeyPatch) -> None:
    from charactermemory.adapters.embedding import wordllama

    load, loads = wordllama._load, []

    def counted() -> object:
        loads.append(1)
        return load()

    monkeypatch.setattr(wordllama, "_load", counted)
    fresh = WordLlamaEmbedding()
    results: list[object] = []
    start = threading.Barrier(4)

    def ask() -> None:
        start.wait()
        results.append(fresh.generate_embedding("the same text"))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(loads) == 1
    assert results == [fresh.generate_embedding("the same text")] * 4
