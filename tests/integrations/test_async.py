"""The async client with history."""

import asyncio
import threading

import pytest

from charactermemory.history import FIFO, HistoryManager, Message, SQLiteStorage
from charactermemory.integrations.openai import use_thread, with_history
from charactermemory.testing.openai_stub import Reply, tool_call

openai = pytest.importorskip("openai")

pytestmark = pytest.mark.spec("history-55")


def user(text):
    return {"role": "user", "content": text}


@pytest.fixture
def talk(stub, manager):
    """Run a coroutine function with a wrapped client that sends user texts in thread "t"."""

    def run(conversation, **options):
        async def main():
            async with openai.AsyncOpenAI(base_url=stub.url, api_key="any", max_retries=0) as client:
                wrapped = with_history(history_manager=manager, **options)(client)

                async def ask(*messages, **arguments):
                    sent = [user(item) if isinstance(item, str) else item for item in messages]
                    return await wrapped.chat.completions.create(
                        model="m", messages=sent, **{"thread_id": "t", **arguments}
                    )

                ask.client = wrapped
                return await conversation(ask)

        return asyncio.run(main())

    return run


def test_the_second_call_holds_the_first_exchange(talk, stub, manager):
    async def conversation(ask):
        stub.say("one", "two")
        first = await ask("first")
        assert first._thread_id == "t"
        await ask("second")

    talk(conversation)
    assert stub.bodies[1]["messages"] == [
        user("first"),
        {"role": "assistant", "content": "one"},
        user("second"),
    ]
    stored = manager.get_messages("t")
    assert [message.metadata["type"] for message in stored] == ["input", "output"] * 2
    assert stored[3].metadata["finish_reason"] == "stop"
    assert stored[3].metadata["model"] == "m"


def test_a_result_alone_is_enough(talk, stub):
    async def conversation(ask):
        stub.call(tool_call("c1", "f"))
        await ask("go")
        await ask({"role": "tool", "tool_call_id": "c1", "content": "done"})

    talk(conversation)
    assert [message["role"] for message in stub.bodies[1]["messages"]] == ["user", "assistant", "tool"]


def test_a_stream_is_passed_on_unchanged_and_stored_once(talk, stub, manager):
    async def conversation(ask):
        reply = Reply(text="the rain in Spain")
        stub.queue(reply, reply)
        options = {"stream": True, "stream_options": {"include_usage": True}}
        async with openai.AsyncOpenAI(base_url=stub.url, api_key="any") as bare:
            plain = await bare.chat.completions.create(model="m", messages=[user("hi")], **options)
            expected = [chunk.model_dump() async for chunk in plain]
        stream = await ask("hi", **options)
        assert [chunk.model_dump() async for chunk in stream] == expected
        await stream.close()

    talk(conversation)
    stored = manager.get_messages("t")
    assert [message.content for message in stored] == ["hi", "the rain in Spain"]
    assert stored[1].metadata["finish_reason"] == "stop"
    assert stored[1].token_count == stored[1].metadata["usage"]["completion_tokens"] == 4


async def read_a_little(stream):
    while not (await anext(stream)).choices[0].delta.content:
        pass


async def abandoned(stream):
    async for chunk in stream:
        if chunk.choices[0].delta.content:
            break


async def closed(stream):
    await read_a_little(stream)
    await stream.close()


async def left_by_with(stream):
    async with stream:
        await read_a_little(stream)


async def cancelled(stream):
    reading = asyncio.Event()

    async def read():
        async for chunk in stream:
            if chunk.choices[0].delta.content:
                reading.set()

    task = asyncio.create_task(read())
    await reading.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("leave", [abandoned, closed, left_by_with, cancelled])
def test_a_stream_left_early_is_stored_as_partial(talk, stub, manager, leave):
    async def conversation(ask):
        stub.queue(Reply(text="abcdefgh", delay=0.05))
        stream = await ask("hi", stream=True)
        response = stream._inner.response
        await leave(stream)
        await ask("again")
        assert response.is_closed

    talk(conversation)
    stored = manager.get_messages("t")
    assert [message.content for message in stored] == ["hi", "ab", "again", "ok"]
    assert stored[1].metadata["partial"] is True
    assert stub.bodies[1]["messages"] == [user("hi"), user("again")]


