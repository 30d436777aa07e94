"""Chat completions with history: what is sent and what is stored."""

import pytest

from charactermemory.history import (
    FIFO,
    AlgorithmError,
    BaseAlgorithm,
    HistoryManager,
    KeepSystem,
    Message,
    SQLiteStorage,
    ThreadNotFoundError,
)
from charactermemory.testing.openai_stub import Reply, tool_call


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


def system(text):
    return {"role": "system", "content": text}


def result(call, text="done"):
    return {"role": "tool", "tool_call_id": call, "content": text}


def roles(body):
    return [message["role"] for message in body["messages"]]


def ids_of(message):
    return [call["id"] for call in message.get("tool_calls") or ()]


class Fixed(BaseAlgorithm):
    """Returns what a function makes of the messages."""

    def __init__(self, choose):
        super().__init__()
        self.choose = choose

    def get_message_window(self, messages):
        return self.choose(messages)


@pytest.mark.spec("history-40")
def test_the_second_call_holds_the_first_exchange(ask, stub, manager):
    stub.say("one", "two")
    ask("first")
    ask("second")
    assert stub.bodies[1]["messages"] == [user("first"), assistant("one"), user("second")]
    stored = manager.get_messages("t")
    assert [message.content for message in stored] == ["first", "one", "second", "two"]
    assert [message.metadata["type"] for message in stored] == ["input", "output"] * 2
    assert stored[1].metadata["finish_reason"] == "stop"
    assert stored[1].metadata["model"] == "m"


@pytest.mark.spec("history-41")
def test_an_unknown_thread_is_created_or_refused(ask, stub, manager, make_client):
    ask("hi", thread_id="my-thread", thread_metadata={"topic": "rain"})
    assert manager.message_count("my-thread") == 2
    assert manager.get_thread("my-thread").metadata == {"topic": "rain"}
    strict = make_client(history_manager=manager, create_missing=False)
    before = len(stub.requests)
    with pytest.raises(ThreadNotFoundError, match="nowhere"):
        strict.chat.completions.create(model="m", messages=[user("hi")], thread_id="nowhere")
    assert len(stub.requests) == before
    strict.chat.completions.create(model="m", messages=[user("hi")])
    assert len(manager.list_threads()) == 2


@pytest.mark.spec("history-17")
def test_a_failing_window_stops_the_call_before_it_is_sent(ask, stub, manager):
    ask("hi")
    manager.algorithm = Fixed(lambda messages: 1 / 0)
    with pytest.raises(AlgorithmError, match="Fixed"):
        ask("again")
    assert len(stub.requests) == 1


@pytest.mark.spec("history-21")
def test_the_algorithms_order_is_kept_but_for_tool_pairs(ask, stub, manager):
    manager.create_thread(thread_id="t")
    manager.add_messages(
        "t",
        [
            Message("a", "user", metadata={"score": 1}),
            Message(None, "assistant", tool_calls=[tool_call("c", "f")], metadata={"score": 5}),
            Message("tool says", "tool", tool_call_id="c", metadata={"score": 2}),
            Message("b", "assistant", metadata={"score": 4}),
            Message("c", "user", metadata={"score": 3}),
        ],
    )
    manager.algorithm = Fixed(
        lambda messages: sorted(messages, key=lambda message: -message.metadata["score"])
    )
    ask("new")
    contents = [message["content"] for message in stub.bodies[0]["messages"]]
    assert contents == [None, "tool says", "b", "c", "a", "new"]


