"""The OpenAI provider against a loopback endpoint."""

import json
import pickle
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from charactermemory import CharacterMemory
from charactermemory.adapters.embedding import OpenAIEmbedding, guarded
from charactermemory.errors import EmbeddingError, OutOfDomain
from tests.embedding.stub import Answer, Stub, data, echo, ok, serving, vector

KEY = "sk-test-0123456789abcdef"
Serve = Callable[[Callable[[dict[str, Any]], Answer | None]], Stub]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with ExitStack() as stack:
        yield lambda answer: stack.enter_context(serving(Stub(answer)))


def provider(stub: Stub, max_retries: int = 2, **settings: Any) -> OpenAIEmbedding:
    return OpenAIEmbedding(KEY, base_url=stub.url, max_retries=max_retries, **settings)


def failure(call: Callable[[], object]) -> EmbeddingError:
    with pytest.raises(EmbeddingError) as caught:
        call()
    return caught.value


def test_one_text_is_one_request_with_a_list_of_one(serve: Serve) -> None:
    stub = serve(echo)
    assert provider(stub).generate_embedding("7") == vector(7.0)
    assert stub.paths == ["/v1/embeddings"]
    assert stub.requests == [{"model": "text-embedding-3-small", "input": ["7"], "encoding_format": "float"}]
    assert stub.headers[0]["authorization"] == f"Bearer {KEY}"


def test_the_large_model_has_3072_components(serve: Serve) -> None:
    stub = serve(lambda request: ok(data([1.0], 3072)))
    large = provider(stub, model="text-embedding-3-large")
    assert large.vector_size() == 3072
    assert large.fingerprint() == "openai:text-embedding-3-large:3072"
    assert large.generate_embedding("x") == vector(1.0, 3072)


def test_text_arrives_character_for_character(serve: Serve) -> None:
    stub = serve(lambda request: ok(data([1.0, 2.0])))
    texts = ["京都に行きました。\n👩‍👩‍👧 e\u0301", '  "quoted" \\ \u2028 ']
    provider(stub).bulk_generate_embeddings(texts)
    assert stub.requests[0]["input"] == texts


@pytest.mark.spec("recall-100")
def test_more_than_2048_texts_are_sent_in_order_in_two_requests(serve: Serve) -> None:
    def short(request: dict[str, Any]) -> Answer:
        # One shared tail keeps 2,048 vectors of 1,536 components quick to write.
        tail = ",0.0" * 1535
        items = (
            f'{{"index":{index},"embedding":[{text}{tail}]}}' for index, text in enumerate(request["input"])
        )
        return 200, ('{"data":[' + ",".join(items) + "]}").encode()

    stub = serve(short)
    texts = [str(number) for number in range(2049)]
    vectors = provider(stub).bulk_generate_embeddings(texts)
    assert [request["input"] for request in stub.requests] == [texts[:2048], texts[2048:]]
    assert [row[0] for row in vectors] == [float(number) for number in range(2049)]
    assert {len(row) for row in vectors} == {1536}


