"""Threads and messages over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from django.apps import apps
from django.utils import timezone

from charactermemory.history import BaseAlgorithm, HistoryManager, Message
from memory_app.chat.storage import DjangoStorage
from memory_app.models import ChatThread, MemoryCollection
from tests.api.conftest import Api, Tenant


def posted(api: Api, thread: str, *messages: Any) -> None:
    for message in messages:
        body = {"role": "user", "content": message} if isinstance(message, str) else message
        reply = api.post(f"threads/{thread}/messages", body)
        assert reply.status == 201, reply.raw


@pytest.mark.spec("history-64")
def test_a_thread_is_created_filled_paged_and_previewed(api: Api) -> None:
    made = api.post("threads", {"id": "t", "metadata": {"topic": "garden"}})
    assert made.status == 201
    assert (made.json["id"], made.json["metadata"], made.json["message_count"]) == (
        "t",
        {"topic": "garden"},
        0,
    )
    assert api.post("threads", {}).json["id"]
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    posted(
        api,
        "t",
        {"role": "system", "content": "Be kind."},
        "one",
        {"role": "assistant", "content": "two", "id": "m-2", "metadata": {"mood": "good"}},
        {"role": "user", "content": [{"type": "text", "text": "Äpfel"}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
    )
    listed = api.get("threads").json["results"]
    assert [(thread["id"], thread["message_count"]) for thread in listed][0] == ("t", 5)
    assert listed[0]["token_total"] > 0

    first = api.get("threads/t/messages?limit=2").json
    assert [(item["seq"], item["content"]) for item in first["results"]] == [(0, "Be kind."), (1, "one")]
    second = api.get(f"threads/t/messages?limit=2&cursor={first['next']}").json
    assert [item["seq"] for item in second["results"]] == [2, 3]
    assert second["results"][0]["id"] == "m-2"
    assert second["results"][0]["metadata"] == {"mood": "good"}
    last = api.get(f"threads/t/messages?limit=2&cursor={second['next']}").json
    assert [item["tool_calls"] for item in last["results"]] == [[call]]
    assert "content" not in last["results"][0]
    assert "next" not in last
    end = api.get("threads/t/messages?limit=2&newest=true").json
    assert [item["seq"] for item in end["results"]] == [3, 4]
    before = api.get(f"threads/t/messages?limit=4&newest=true&cursor={end['next']}").json
    assert [item["seq"] for item in before["results"]] == [0, 1, 2]
    assert "next" not in before

    # The call waits for its result, so no request may hold it.
    window = api.get("threads/t/window").json
    assert window["messages"] == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "two"},
        {"role": "user", "content": [{"type": "text", "text": "Äpfel"}]},
    ]
    assert window["tokens"] == (2 + 1 + 1 + 2) + 4 * 3
    posted(api, "t", {"role": "tool", "tool_call_id": "c", "content": "done"}, "again")
    window = api.get("threads/t/window?max_messages=1").json
    assert [item["role"] for item in window["messages"]] == ["system", "user"]
    small = api.get("threads/t/window?max_tokens=12").json
    assert small["messages"][-1] == {"role": "user", "content": "again"}
    assert small["tokens"] <= 12


class Shouted(BaseAlgorithm):
    """A host's own: what was said in capitals."""

    def get_message_window(self, messages: Sequence[Message]) -> list[Message]:
        return [message for message in messages if message.text.isupper()]


def shouted() -> BaseAlgorithm:
    return Shouted()


@pytest.mark.spec("history-64")
def test_a_window_is_previewed_with_an_algorithm_of_the_hosts(api: Api, settings: Any) -> None:
    api.post("threads", {"id": "t"})
    posted(api, "t", "quiet", "LOUD")
    unknown = api.get("threads/t/window?algorithm=mine")
    assert (unknown.status, unknown.code) == (422, "unknown_algorithm")
    named = {"mine": f"{__name__}.Shouted", "made": f"{__name__}.shouted"}
    settings.CHARACTER_MEMORY = {**settings.CHARACTER_MEMORY, "API": {"WINDOW_ALGORITHMS": named}}
    for name in named:
        window = api.get(f"threads/t/window?algorithm={name}").json
        assert window == {"messages": [{"role": "user", "content": "LOUD"}], "tokens": 1 + 3}
    assert "made, mine" in api.get("threads/t/window?algorithm=other").json["errors"][0]["detail"]
    assert api.get("threads/t/window?algorithm=mine&max_tokens=5").status == 422


