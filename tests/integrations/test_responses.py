"""The responses API with history."""

import pytest

from charactermemory.history import FIFO, ValidationError
from charactermemory.testing.openai_stub import Reply, tool_call


def user(text):
    return {"role": "user", "content": text}


@pytest.fixture
def respond(client):
    def respond(given, **options):
        return client.responses.create(model="m", input=given, **{"thread_id": "t", **options})

    return respond


def call_item(call_id):
    return {"type": "function_call", "call_id": call_id, "name": "f", "arguments": "{}"}


def output_item(call_id, text="done"):
    return {"type": "function_call_output", "call_id": call_id, "output": text}


def said(text):
    return {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }


def test_the_second_call_holds_the_first_exchange(respond, stub, manager):
    stub.say("one", "two")
    first = respond("first", instructions="be brief")
    assert first._thread_id == "t"
    assert first.output_text == "one"
    respond([user("second")])
    assert stub.bodies[0]["input"] == [user("first")]
    assert stub.bodies[0]["instructions"] == "be brief"
    assert stub.bodies[1]["input"] == [user("first"), said("one"), user("second")]
    stored = manager.get_messages("t")
    assert [message.content for message in stored] == ["first", "one", "second", "two"]
    assert stored[1].metadata == {
        "type": "output",
        "finish_reason": "completed",
        "model": "m",
        "response_id": "resp_stub",
        "usage": {"input_tokens": 7, "output_tokens": 1, "total_tokens": 8},
    }


def test_parallel_calls_with_reasoning_are_answered(respond, stub, manager):
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": []}
    calls = [{**call_item(name), "id": f"fc_{name}", "status": "completed"} for name in "ab"]
    stub.queue(Reply(output=[reasoning, *calls]))
    respond("go")
    respond([output_item("b"), output_item("a")])
    sent = stub.bodies[1]["input"]
    # Reasoning that only the API's side holds is not sent, nor the ids that would ask for it.
    assert sent == [user("go"), call_item("a"), call_item("b"), output_item("a"), output_item("b")]
    assert [message.role for message in manager.get_messages("t")] == [
        "user", "assistant", "tool", "tool", "assistant",
    ]  # fmt: skip


def test_encrypted_reasoning_is_sent_back_with_its_call(respond, stub):
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
    call = {**call_item("a"), "id": "fc_a", "status": "completed"}
    stub.queue(Reply(output=[reasoning, call]))
    respond("go", store=False)
    respond([output_item("a")])
    assert stub.bodies[1]["input"][1:3] == [reasoning, call]


def test_output_sent_again_is_recognised(respond, stub, manager):
    stub.queue(Reply(output=[{**call_item("a"), "id": "fc_a", "status": "completed"}]))
    told = [user("go")]
    first = respond(told)
    told += [*first.output, output_item("a")]
    second = respond(told)
    told += [*second.output, user("thanks")]
    respond(told)
    assert [len(body["input"]) for body in stub.bodies] == [1, 3, 5]
    assert [message.role for message in manager.get_messages("t")] == [
        "user", "assistant", "tool", "assistant", "user", "assistant",
    ]  # fmt: skip


def test_unanswered_calls_are_left_out(respond, stub):
    stub.queue(Reply(text="wait", tool_calls=[tool_call("a", "f")]))
    respond("go")
    respond("never mind")
    assert stub.bodies[1]["input"] == [user("go"), said("wait"), user("never mind")]


def test_a_call_the_window_left_out_is_fetched(respond, stub, manager):
    manager.algorithm = FIFO(1)
    stub.call(tool_call("a", "f"))
    respond("go")
    manager.add_message("t", "meanwhile", "user")
    respond([output_item("a")])
    assert stub.bodies[1]["input"] == [user("meanwhile"), call_item("a"), output_item("a")]


def test_a_conversation_the_api_keeps_is_not_sent_twice(respond, stub, manager):
    first = respond("first")
    respond("second", previous_response_id=first.id)
    assert stub.bodies[1]["input"] == "second"
    assert manager.message_count("t") == 4