def test_one_failing_chunk_fails_the_call_with_an_index_within_it(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("charactermemory.adapters.embedding.openai.CHUNK", 2)

    def second_is_short(request: dict[str, Any]) -> Answer:
        return (
            echo(request)
            if request["input"] == ["0", "1"]
            else ok([*data([2.0]), {"index": 1, "embedding": []}])
        )

    stub = serve(second_is_short)
    error = failure(lambda: provider(stub).bulk_generate_embeddings(["0", "1", "2", "3", "4"]))
    assert (error.kind, dict(error.details)) == (
        "dimension_mismatch",
        {"index": 1, "expected": 1536, "actual": 0},
    )
    assert len(stub.requests) == 2


@pytest.mark.spec("recall-101")
def test_a_blank_text_anywhere_stops_the_batch_before_any_request(serve: Serve) -> None:
    stub = serve(echo)
    texts = ["1"] * 3000
    texts[2500] = " \t\u3000\n"
    error = failure(lambda: provider(stub).bulk_generate_embeddings(texts))
    assert (error.kind, error.details) == ("blank_input", (("index", 2500),))
    assert stub.requests == []


def test_a_single_blank_text_has_no_index_and_sends_nothing(serve: Serve) -> None:
    stub = serve(echo)
    error = failure(lambda: provider(stub).generate_embedding("  "))
    assert (error.kind, error.details) == ("blank_input", ())
    assert stub.requests == []


@pytest.mark.spec("recall-102")
def test_an_empty_batch_sends_nothing(serve: Serve) -> None:
    stub = serve(echo)
    assert provider(stub).bulk_generate_embeddings([]) == []
    assert stub.requests == []


@pytest.mark.spec("recall-103")
def test_items_in_reverse_come_back_in_input_order(serve: Serve) -> None:
    stub = serve(lambda request: ok(data([1.0, 2.0, 3.0])[::-1]))
    vectors = provider(stub).bulk_generate_embeddings(["a", "b", "c"])
    assert vectors == [vector(1.0), vector(2.0), vector(3.0)]


def item(index: object, embedding: object = None) -> dict[str, object]:
    return {"index": index, "embedding": vector(1.0) if embedding is None else embedding}


def component(value: object, place: int) -> list[object]:
    row: list[object] = list(vector(1.0))
    row[place] = value
    return row


MALFORMED = [
    ([item(0), item(0)], "duplicate_index", {"index": 0}),
    ([item(0), item(2)], "index_out_of_range", {"index": 2, "expected_count": 2}),
    ([item(-1), item(0)], "index_out_of_range", {"index": -1, "expected_count": 2}),
    ([item(0), {"embedding": vector(1.0)}], "missing_index", {"item": 1}),
    ([item(0), item("1")], "missing_index", {"item": 1}),
    ([item(True), item(0)], "missing_index", {"item": 0}),
    ([item(0), "text"], "missing_index", {"item": 1}),
    ([item(0), {"index": 1}], "missing_embedding", {"item": 1}),
    ([item(1, "AAAA"), item(0)], "missing_embedding", {"item": 0}),
    (
        [item(1, vector(1.0)[:-1]), item(0)],
        "dimension_mismatch",
        {"index": 1, "expected": 1536, "actual": 1535},
    ),
    ([item(0), item(1, component("0.1", 3))], "non_numeric_value", {"index": 1, "component": 3}),
    ([item(0), item(1, component(True, 4))], "non_numeric_value", {"index": 1, "component": 4}),
    ([item(0), item(1, component(None, 5))], "non_numeric_value", {"index": 1, "component": 5}),
    ([item(0), item(1, component(float("nan"), 6))], "non_numeric_value", {"index": 1, "component": 6}),
    ([item(0), item(1, component(10**400, 7))], "non_numeric_value", {"index": 1, "component": 7}),
    (None, "missing_data", {}),
    ({"0": 1}, "missing_data", {}),
    ([item(0)], "count_mismatch", {"expected": 2, "actual": 1}),
    ([item(0), item(1), item(2)], "count_mismatch", {"expected": 2, "actual": 3}),
]


@pytest.mark.spec("recall-104")
@pytest.mark.parametrize(("items", "kind", "details"), MALFORMED)
def test_a_malformed_answer_is_named_after_one_request(
    serve: Serve, items: object, kind: str, details: dict[str, object]
) -> None:
    stub = serve(lambda request: ok(items))
    error = failure(lambda: provider(stub).bulk_generate_embeddings(["first text", "second text"]))
    assert (error.kind, dict(error.details)) == (kind, details)
    assert len(stub.requests) == 1
    assert "first text" not in str(error)


@pytest.mark.spec("recall-104")
@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", "invalid_json"),
        (b'{"data": [', "invalid_json"),
        (b"\xff\xfe\xfa", "invalid_json"),
        (b"[]", "missing_data"),
    ],
)
def test_a_body_that_is_no_answer_is_named_after_one_request(serve: Serve, body: bytes, kind: str) -> None:
    stub = serve(lambda request: (200, body))
    assert failure(lambda: provider(stub).generate_embedding("x")).kind == kind
    assert len(stub.requests) == 1


