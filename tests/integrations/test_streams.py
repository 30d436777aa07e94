"""Streams with history, however they end."""

import gc

import pytest

from charactermemory.testing.openai_stub import Reply, tool_call

openai = pytest.importorskip("openai")


def user(text):
    return {"role": "user", "content": text}


def words(chunks):
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


@pytest.mark.spec("history-51")
def test_a_stream_is_passed_on_unchanged_and_stored_once(stub, ask, make_client, manager):
    reply = Reply(text="the rain in Spain stays mainly", more=["something else"])
    stub.queue(reply, reply)
    options = {"stream": True, "stream_options": {"include_usage": True}}
    bare = make_client().chat.completions.create(model="m", messages=[user("hi")], **options)
    expected = [chunk.model_dump() for chunk in bare]
    stream = ask("hi", **options)
    assert stream._thread_id == "t"
    assert [chunk.model_dump() for chunk in stream] == expected
    assert expected[-1]["choices"] == []
    stream.close()
    del stream
    gc.collect()
    stored = manager.get_messages("t")
    assert [message.content for message in stored] == [
        "hi",
        "the rain in Spain stays mainly",
        "something else",
    ]
    assert stored[1].metadata == {
        "type": "output",
        "finish_reason": "stop",
        "model": "m",
        "choice": 0,
        "usage": {"prompt_tokens": 7, "completion_tokens": 6, "total_tokens": 13},
    }
    assert stored[1].token_count == 6
    assert stored[2].hidden


@pytest.mark.spec("history-52")
def test_streamed_tool_calls_are_put_together(stub, ask, manager):
    calls = [tool_call("a", "first", '{"city": "Oslo"}'), tool_call("b", "second", '{"n": 12345}')]
    stub.call(*calls)
    list(ask("go", stream=True))
    assert manager.get_messages("t")[1].tool_calls == calls
    results = [{"role": "tool", "tool_call_id": call["id"], "content": "done"} for call in calls]
    ask(*results)
    assert stub.bodies[1]["messages"] == [
        user("go"),
        {"role": "assistant", "content": None, "tool_calls": calls},
        *results,
    ]


def abandoned(stream):
    for _chunk in stream:
        if _chunk.choices[0].delta.content:
            break


def closed(stream):
    while not next(stream).choices[0].delta.content:
        pass
    stream.close()


def left_by_with(stream):
    with stream:
        while not next(stream).choices[0].delta.content:
            pass


def forgotten(stream):
    while not next(stream).choices[0].delta.content:
        pass
    del stream
    gc.collect()


@pytest.mark.spec("history-53")
@pytest.mark.parametrize("leave", [abandoned, closed, left_by_with, forgotten])
def test_a_stream_left_early_is_stored_as_partial(stub, ask, manager, leave):
    stub.queue(Reply(text="abcdefgh", delay=0.01))
    stream = ask("hi", stream=True)
    response = stream._inner.response
    # The stream is handed over, so that nothing here keeps it alive.
    holder = [stream]
    del stream
    leave(holder.pop())
    assert response.is_closed
    stored = manager.get_messages("t")
    assert [message.content for message in stored] == ["hi", "ab"]
    assert stored[1].metadata["partial"] is True
    ask("again")
    assert stub.bodies[1]["messages"] == [user("hi"), user("again")]


@pytest.mark.spec("history-53")
def test_a_stream_that_breaks_off_is_stored_as_partial(stub, ask, manager):
    stub.queue(Reply(text="abcdefgh", break_after=3))
    stream = ask("hi", stream=True)
    with pytest.raises(openai.APIConnectionError):
        list(stream)
    assert stream._inner.response.is_closed
    stored = manager.get_messages("t")
    assert [message.content for message in stored] == ["hi", "abcd"]
    assert stored[1].metadata["partial"] is True
    assert stored[1].hidden


def test_partial_answers_stay_in_the_window_when_wanted(stub, make_client, manager):
    client = make_client(history_manager=manager, partial_in_window=True)
    stub.queue(Reply(text="abcdefgh"))
    abandoned(client.chat.completions.create(model="m", messages=[user("hi")], stream=True, thread_id="t"))
    client.chat.completions.create(model="m", messages=[user("go on")], thread_id="t")
    assert stub.bodies[1]["messages"] == [user("hi"), {"role": "assistant", "content": "ab"}, user("go on")]


@pytest.mark.spec("history-54")
def test_the_stream_helper_works_with_history(stub, client, manager):
    stub.say("one two three four")
    with client.chat.completions.stream(model="m", messages=[user("hi")], thread_id="t") as stream:
        done = [event for event in stream if event.type == "content.done"]
        assert stream.get_final_completion().choices[0].message.content == "one two three four"
    assert done[0].content == "one two three four"
    assert [message.content for message in manager.get_messages("t")] == ["hi", "one two three four"]
    stub.say("one two three four")
    with client.chat.completions.stream(model="m", messages=[user("more")], thread_id="t") as stream:
        for event in stream:
            if event.type == "content.delta" and event.delta:
                break
    assert stub.bodies[1]["messages"][-1] == user("more")
    partial = manager.get_messages("t")[-1]
    assert (partial.content, partial.metadata["partial"]) == ("one t", True)


@pytest.mark.spec("history-54")
def test_parse_works_with_history(stub, client, manager):
    from pydantic import BaseModel

    class Weather(BaseModel):
        city: str

    stub.say('{"city": "Oslo"}')
    answer = client.chat.completions.parse(
        model="m", messages=[user("where?")], response_format=Weather, thread_id="t"
    )
    assert answer.choices[0].message.parsed == Weather(city="Oslo")
    assert answer._thread_id == "t"
    client.chat.completions.create(model="m", messages=[user("and?")], thread_id="t")
    assert stub.bodies[1]["messages"] == [
        user("where?"),
        {"role": "assistant", "content": '{"city": "Oslo"}'},
        user("and?"),
    ]


def test_an_answer_that_parse_refuses_is_stored(stub, client, manager, monkeypatch):
    from pydantic import BaseModel

    from charactermemory.testing import openai_frames

    class Weather(BaseModel):
        city: str

    monkeypatch.setattr(openai_frames, "_finish", lambda reply: "length")
    stub.say('{"city": "Os')
    with pytest.raises(openai.LengthFinishReasonError):
        client.chat.completions.parse(
            model="m", messages=[user("where?")], response_format=Weather, thread_id="t"
        )
    stored = manager.get_messages("t")
    assert [message.content for message in stored] == ["where?", '{"city": "Os']
    assert stored[1].metadata["finish_reason"] == "length"
