"""The guard holds foreign providers to the port."""

from array import array
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy
import pytest

from charactermemory.adapters.embedding import guarded
from charactermemory.errors import EmbeddingError


class Foreign:
    """Returns `result`, or raises it, whatever it is asked; keeps what it was asked."""

    def __init__(self, result: Any = None, size: Any = 2, name: Any = "foreign:model:2") -> None:
        self.result, self.size, self.name = result, size, name
        self.asked: list[object] = []

    def _say(self, value: Any) -> Any:
        if isinstance(value, BaseException):
            raise value
        return value

    def fingerprint(self) -> Any:
        return self._say(self.name)

    def vector_size(self) -> Any:
        return self._say(self.size)

    def generate_embedding(self, text: str) -> Any:
        self.asked.append(text)
        return self._say(self.result)

    def bulk_generate_embeddings(self, texts: Sequence[str]) -> Any:
        self.asked.append(list(texts))
        return self._say(self.result)


def failure(provider: Foreign, texts: list[str]) -> EmbeddingError:
    with pytest.raises(EmbeddingError) as caught:
        guarded(provider).bulk_generate_embeddings(texts)
    return caught.value


def test_good_results_pass() -> None:
    assert guarded(Foreign([[1.0, 2.0], [3, Fraction(1, 2)]])).bulk_generate_embeddings(["a", "b"]) == [
        [1.0, 2.0],
        [3.0, 0.5],
    ]
    assert guarded(Foreign((1.0, 2.0))).generate_embedding("a") == [1.0, 2.0]


@pytest.mark.parametrize(
    "result",
    [
        numpy.array([[1, 2]], dtype=numpy.float32),
        [numpy.array([1, 2], dtype=numpy.int64)],
        [[numpy.float32(1), numpy.float64(2)]],
        [array("f", [1, 2])],
    ],
)
def test_arrays_become_plain_floats(result: Any) -> None:
    rows = guarded(Foreign(result)).bulk_generate_embeddings(["a"])
    assert rows == [[1.0, 2.0]]
    assert {type(value) for value in rows[0]} == {float}


def test_a_zero_vector_passes_to_the_indexing_step() -> None:
    assert guarded(Foreign([[0.0, 0.0]])).bulk_generate_embeddings(["a"]) == [[0.0, 0.0]]


@pytest.mark.parametrize(
    ("result", "kind", "details"),
    [
        (None, "missing_data", {}),
        (iter([[1.0, 2.0], [1.0, 2.0]]), "missing_data", {}),
        ([[1.0, 2.0]], "count_mismatch", {"expected": 2, "actual": 1}),
        ([[1.0, 2.0]] * 3, "count_mismatch", {"expected": 2, "actual": 3}),
        ([[1.0, 2.0], None], "missing_embedding", {"item": 1}),
        ([[1.0, 2.0], "ab"], "missing_embedding", {"item": 1}),
        ([[1.0, 2.0], [1.0]], "dimension_mismatch", {"index": 1, "expected": 2, "actual": 1}),
        ([[1.0, 2.0], []], "dimension_mismatch", {"index": 1, "expected": 2, "actual": 0}),
        ([[1.0, 2.0], [1.0, "2"]], "non_numeric_value", {"index": 1, "component": 1}),
        ([[1.0, 2.0], [False, 2.0]], "non_numeric_value", {"index": 1, "component": 0}),
        ([[1.0, 2.0], [1.0, float("nan")]], "non_numeric_value", {"index": 1, "component": 1}),
        ([[float("-inf"), 2.0], [1.0, 2.0]], "non_numeric_value", {"index": 0, "component": 0}),
        ([[float("inf"), float("-inf")], [1.0, 2.0]], "non_numeric_value", {"index": 0, "component": 0}),
        (numpy.array([[1, 2], [numpy.nan, 2]]), "non_numeric_value", {"index": 1, "component": 0}),
        ([[1.0, 2.0], [10**400, 2.0]], "non_numeric_value", {"index": 1, "component": 0}),
        ([[1.0, 2.0], [10**400, -(10**400)]], "non_numeric_value", {"index": 1, "component": 0}),
    ],
)
def test_a_malformed_batch_is_named(result: Any, kind: str, details: dict[str, int]) -> None:
    error = failure(Foreign(result), ["a", "b"])
    assert (error.kind, dict(error.details)) == (kind, details)


def test_large_finite_numbers_whose_sum_overflows_are_good() -> None:
    assert guarded(Foreign([1.7e308, 1.7e308])).generate_embedding("a") == [1.7e308, 1.7e308]