@pytest.mark.spec("history-22")
@pytest.mark.parametrize("count", [2, 3, 4])
def test_a_window_cut_through_a_pair_is_repaired(ask, stub, manager, count):
    manager.create_thread(thread_id="t")
    manager.add_messages(
        "t",
        [
            Message("rules", "system"),
            Message("ask", "user"),
            Message(None, "assistant", tool_calls=[tool_call("c", "f")]),
            Message("tool says", "tool", tool_call_id="c"),
            Message("answer", "assistant"),
            Message("more", "user"),
        ],
    )
    whole = {
        2: ["assistant", "user"],
        3: ["assistant", "user"],
        4: ["assistant", "tool", "assistant", "user"],
    }
    manager.algorithm = FIFO(count)
    ask("new")
    assert roles(stub.bodies[0]) == [*whole[count], "user"]
    manager.delete_thread("t")
    manager.create_thread(thread_id="t")
    manager.add_messages("t", [Message("rules", "system"), *(Message(str(n), "user") for n in range(5))])
    manager.algorithm = KeepSystem(count)
    ask("new")
    assert stub.bodies[1]["messages"][0] == system("rules")
    assert len(stub.bodies[1]["messages"]) == count + 2


@pytest.mark.spec("history-43")
@pytest.mark.parametrize("role", ["system", "developer"])
def test_instructions_given_replace_stored_ones(ask, stub, manager, role):
    def instruct(text):
        return {"role": role, "content": text}

    ask(instruct("S1"), "one")
    ask(instruct("S2"), "two")
    assert stub.bodies[1]["messages"][0] == instruct("S2")
    assert instruct("S1") not in stub.bodies[1]["messages"]
    ask("three")
    assert [message for message in stub.bodies[2]["messages"] if message["role"] == role] == [instruct("S2")]
    for number in range(5):
        ask(instruct("S3"), f"again {number}", thread_id="same")
        assert roles(stub.bodies[-1]).count(role) == 1
    assert [message.role for message in manager.get_messages("same")].count(role) == 1
    ask(instruct("S1"), "back")
    assert [m.content for m in manager.get_messages("t") if m.role == role] == ["S1", "S2", "S1"]


@pytest.mark.spec("history-44")
def test_a_list_sent_again_is_recognised(ask, stub, manager):
    told = []
    for turn in range(4):
        stub.say(f"answer {turn}")
        told.append(user(f"question {turn}"))
        answer = ask(*told)
        told.append(assistant(answer.choices[0].message.content))
    assert [len(body["messages"]) for body in stub.bodies] == [1, 3, 5, 7]
    assert manager.message_count("t") == 8
    ask("hello", thread_id="greeting")
    ask("hello", thread_id="greeting")
    assert [message.content for message in manager.get_messages("greeting")] == ["hello", "ok"] * 2


def test_a_list_sent_again_is_recognised_under_a_storage_cap(stub, make_client):
    manager = HistoryManager(SQLiteStorage(":memory:", max_messages=3))
    client = make_client(history_manager=manager)
    told = []
    for turn in range(4):
        stub.say(f"answer {turn}")
        told.append(user(f"question {turn}"))
        client.chat.completions.create(model="m", messages=told, thread_id="t")
        told.append(assistant(f"answer {turn}"))
    assert [message.content for message in manager.get_messages("t")] == [
        "answer 2",
        "question 3",
        "answer 3",
    ]


@pytest.mark.spec("history-45")
def test_a_result_alone_is_enough_and_survives_a_restart(stub, make_client, tmp_path):
    first = HistoryManager(SQLiteStorage(tmp_path / "restart.db"))
    stub.call(tool_call("c1", "f", '{"x": 1}'))
    client = make_client(history_manager=first)
    client.chat.completions.create(model="m", messages=[user("go")], thread_id="t")
    client.chat.completions.create(model="m", messages=[result("c1")], thread_id="t")
    valid = [user("go"), {**assistant(None), "tool_calls": [tool_call("c1", "f", '{"x": 1}')]}, result("c1")]
    assert stub.bodies[1]["messages"] == valid
    first.storage.close()
    again = HistoryManager(SQLiteStorage(tmp_path / "restart.db"))
    make_client(history_manager=again).chat.completions.create(
        model="m", messages=[user("and?")], thread_id="t"
    )
    assert stub.bodies[2]["messages"] == [*valid, assistant("ok"), user("and?")]
    again.storage.close()