def test_metadata_of_a_thread_is_changed_key_by_key(api: Api) -> None:
    api.post("threads", {"id": "t", "metadata": {"topic": "garden", "n": 1}})
    posted(api, "t", "one", "two")
    changed = api.call("PATCH", "threads/t", {"metadata": {"n": None, "mood": {"good": True}}})
    assert (changed.status, changed.json["metadata"]) == (200, {"topic": "garden", "mood": {"good": True}})
    assert changed.json["message_count"] == 2
    assert api.get("threads/t").json == changed.json
    absent = api.call("PATCH", "threads/t", {"metadata": {"never": None}})
    assert absent.json["metadata"] == changed.json["metadata"]
    assert api.call("PATCH", "threads/t", {}).json["errors"][0]["pointer"] == "/metadata"
    assert api.call("PATCH", "threads/nowhere", {"metadata": {}}).code == "thread_not_found"


def test_a_thread_is_deleted_with_its_messages_and_nothing_else(api: Api, tenant: Tenant) -> None:
    bob = tenant("bob")
    for caller, name in ((api, "t"), (api, "other"), (bob, "t")):
        caller.post("threads", {"id": name})
        posted(caller, name, "hi")
    gone = api.call("DELETE", "threads/t")
    assert (gone.status, gone.raw) == (204, b"")
    assert gone.headers["X-Request-ID"]
    assert api.get("threads/t").code == api.get("threads/t/messages").code == "thread_not_found"
    assert api.call("DELETE", "threads/t").code == "thread_not_found"
    assert api.get("threads/other").json["message_count"] == bob.get("threads/t").json["message_count"] == 1
    writer = tenant("cleo", scopes=("read", "write"))
    writer.post("threads", {"id": "t"})
    assert writer.call("DELETE", "threads/t").status == 403
    assert writer.call("PATCH", "threads/t", {"metadata": {"a": 1}}).status == 200


@pytest.mark.spec("history-64")
def test_threads_are_searched(api: Api) -> None:
    for name, topic in (("a", "garden"), ("b", "sea")):
        api.post("threads", {"id": name, "metadata": {"topic": topic, "n": 1}})
        posted(api, name, f"Die Äpfel von {name}")

    def found(body: dict[str, Any], query: str = "") -> list[str]:
        return [item["id"] for item in api.post(f"threads/search{query}", body).json["results"]]

    assert found({"content": "ÄPFEL"}) == ["b", "a"]
    assert found({"content": "von a"}) == ["a"]
    assert found({"metadata": {"topic": "sea"}}) == ["b"]
    assert found({"content": "äpfel", "metadata": {"topic": "garden", "n": 1}}) == ["a"]
    assert found({"metadata": {"n": True}}) == found({"metadata": {"n": "1"}}) == []
    page = api.post("threads/search?limit=1", {"content": "äpfel"}).json
    again = api.post(f"threads/search?limit=1&cursor={page['next']}", {"content": "äpfel"}).json
    assert [item["id"] for item in (*page["results"], *again["results"])] == ["b", "a"]
    assert "next" not in again


def test_no_thread_comes_twice_though_threads_are_written_to_and_deleted_between_pages(api: Api) -> None:
    for name in "abcdefgh":
        api.post("threads", {"id": name})
        posted(api, name, "pear")
    # Several of one moment are told apart all the same.
    ChatThread.objects.filter(thread_id__in="cde").update(updated_at=timezone.now())

    def walk(call: Callable[[str], Any]) -> list[str]:
        seen, query = [], "?limit=2"
        while True:
            page = call(query).json
            seen += [item["id"] for item in page["results"]]
            if "next" not in page:
                return seen
            if len(seen) == 4:
                posted(api, "h", "pear")
                posted(api, "a", "pear")
                api.call("DELETE", f"threads/{seen[0]}")
                api.post("threads", {"id": seen[0]})
                posted(api, seen[0], "pear")
            query = f"?limit=2&cursor={page['next']}"

    # A walk that counted would tell of "c" twice, for what came to the front pushed it on. "a" went by.
    assert walk(lambda query: api.get(f"threads{query}")) == list("edchgfb")
    listed = [item["id"] for item in api.get("threads").json["results"]]
    again = walk(lambda query: api.post(f"threads/search{query}", {"content": "pear"}))
    assert again == listed