def test_a_malformed_single_vector_is_named() -> None:
    with pytest.raises(EmbeddingError) as caught:
        guarded(Foreign([1.0])).generate_embedding("a")
    assert (caught.value.kind, dict(caught.value.details)) == (
        "dimension_mismatch",
        {"index": 0, "expected": 2, "actual": 1},
    )


def test_blank_text_and_empty_batches_never_reach_the_provider() -> None:
    provider = Foreign([[1.0, 2.0]])
    error = failure(provider, ["a", " \u2003"])
    assert (error.kind, error.details) == ("blank_input", (("index", 1),))
    with pytest.raises(EmbeddingError) as caught:
        guarded(provider).generate_embedding("\n")
    assert (caught.value.kind, caught.value.details) == ("blank_input", ())
    assert guarded(provider).bulk_generate_embeddings([]) == []
    assert provider.asked == []


def test_any_exception_becomes_unrecognized_with_its_type_and_message() -> None:
    error = failure(Foreign(RuntimeError("the model is gone")), ["a text"])
    assert (error.kind, error.detail) == ("unrecognized", "RuntimeError: the model is gone")


def test_its_message_is_cut_to_500_characters() -> None:
    assert failure(Foreign(OSError("m" * 9000)), ["a text"]).detail == "OSError: " + "m" * 491


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Alice promised Bob a boat", "cannot embed 'Alice promised Bob a boat'"),
        ("Alice promised Bob a boat", "cannot embed 'Alice promised B...'"),
        ('say "no"\nand go', 'bad input "say \\"no\\"\\nand go"'),
        ("秘密の約束をした", "bad: \\u79d8\\u5bc6\\u306e\\u7d04\\u675f\\u3092\\u3057\\u305f"),
        ("Bob", "no vector for Bob."),
    ],
)
def test_a_message_that_repeats_the_text_is_left_out_with_its_cause(text: str, message: str) -> None:
    error = failure(Foreign(ValueError(message)), ["something else", text])
    assert error.detail == "ValueError: (left out: it repeats the text or the key)"
    assert error.__context__ is None


def test_a_short_text_inside_another_word_hides_nothing() -> None:
    assert failure(Foreign(ValueError("the state is bad")), ["at"]).detail == "ValueError: the state is bad"


def test_an_error_that_cannot_be_told_is_named_by_its_type() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert failure(Foreign(Mute()), ["a"]).detail == "Mute"
    assert failure(Foreign(KeyError()), ["a"]).detail == "KeyError"


def test_a_result_that_fails_while_it_is_read_is_unrecognized() -> None:
    class Lazy:
        def tolist(self) -> None:
            raise RuntimeError("device lost")

    assert failure(Foreign([Lazy()]), ["a"]).detail == "RuntimeError: device lost"


def test_an_embedding_error_passes_as_it_is() -> None:
    raised = EmbeddingError("http_status", details=(("status", 429),))
    assert failure(Foreign(raised), ["a"]) is raised


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_base_exceptions_propagate(stop: type[BaseException]) -> None:
    for ask in (
        lambda: guarded(Foreign(stop())).bulk_generate_embeddings(["a"]),
        lambda: guarded(Foreign(stop())).generate_embedding("a"),
    ):
        with pytest.raises(stop):
            ask()


@pytest.mark.parametrize("size", [0, -1, True, None, 2.0, "2"])
def test_a_vector_size_that_is_none_is_refused_at_once(size: object) -> None:
    with pytest.raises(EmbeddingError) as caught:
        guarded(Foreign(size=size))
    assert (caught.value.kind, dict(caught.value.details)) == ("invalid_vector_size", {"actual": size})


@pytest.mark.parametrize("name", ["", "  ", None, 5])
def test_a_fingerprint_that_says_nothing_is_refused_at_once(name: object) -> None:
    with pytest.raises(EmbeddingError) as caught:
        guarded(Foreign(name=name))
    assert caught.value.kind == "unrecognized"
    assert "fingerprint" in caught.value.detail


def test_size_and_fingerprint_are_those_of_the_provider() -> None:
    provider = guarded(Foreign(size=7, name="foreign:x:7"))
    assert (provider.vector_size(), provider.fingerprint()) == (7, "foreign:x:7")


@pytest.mark.parametrize("broken", [{"size": RuntimeError("no model")}, {"name": RuntimeError("no model")}])
def test_a_provider_that_fails_to_describe_itself_is_unrecognized(broken: dict[str, Any]) -> None:
    with pytest.raises(EmbeddingError) as caught:
        guarded(Foreign(**broken))
    assert (caught.value.kind, caught.value.detail) == ("unrecognized", "RuntimeError: no model")