@pytest.mark.spec("history-46")
@pytest.mark.parametrize("way", [("a", "b"), ("b", "a"), "apart", "apart, swapped"])
def test_parallel_calls_are_answered_in_any_way(ask, stub, way):
    stub.call(tool_call("a", "f"), tool_call("b", "f"))
    ask("go")
    if isinstance(way, tuple):
        ask(*(result(call, call) for call in way))
    else:
        for call in ("b", "a") if "swapped" in way else ("a", "b"):
            ask(result(call, call))
    messages = stub.bodies[-1]["messages"]
    assert [ids_of(message) for message in messages if ids_of(message)] == [["a", "b"]]
    answered = [message for message in messages if message["role"] == "tool"]
    assert sorted(message["content"] for message in answered) == ["a", "b"]
    ask("next")
    assert [message["role"] for message in stub.bodies[-1]["messages"]].count("tool") == 2


@pytest.mark.spec("history-47")
def test_the_assistant_sent_again_with_the_result_is_one_message(ask, stub, manager):
    stub.call(tool_call("c", "f"))
    answer = ask("go")
    ask(answer.choices[0].message, result("c"))
    assert roles(stub.bodies[1]) == ["user", "assistant", "tool"]
    assert [message.role for message in manager.get_messages("t")] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]


@pytest.mark.spec("history-48")
def test_result_and_user_in_one_call_keep_their_order(ask, stub):
    stub.call(tool_call("c", "f"))
    ask("go")
    ask(result("c"), "and tell me")
    assert roles(stub.bodies[1]) == ["user", "assistant", "tool", "user"]
    stub.call(tool_call("d", "f"))
    ask("more")
    ask("by the way", result("d"))
    assert roles(stub.bodies[-1])[-3:] == ["assistant", "tool", "user"]


@pytest.mark.spec("history-49")
def test_an_unanswered_call_is_left_out_and_stays_stored(ask, stub, manager):
    stub.call(tool_call("c", "f"))
    ask("go")
    before = [message.to_dict() for message in manager.get_messages("t")]
    ask("never mind")
    assert stub.bodies[1]["messages"] == [user("go"), user("never mind")]
    assert [message.to_dict() for message in manager.get_messages("t")][: len(before)] == before


@pytest.mark.spec("history-50")
def test_parts_and_unknown_fields_reach_the_wire(ask, stub, manager):
    image = {"type": "image_url", "image_url": {"url": "https://example.org/cat.png"}}
    audio = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
    strange = {"type": "hologram", "depth": 3}
    given = {
        "role": "user",
        "content": [
            {"type": "text", "text": "look", "cache_control": {"type": "ephemeral"}},
            image,
            audio,
            strange,
        ],
        "name": "Ann",
        "cache_control": {"type": "ephemeral"},
        "metadata": {"importance": 0.9},
    }
    ask(given)
    wire = {key: value for key, value in given.items() if key != "metadata"}
    assert stub.bodies[0]["messages"] == [wire]
    ask("and now?")
    assert stub.bodies[1]["messages"][0] == wire
    stored = manager.get_messages("t")[0]
    assert stored.metadata == {"type": "input", "importance": 0.9}
    assert stored.extra == {"cache_control": {"type": "ephemeral"}}


def test_fields_of_the_answer_that_nobody_knows_are_sent_back(ask, stub):
    stub.queue(Reply(text="hm", message={"reasoning_content": "let me think", "annotations": []}))
    ask("why?")
    ask("go on")
    assert stub.bodies[1]["messages"][1] == {**assistant("hm"), "reasoning_content": "let me think"}


def test_message_metadata_reaches_every_message_of_the_call(ask, manager):
    ask("hi", message_metadata={"importance": 1})
    assert [message.metadata["importance"] for message in manager.get_messages("t")] == [1, 1]


def test_a_result_of_an_unknown_call_is_the_callers_to_hear_of(ask):
    with pytest.raises(Exception, match="preceding message"):
        ask(result("nobody"))