@pytest.mark.spec("history-64")
def test_what_is_wrong_is_told_and_nothing_written(api: Api) -> None:
    for method, path, body in (
        ("GET", "threads/nowhere", None),
        ("GET", "threads/nowhere/messages", None),
        ("GET", "threads/nowhere/window", None),
        ("POST", "threads/nowhere/messages", {"role": "user", "content": "hi"}),
    ):
        reply = api.call(method, path, body)
        assert (reply.status, reply.code) == (404, "thread_not_found"), path
    api.post("threads", {"id": "t"})
    assert (api.post("threads", {"id": "t"}).status, api.post("threads", {"id": "t"}).code) == (
        409,
        "thread_id_taken",
    )
    posted(api, "t", {"role": "user", "content": "once", "id": "m"})
    for path, body, pointer in (
        ("threads", {"id": "a/b"}, "/id"),
        ("threads", {"metadata": {"a": "\u0000"}}, "/metadata"),
        ("threads/t/messages", {"role": "robot", "content": "hi"}, "/role"),
        ("threads/t/messages", {"content": "hi"}, "/role"),
        ("threads/t/messages", {"role": "user", "content": 7}, "/content"),
        ("threads/t/messages", {"role": "user", "content": "odd", "id": "a/b"}, "/id"),
        ("threads/search", {}, ""),
        ("threads/search", {"metadata": {}, "content": None}, ""),
        ("threads/search", {"other": 1}, "/other"),
    ):
        reply = api.post(path, body)
        assert reply.status == 400, (path, body, reply.raw)
        assert reply.headers["Content-Type"] == "application/problem+json"
        assert any(item["pointer"].startswith(pointer) for item in reply.json["errors"]), reply.raw
    twice = api.post("threads/t/messages", {"role": "user", "content": "twice", "id": "m"})
    assert (twice.status, twice.code) == (409, "message_id_taken")
    for query in ("limit=0", "limit=101", "cursor=forged", "unknown=1"):
        assert api.get(f"threads/t/messages?{query}").status == 400
    both = api.get("threads/t/window?max_messages=1&max_tokens=9")
    assert (both.status, both.code) == (422, "contradicting_query")
    assert [item["parameter"] for item in both.json["errors"]] == ["max_messages", "max_tokens"]
    assert api.get("threads/t").json["message_count"] == 1
    assert len(api.get("threads").json["results"]) == 1


@pytest.mark.spec("history-38")
@pytest.mark.parametrize("name", [".", "..", "search"])
def test_no_thread_is_made_that_nobody_could_read_or_delete(api: Api, name: str) -> None:
    refused = api.post("threads", {"id": name})
    assert (refused.status, refused.code) == (422, "thread_id_reserved")
    assert api.get("threads").json["results"] == []
    assert api.post("threads", {"id": f"{name}1"}).status == 201


def test_another_tenants_threads_are_invisible(tenant: Tenant) -> None:
    ann, bob = tenant("ann"), tenant("bob")
    ann.post("threads", {"id": "t", "metadata": {"mood": "good"}})
    posted(ann, "t", "secret")
    for path in ("threads/t", "threads/t/messages", "threads/t/window"):
        assert (bob.get(path).status, bob.get(path).code) == (404, "thread_not_found")
    assert bob.get("threads").json["results"] == []
    assert bob.post("threads/search", {"content": "secret"}).json["results"] == []
    assert bob.post("threads/search", {"metadata": {"mood": "good"}}).json["results"] == []
    assert bob.post("threads", {"id": "t"}).status == 201
    trespasser = Api("ann", bob.token)
    for path in ("threads", "threads/t", "threads/t/messages"):
        assert trespasser.get(path).status == 404
    assert trespasser.post("threads/t/messages", {"role": "user", "content": "hi"}).status == 404
    reader = tenant("cleo", scopes=("read",), operator=False)
    assert reader.post("threads", {}).status == 403
    assert ann.get("threads/t").json["message_count"] == 1


def test_an_archived_collection_takes_no_messages(api: Api) -> None:
    api.post("threads", {"id": "t"})
    MemoryCollection.objects.update(archived=True)
    reply = api.post("threads/t/messages", {"role": "user", "content": "hi"})
    assert (reply.status, reply.code) == (409, "collection_archived")