def test_a_stream_that_breaks_off_is_stored_as_partial(talk, stub, manager):
    async def conversation(ask):
        stub.queue(Reply(text="abcdefgh", break_after=3))
        stream = await ask("hi", stream=True)
        with pytest.raises(openai.APIConnectionError):
            async for _ in stream:
                pass
        assert stream._inner.response.is_closed

    talk(conversation)
    stored = manager.get_messages("t")
    assert [(message.content, message.hidden) for message in stored] == [("hi", False), ("abcd", True)]


def test_the_stream_helpers_and_parse_work(talk, stub, manager):
    from pydantic import BaseModel

    class Weather(BaseModel):
        city: str

    async def conversation(ask):
        stub.say("one two three", '{"city": "Oslo"}', "four five")
        completions = ask.client.chat.completions
        async with completions.stream(model="m", messages=[user("hi")], thread_id="t") as stream:
            async for _ in stream:
                pass
        parsed = await completions.parse(
            model="m", messages=[user("where")], response_format=Weather, thread_id="t"
        )
        assert parsed.choices[0].message.parsed == Weather(city="Oslo")
        async with ask.client.responses.stream(model="m", input="and", thread_id="t") as stream:
            assert (await stream.get_final_response()).output_text == "four five"

    talk(conversation)
    assert [message.content for message in manager.get_messages("t")] == [
        "hi", "one two three", "where", '{"city": "Oslo"}', "and", "four five",
    ]  # fmt: skip


def test_tasks_have_their_own_threads(talk, manager):
    async def conversation(ask):
        async def speak(name):
            with use_thread(name):
                await asyncio.sleep(0)
                return await ask("hi", thread_id=None)

        answers = await asyncio.gather(speak("a"), speak("b"))
        assert [answer._thread_id for answer in answers] == ["a", "b"]

    talk(conversation)
    assert manager.message_count("a") == manager.message_count("b") == 2


def test_concurrent_calls_on_one_thread_are_all_stored(talk, manager):
    async def conversation(ask):
        await asyncio.gather(*(ask(f"question {number}") for number in range(8)))

    talk(conversation)
    assert manager.message_count("t") == 16
    assert [message.seq for message in manager.get_messages("t")] == list(range(16))


def test_storage_does_not_block_the_event_loop(stub, tmp_path):
    manager = HistoryManager(SQLiteStorage(tmp_path / "long.db"), FIFO(50))
    manager.create_thread(thread_id="t")
    manager.add_messages("t", [Message("text " * 40, "user") for _ in range(10_000)])
    began, loop_ran = threading.Event(), threading.Event()
    waited = []

    def wait_for_the_loop(work):
        """Let a storage's work go on only after the loop has: on the loop itself that would never be."""

        def work_later(*arguments):
            began.set()
            waited.append(loop_ran.wait(10))
            began.clear()
            loop_ran.clear()
            return work(*arguments)

        return work_later

    manager.storage.get_thread = wait_for_the_loop(manager.storage.get_thread)
    manager.storage.writing = wait_for_the_loop(manager.storage.writing)

    async def main():
        async with openai.AsyncOpenAI(base_url=stub.url, api_key="any") as client:
            client = with_history(history_manager=manager)(client)

            async def run_on():
                while True:
                    await asyncio.sleep(0.001)
                    if began.is_set():
                        loop_ran.set()

            running = asyncio.create_task(run_on())
            await client.chat.completions.create(model="m", messages=[user("hi")], thread_id="t")
            running.cancel()

    asyncio.run(main())
    assert len(waited) >= 2 and all(waited)
    del manager.storage.get_thread, manager.storage.writing
    assert manager.message_count("t") == 10_002
    manager.storage.close()
