"""Wrapping clients, threads without a name, and calls that fail."""

import copy
import inspect
import threading
from contextvars import copy_context
from types import SimpleNamespace

import pytest

from charactermemory.history import (
    FIFO,
    ConfigurationError,
    HistoryManager,
    MemoryStorage,
    StorageError,
    ValidationError,
    approximate_tokens,
    saving_failed,
)
from charactermemory.integrations.openai import use_thread, with_history
from charactermemory.testing.openai_stub import Reply

openai = pytest.importorskip("openai")


def user(text):
    return {"role": "user", "content": text}


def create(client, *messages, **options):
    return client.chat.completions.create(model="m", messages=list(messages), **options)


@pytest.mark.spec("history-42")
def test_threads_without_a_name(stub, client, manager):
    first = create(client, user("hi"))
    assert "_thread_id" not in first.model_dump()
    second = create(client, user("again"), thread_id=first._thread_id)
    assert second._thread_id == first._thread_id
    assert len(stub.bodies[1]["messages"]) == 3
    assert create(client, user("new"))._thread_id != first._thread_id

    with use_thread("outer"):
        create(client, user("o1"))
        with use_thread("inner"):
            create(client, user("i1"))
        create(client, user("o2"))
        create(client, user("x1"), thread_id="explicit")
        # A thread of execution that copies nothing starts without the context.
        seen = []
        other = threading.Thread(target=lambda: seen.append(create(client, user("alone"))._thread_id))
        other.start()
        other.join()
        assert copy_context().run(create, client, user("o3"))._thread_id == "outer"
    assert seen[0] not in ("outer", "inner")
    assert [m.content for m in manager.get_messages("outer") if m.role == "user"] == ["o1", "o2", "o3"]
    assert [m.content for m in manager.get_messages("inner") if m.role == "user"] == ["i1"]
    assert manager.message_count("explicit") == 2


def test_a_default_thread_serves_calls_without_one(make_client, manager):
    client = make_client(history_manager=manager, default_thread="home")
    create(client, user("hi"))
    with use_thread("away"):
        create(client, user("hi"))
    assert manager.message_count("home") == manager.message_count("away") == 2


@pytest.mark.spec("history-56")
@pytest.mark.parametrize("failure", ["status", "timeout"])
def test_a_failed_call_leaves_nothing_unless_told(stub, make_client, manager, failure):
    reply, error, options = {
        "status": (Reply(status=500), openai.InternalServerError, {}),
        "timeout": (Reply(delay=0.3), openai.APITimeoutError, {"timeout": 0.1}),
    }[failure]
    stub.queue(reply, reply)
    with pytest.raises(error):
        create(make_client(history_manager=manager), user("hi"), thread_id="t", **options)
    assert manager.list_threads() == []
    keeping = make_client(history_manager=manager, keep_input=True)
    with pytest.raises(error):
        create(keeping, user("hi"), thread_id="t", **options)
    (stored,) = manager.get_messages("t")
    assert stored.content == "hi"
    assert stored.metadata["failed"] is True
    create(keeping, user("hi"), thread_id="t")
    assert stub.bodies[-1]["messages"] == [user("hi")]


@pytest.mark.spec("history-57")
@pytest.mark.parametrize("stream", [False, True])
def test_a_storage_failure_never_costs_the_answer(stub, make_client, manager, monkeypatch, caplog, stream):
    heard = []

    def hear(sender, **values):
        heard.append(values)

    def broken(*_):
        raise StorageError(storage="disk", detail="full")

    client = make_client(history_manager=manager)
    raising = make_client(history_manager=manager, raise_storage_errors=True)
    monkeypatch.setattr(manager, "add_messages", broken)
    saving_failed.connect(hear)
    try:
        answer = create(client, user("hi"), thread_id="t", stream=stream)
        if stream:
            text = "".join(chunk.choices[0].delta.content or "" for chunk in answer)
        else:
            text = answer.choices[0].message.content
        assert text == "ok"
        assert "could not be stored" in caplog.text
        ((values),) = heard
        assert values["thread_id"] == "t"
        assert [message.content for message in values["messages"]] == ["hi", "ok"]
        assert isinstance(values["error"], StorageError)
        with pytest.raises(StorageError):
            list(create(raising, user("hi"), thread_id="t", stream=stream))
    finally:
        saving_failed.disconnect(hear)


@pytest.mark.spec("history-58")
def test_of_several_choices_the_first_goes_on(stub, client, manager):
    stub.queue(Reply(text="first", more=["second", "third"]))
    create(client, user("hi"), thread_id="t", n=3)
    create(client, user("more"), thread_id="t")
    assert [message["content"] for message in stub.bodies[1]["messages"]] == ["hi", "first", "more"]
    stored = manager.get_messages("t")
    assert [message.content for message in stored[:4]] == ["hi", "first", "second", "third"]
    assert [message.metadata.get("choice") for message in stored[1:4]] == [0, 1, 2]