def test_parts_and_metadata(respond, stub, manager):
    image = {"type": "input_image", "image_url": "https://example.org/cat.png", "detail": "low"}
    strange = {"type": "input_hologram", "depth": 3}
    given = {"role": "user", "content": [{"type": "input_text", "text": "look"}, image, strange]}
    respond([{**given, "metadata": {"importance": 1}}])
    respond("and now?")
    assert stub.bodies[0]["input"] == [given]
    assert stub.bodies[1]["input"][0] == given
    assert manager.get_messages("t")[0].metadata == {"type": "input", "importance": 1}


def test_a_thread_can_go_on_with_the_other_api(respond, ask, stub, manager):
    image = {"type": "image_url", "image_url": {"url": "https://example.org/cat.png", "detail": "low"}}
    ask({"role": "user", "content": [{"type": "text", "text": "look"}, image]})
    stub.call(tool_call("a", "f"))
    ask("go")
    ask({"role": "tool", "tool_call_id": "a", "content": "done"})
    respond("responses now")
    picture = {"type": "input_image", "image_url": "https://example.org/cat.png", "detail": "low"}
    assert stub.bodies[-1]["input"] == [
        {"role": "user", "content": [{"type": "input_text", "text": "look"}, picture]},
        {"role": "assistant", "content": "ok"},
        user("go"),
        call_item("a"),
        output_item("a"),
        {"role": "assistant", "content": "ok"},
        user("responses now"),
    ]
    ask("chat again")
    assert stub.bodies[-1]["messages"][-2:] == [{"role": "assistant", "content": "ok"}, user("chat again")]
    manager.delete_thread("t")
    stub.call(tool_call("b", "f"))
    respond("go")
    ask({"role": "tool", "tool_call_id": "b", "content": "done"})
    assert [message["role"] for message in stub.bodies[-1]["messages"]] == ["user", "assistant", "tool"]


def test_streams_are_stored_whole_or_partial(respond, client, stub, manager):
    stub.say("one two three four", "one two three four")
    events = [event.type for event in respond("hi", stream=True)]
    assert events[-1] == "response.completed"
    assert manager.get_messages("t")[1].content == "one two three four"
    for event in respond("more", stream=True):
        if event.type == "response.output_text.delta":
            break
    partial = manager.get_messages("t")[-1]
    assert (partial.content, partial.metadata["partial"], partial.hidden) == ("one t", True, True)
    stub.say("five")
    with client.responses.stream(model="m", input="go on", thread_id="t") as stream:
        assert stream.get_final_response().output_text == "five"
    assert stub.bodies[-1]["input"][-2:] == [user("more"), user("go on")]
    assert manager.get_messages("t")[-1].content == "five"


def test_parse_works(client, stub, manager):
    from pydantic import BaseModel

    class Weather(BaseModel):
        city: str

    stub.say('{"city": "Oslo"}')
    answer = client.responses.parse(model="m", input="where?", text_format=Weather, thread_id="t")
    assert answer.output_parsed == Weather(city="Oslo")
    client.responses.create(model="m", input="and?", thread_id="t")
    assert stub.bodies[1]["input"][1] == said('{"city": "Oslo"}')


@pytest.mark.parametrize("given", [[7], [{"role": "robot", "content": "hi"}]])
def test_what_is_no_item_is_refused(respond, stub, given):
    with pytest.raises(ValidationError):
        respond(given)
    assert stub.requests == []


def test_a_refusal_is_kept_as_such(respond, stub, manager):
    part = {"type": "refusal", "refusal": "I will not"}
    message = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }
    stub.queue(Reply(output=[message]))
    respond("do it")
    stored = manager.get_messages("t")[1]
    assert (stored.content, stored.null_content, stored.refusal) == ("", True, "I will not")
    respond("please")
    assert stub.bodies[1]["input"][1] == {"type": "message", "role": "assistant", "content": [part]}