@pytest.mark.spec("recall-104")
@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_refusal_is_one_request(serve: Serve, status: int) -> None:
    stub = serve(lambda request: (status, b'{"error": {"message": "no"}}'))
    error = failure(lambda: provider(stub).generate_embedding("hello there"))
    assert error.kind == "http_status"
    assert dict(error.details) == {"status": status, "body": '{"error": {"message": "no"}}'}
    assert len(stub.requests) == 1


@pytest.mark.spec("recall-104")
@pytest.mark.parametrize("retries", [0, 2])
@pytest.mark.parametrize("status", [408, 409, 429, 500, 503])
def test_a_passing_trouble_is_asked_again_as_often_as_set(serve: Serve, status: int, retries: int) -> None:
    stub = serve(lambda request: (status, b"busy"))
    error = failure(lambda: provider(stub, retries).generate_embedding("x"))
    assert error.kind == "http_status"
    assert dict(error.details) == {"status": status, "body": "busy"}
    assert len(stub.requests) == 1 + retries


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("20", 20.0), ("1.5", 1.5), ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0), (None, None), ("soon", None),
     ("-1", None), ("nan", None), ("9" * 400, None)],
)  # fmt: skip
def test_a_failure_says_when_the_provider_may_be_asked_again(
    serve: Serve, header: str | None, seconds: float | None
) -> None:
    stub = serve(lambda request: (429, b"busy"))
    stub.retry_after = header
    assert failure(lambda: provider(stub, 0).generate_embedding("x")).retry_after_seconds == seconds


def test_the_time_to_ask_again_may_be_a_date(serve: Serve) -> None:
    stub = serve(lambda request: (503, b"busy"))
    stub.retry_after = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    seconds = failure(lambda: provider(stub, 0).generate_embedding("x")).retry_after_seconds
    assert seconds is not None
    assert 3000 < seconds <= 3600


def test_a_retry_that_succeeds_is_a_success(serve: Serve) -> None:
    stub = serve(lambda request: (429, b"") if len(stub.requests) == 1 else echo(request))
    assert provider(stub).generate_embedding("3") == vector(3.0)
    assert len(stub.requests) == 2


@pytest.mark.spec("recall-104")
def test_a_refused_connection_is_a_connect_failure() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    closed = Stub(echo, url=f"http://127.0.0.1:{port}/v1")
    error = failure(lambda: provider(closed, 0).generate_embedding("x"))
    assert (error.kind, dict(error.details)) == ("transport", {"transport_kind": "connect"})


@pytest.mark.parametrize(("retries", "requests"), [(0, 1), (1, 2)])
def test_a_connection_cut_before_the_answer_is_a_body_failure(
    serve: Serve, retries: int, requests: int
) -> None:
    stub = serve(lambda request: None)
    error = failure(lambda: provider(stub, retries).generate_embedding("x"))
    assert (error.kind, dict(error.details)) == ("transport", {"transport_kind": "body"})
    assert len(stub.requests) == requests


def test_a_silent_server_is_a_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        stub = Stub(echo, url=f"http://127.0.0.1:{silent.getsockname()[1]}/v1")
        error = failure(lambda: provider(stub, 0, timeout=0.1).generate_embedding("x"))
    assert (error.kind, dict(error.details)) == ("transport", {"transport_kind": "timeout"})


def test_an_address_without_a_scheme_is_a_request_failure() -> None:
    error = failure(lambda: provider(Stub(echo, url="127.0.0.1:1/v1"), 0).generate_embedding("x"))
    assert (error.kind, dict(error.details)) == ("transport", {"transport_kind": "request"})


def test_a_long_body_is_cut_to_500_characters(serve: Serve) -> None:
    stub = serve(lambda request: (400, b"e" * 5000))
    error = failure(lambda: provider(stub).generate_embedding("x y"))
    assert dict(error.details)["body"] == "e" * 500