@pytest.mark.spec("history-59")
def test_wrapping_is_idempotent_and_stays_with_its_client(stub, make_client, manager):
    client = make_client(history_manager=manager)
    client = with_history(history_manager=manager)(client)
    create(client, user("hi"), thread_id="t")
    assert manager.message_count("t") == 2
    assert len(manager.list_threads()) == 1
    bare = make_client()
    with pytest.raises(TypeError):
        create(bare, user("hi"), thread_id="t")
    create(bare, user("hi"))
    assert len(manager.list_threads()) == 1

    create(client.with_options(timeout=5), user("again"), thread_id="t")
    create(client.copy(), user("and again"), thread_id="t")
    assert len(stub.bodies[-1]["messages"]) == 5
    raw = client.chat.completions.with_raw_response.create(model="m", messages=[user("raw")], thread_id="t")
    assert raw.parse().choices[0].message.content == "ok"
    assert raw.headers["content-type"] == "application/json"
    assert manager.message_count("t") == 8

    other = HistoryManager(MemoryStorage())
    create(with_history(history_manager=other)(client), user("elsewhere"), thread_id="t")
    assert (manager.message_count("t"), other.message_count("t")) == (8, 2)


def test_a_streamed_raw_response_is_passed_on(client, manager, caplog):
    with client.chat.completions.with_streaming_response.create(
        model="m", messages=[user("raw")], thread_id="t"
    ) as response:
        assert response.parse().choices[0].message.content == "ok"
    assert "passed on as it is" in caplog.text
    assert manager.list_threads() == []


@pytest.mark.spec("history-60")
def test_what_the_caller_gives_is_left_alone_and_checked(stub, client, manager):
    given = [{**user("hi"), "metadata": {"a": [1]}}]
    before = copy.deepcopy(given)
    create(client, *given, thread_id="t")
    assert given == before
    client.chat.completions.create(model="m", messages=(user(text) for text in ("g1", "g2")), thread_id="g")
    assert stub.bodies[-1]["messages"] == [user("g1"), user("g2")]
    assert [message.content for message in manager.get_messages("g")] == ["g1", "g2", "ok"]

    sent = len(stub.requests)
    wrong = (
        [{"role": "robot", "content": "hi"}],
        [{"content": "hi"}],
        [{"role": "user", "content": 7}],
        ["hi"],
        [{**user("hi"), "metadata": {"bad": object()}}],
    )
    for messages in wrong:
        with pytest.raises(ValidationError):
            create(client, *messages, thread_id="t")
    with pytest.raises(ValidationError, match="thread_id"):
        create(client, user("hi"), thread_id=7)
    with pytest.raises(ValidationError, match="thread_metadata"):
        create(client, user("hi"), thread_metadata={"bad": object()})
    assert len(stub.requests) == sent


def fake_answer(text):
    message = SimpleNamespace(role="assistant", content=text, tool_calls=None)
    return SimpleNamespace(
        choices=[SimpleNamespace(index=0, message=message, finish_reason="stop")], model="fake"
    )


@pytest.mark.spec("history-60")
def test_clients_that_only_look_like_openais_are_accepted(manager):
    import asyncio

    sent = []

    def answer(**kwargs):
        sent.append(kwargs["messages"])
        return fake_answer("fake")

    async def answer_later(**kwargs):
        await asyncio.sleep(0)
        return answer(**kwargs)

    for kind in (answer, answer_later):
        fake = SimpleNamespace(chat=SimpleNamespace(completions=SimpleNamespace(create=kind)))
        client = with_history(history_manager=manager)(fake)
        for text in ("one", "two"):
            said = create(client, user(text), thread_id=kind.__name__)
            said = asyncio.run(said) if inspect.isawaitable(said) else said
            assert said.choices[0].message.content == "fake"
        assert [message["content"] for message in sent[-1]] == ["one", "fake", "two"]


@pytest.mark.spec("history-61")
def test_a_storage_or_a_manager_is_needed(stub, make_client):
    with pytest.raises(ConfigurationError):
        with_history()
    with pytest.raises(ConfigurationError):
        with_history(storage=MemoryStorage(), history_manager=HistoryManager(MemoryStorage()))
    with pytest.raises(ConfigurationError):
        with_history(algorithm=FIFO(2), history_manager=HistoryManager(MemoryStorage()))
    with pytest.raises(ConfigurationError, match="SimpleNamespace"):
        with_history(storage=MemoryStorage())(SimpleNamespace())
    apart, joined = MemoryStorage(), MemoryStorage()
    for client in (
        make_client(storage=apart, algorithm=FIFO(2)),
        make_client(history_manager=HistoryManager(joined, FIFO(2))),
    ):
        for text in "abc":
            create(client, user(text), thread_id="t")
    assert stub.bodies[2]["messages"] == stub.bodies[5]["messages"]
    assert len(stub.bodies[2]["messages"]) == 3
    stored = [
        [message.content for message in storage.get_thread("t").messages] for storage in (apart, joined)
    ]
    assert stored[0] == stored[1]


def test_tokens_are_counted_for_both_sides(stub, client, manager):
    stub.say("five words are in this")
    create(client, user("a question of some length"), thread_id="t")
    question, answer = manager.get_messages("t")
    assert answer.token_count == 5
    assert question.token_count == approximate_tokens(question) == 10
    assert manager.get_thread("t").token_total == 15