def test_a_repeated_request_stores_one_message(api: Api) -> None:
    api.post("threads", {"id": "t"})
    body = {"role": "user", "content": "hi"}
    replies = [api.post("threads/t/messages", body, **{"Idempotency_Key": "k"}) for _ in range(2)]
    assert [reply.status for reply in replies] == [201, 201]
    assert replies[0].json["id"] == replies[1].json["id"]
    assert api.get("threads/t").json["message_count"] == 1


def cut_off(monkeypatch: pytest.MonkeyPatch, answer: str) -> pytest.MonkeyPatch:
    """Let the process die after it wrote and before it noted the outcome."""

    def die(made: Any) -> Any:
        raise SystemError("cut off")

    monkeypatch.setattr(f"memory_app.chat.api.{answer}.of", die)
    return monkeypatch


@pytest.mark.parametrize("own", [{}, {"id": "m"}])
def test_a_message_whose_request_was_cut_off_is_stored_once(
    api: Api, monkeypatch: pytest.MonkeyPatch, own: dict[str, str]
) -> None:
    api.post("threads", {"id": "t"})
    body = {"role": "user", "content": "once", **own}
    with monkeypatch.context() as patch:
        cut_off(patch, "MessageAnswer")
        assert api.post("threads/t/messages", body, Idempotency_Key="k").status == 500
    again = api.post("threads/t/messages", body, Idempotency_Key="k")
    assert (again.status, again.json["content"], again.json["seq"]) == (201, "once", 0)
    assert api.get("threads/t").json["message_count"] == 1


@pytest.mark.parametrize("own", [{}, {"id": "t"}])
def test_a_thread_whose_request_was_cut_off_is_made_once(
    api: Api, monkeypatch: pytest.MonkeyPatch, own: dict[str, str]
) -> None:
    with monkeypatch.context() as patch:
        cut_off(patch, "ThreadAnswer")
        assert api.post("threads", own, Idempotency_Key="k").status == 500
    again = api.post("threads", own, Idempotency_Key="k")
    assert again.status == 201
    assert [thread["id"] for thread in api.get("threads").json["results"]] == [again.json["id"]]


def test_a_key_makes_nobody_elses_thread_or_message_ones_own(api: Api) -> None:
    api.post("threads", {"id": "t"})
    posted(api, "t", {"role": "user", "content": "first", "id": "m"})
    body = {"role": "user", "content": "second", "id": "m"}
    for _ in range(2):
        assert api.post("threads", {"id": "t"}, Idempotency_Key="k").code == "thread_id_taken"
        assert api.post("threads/t/messages", body, Idempotency_Key="l").code == "message_id_taken"


def test_what_was_said_goes_with_its_thread_and_no_repetition_brings_it_back(api: Api) -> None:
    api.post("threads", {"id": "t"})
    body = {"role": "user", "content": "a secret word"}
    assert api.post("threads/t/messages", body, Idempotency_Key="k").status == 201
    api.call("DELETE", "threads/t")
    kept = [
        str(row) for model in apps.get_app_config("memory_app").get_models() for row in model.objects.values()
    ]
    assert kept
    assert not any("secret" in row for row in kept)
    api.post("threads", {"id": "t"})
    assert api.post("threads/t/messages", body, Idempotency_Key="k").code == "thread_not_found"
    assert api.get("threads/t/messages").json["results"] == []


def test_recall_brings_what_was_said_today_and_not_remembered(api: Api) -> None:
    manager = HistoryManager(DjangoStorage(owner="ada"))
    manager.create_thread(thread_id="morning")
    manager.add_messages("morning", [Message("The plumber comes at ten.", "user", id="m1")])
    topic = {"topic": "When does the plumber come?"}
    (turn,) = api.post("retrieve", topic).json["pack"]["recent_turns"]
    assert (turn["raw_ref"], turn["conversation_id"], turn["remembered"]) == ("m1", "morning", False)
    assert "not yet remembered" in api.post("retrieve?format=prompt", topic).json["volatile"]
    api.remember("The plumber comes at ten.", raw_refs=["m1"])
    assert api.post("retrieve", topic).json["pack"]["recent_turns"] == []