@pytest.mark.parametrize("private", ['秘密の約束 "for Alice"', KEY])
@pytest.mark.parametrize("escaped", [True, False])
def test_a_body_that_repeats_text_or_key_is_left_out(serve: Serve, private: str, escaped: bool) -> None:
    body = json.dumps({"error": {"message": f"bad: {private}"}}, ensure_ascii=escaped).encode()
    stub = serve(lambda request: (400, body))
    error = failure(lambda: provider(stub).generate_embedding('秘密の約束 "for Alice"'))
    assert dict(error.details) == {"status": 400, "body": "(left out: it repeats the text or the key)"}
    assert error.__context__ is None
    assert pickle.loads(pickle.dumps(error)).details == error.details


def test_a_key_that_cannot_be_sent_is_not_shown() -> None:
    broken = OpenAIEmbedding("sk-secret\nsecond-line", base_url="http://127.0.0.1:1/v1", max_retries=0)
    error = failure(lambda: broken.generate_embedding("x"))
    assert "secret" not in str(error)
    assert error.__context__ is None


def test_no_repr_shows_the_key() -> None:
    embedding = OpenAIEmbedding(KEY)
    assert repr(embedding) == ("OpenAIEmbedding(model='text-embedding-3-small', host='api.openai.com')")
    assert KEY not in repr(vars(embedding))
    assert KEY not in repr(guarded(embedding))
    behind_a_password = OpenAIEmbedding(KEY, base_url="https://user:hush@proxy.example/v1")
    assert "host='proxy.example'" in repr(guarded(behind_a_password))
    assert "hush" not in repr(guarded(behind_a_password))


@pytest.mark.spec("recall-105")
def test_a_blank_key_is_refused_at_construction_and_a_custom_provider_needs_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for blank in ("", " \n"):
        error = failure(lambda blank=blank: OpenAIEmbedding(blank))  # type: ignore[misc]
        assert error.kind == "missing_api_key"

    class Custom:
        def fingerprint(self) -> str:
            return "custom:model:2"

        def vector_size(self) -> int:
            return 2

        def generate_embedding(self, text: str) -> list[float]:
            return [1.0, 0.0]

        def bulk_generate_embeddings(self, texts: Any) -> Any:
            return [[1.0, 0.0] for _ in texts]

    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    settings = {
        "GRAPH_STORE_MODE": "in_memory",
        "VECTOR_STORE_PATH": str(tmp_path / "vectors"),
        "RETRIEVAL_STATS_STORE_MODE": "in_memory",
        "EMBEDDING_PROVIDER": "openai",
    }
    with CharacterMemory.open(settings, "custom", embedding_provider=Custom()) as memory:
        assert memory.stores.embedder.fingerprint() == "custom:model:2"
        assert memory.stores.embedder.generate_embedding("x") == [1.0, 0.0]


def test_an_unknown_model_is_refused_at_construction() -> None:
    with pytest.raises(OutOfDomain) as caught:
        OpenAIEmbedding(KEY, model="text-embedding-ada-002")
    assert caught.value.keys == ("EMBEDDING_MODEL",)
    assert caught.value.actual == "text-embedding-ada-002"
    assert (
        "text-embedding-3-small" in caught.value.expected
        and "text-embedding-3-large" in caught.value.expected
    )


def test_negative_retries_are_refused_at_construction() -> None:
    with pytest.raises(OutOfDomain) as caught:
        OpenAIEmbedding(KEY, max_retries=-1)
    assert caught.value.keys == ("EMBEDDING_MAX_RETRIES",)


def test_a_missing_sdk_is_said_at_construction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("charactermemory.adapters.embedding.packages.find_spec", lambda name: None)
    with pytest.raises(OutOfDomain) as caught:
        OpenAIEmbedding(KEY)
    assert caught.value.keys == ("EMBEDDING_PROVIDER",)
    assert "pip install 'django-character-memory[openai]'" in str(caught.value)
