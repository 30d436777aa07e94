"""What only a host's database brings: its types, its transactions, its threads."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connections, transaction
from django.test.utils import CaptureQueriesContext

from charactermemory.history import (
    FIFO,
    AsyncHistoryManager,
    HistoryManager,
    KeepSystem,
    Message,
    StorageError,
    ThreadNotFoundError,
    TokenBudget,
    ValidationError,
)
from charactermemory.integrations.openai import with_history
from charactermemory.testing.openai_stub import OpenAIStub, tool_call
from memory_app.chat.storage import DjangoStorage
from memory_app.models import ChatMessage, ChatThread
from tests.history.seed_minimal import CustomAlgorithm

openai = pytest.importorskip("openai")


@pytest.mark.spec("history-37")
def test_appends_and_windows_cost_the_same_at_any_length(manager, storage):
    manager.create_thread(thread_id="t")
    manager.add_message("t", "first", "user")
    thread = ChatThread.objects.using(storage.database).get()
    fill(storage, thread, 5_000)

    def counted(work):
        with CaptureQueriesContext(connections[storage.database]) as seen:
            work()
        return [query["sql"] for query in seen if not query["sql"].startswith(("BEGIN", "COMMIT"))]

    assert len(counted(lambda: manager.add_message("t", "more", "user"))) <= 4
    manager.algorithm = FIFO(100)
    queries = counted(lambda: manager.get_thread("t"))
    assert len(queries) <= 2
    assert "LIMIT 100" in queries[-1]
    manager.algorithm = CustomAlgorithm(100)
    queries = counted(lambda: manager.get_thread("t"))
    assert len(queries) <= 2
    assert "LIMIT 100" in queries[-1]


@pytest.mark.usefixtures("on_sqlite")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "algorithm", [FIFO(20), KeepSystem(20), TokenBudget(300)], ids=lambda a: type(a).__name__
)
def test_sqlite_works_no_more_for_a_window_of_a_long_thread(algorithm):
    storage = DjangoStorage()
    manager = HistoryManager(storage, algorithm)
    manager.create_thread(thread_id="t")
    manager.add_message("t", "rules", "system")
    thread = ChatThread.objects.get()
    connection = connections["default"].connection

    def steps():
        """Count the steps, by tens, of SQLite's virtual machine: the same in every run."""
        counted = []
        connection.set_progress_handler(lambda: counted.append(1), 10)
        try:
            window = manager.get_thread("t").messages
        finally:
            connection.set_progress_handler(None, 0)
        assert len(window) > 5
        return len(counted)

    fill(storage, thread, 100)
    short = steps()
    ChatMessage.objects.exclude(seq=0).delete()
    fill(storage, thread, 5_000)
    assert steps() <= 2 * short


def fill(storage, thread, upto):
    """Add plain rows behind the thread's first, and count them."""
    rows = (
        ChatMessage(
            thread=thread,
            seq=seq,
            message_id=str(seq),
            role="user",
            created_at=thread.created_at,
            content=f"message {seq}",
            folded=f"message {seq}",
        )
        for seq in range(1, upto)
    )
    ChatMessage.objects.using(storage.database).bulk_create(rows, batch_size=500)
    ChatThread.objects.using(storage.database).update(next_seq=upto, message_count=upto)


@pytest.mark.parametrize("text", ["a NUL \x00 inside", "half a pair \ud83d alone"])
def test_what_a_text_column_cannot_hold_is_kept_all_the_same(manager, text):
    manager.create_thread(thread_id="t")
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": text}}
    manager.add_messages("t", [Message(text, "user"), Message(None, "assistant", tool_calls=[call])])
    first, second = manager.get_messages("t")
    assert first.content == text
    assert second.tool_calls == [call]
    assert [thread.id for thread in manager.search_threads({"content": text[:4]})] == ["t"]
    for wrong in (
        lambda: manager.create_thread(thread_id=text),
        lambda: manager.create_thread({"a": [text]}),
        lambda: manager.add_messages("t", [Message("x", "user", id=text)]),
        lambda: manager.add_message("t", "x", "user", {text: 1}),
        lambda: manager.update_thread_metadata("t", {"a": text}),
        lambda: manager.create_thread(thread_id="x" * 256),
    ):
        with pytest.raises(ValidationError):
            wrong()
    assert manager.message_count("t") == 2
    assert manager.search_threads({"metadata": {"a": text}}) == []
    with pytest.raises(ThreadNotFoundError):
        manager.get_messages(text)


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Tokyo"])
def test_times_are_aware_whatever_the_project_says(manager, storage, settings, zone):
    settings.TIME_ZONE = zone
    for use_tz in (True, False):
        settings.USE_TZ = use_tz
        thread_id = f"tz {use_tz}"
        manager.create_thread(thread_id=thread_id)
        moment = datetime(2026, 7, 1, 12, 30, 15, 123456, UTC)
        manager.add_messages(thread_id, [Message("hi", "user", created_at=moment)])
        thread = storage.get_thread(thread_id)
        assert thread.messages[0].created_at == moment
        assert thread.messages[0].created_at.tzinfo is UTC
        assert thread.updated_at == moment
        assert thread.messages.since(moment)
        assert not thread.messages.since(moment + timedelta(microseconds=1))


def test_a_write_belongs_to_the_hosts_transaction(manager, storage):
    manager.create_thread(thread_id="t")
    with pytest.raises(RuntimeError), transaction.atomic(using=storage.database):
        manager.add_message("t", "undone", "user")
        with pytest.raises(ValidationError):
            manager.add_messages("t", [Message("a", "user", id="same"), Message("b", "user", id="same")])
        manager.add_message("t", "undone too", "user")
        raise RuntimeError
    assert manager.message_count("t") == 0
    assert manager.get_messages("t") == []
    assert manager.add_message("t", "kept", "user").seq == 0


def test_no_gap_where_a_transaction_was_undone_between_others(manager, storage):
    manager.create_thread(thread_id="t")
    failures = []

    def write(number):
        for turn in range(10):
            try:
                with transaction.atomic(using=storage.database):
                    manager.add_message("t", f"{number}-{turn}", "user")
                    if (number + turn) % 3 == 0:
                        raise KeyError
            except KeyError:
                pass
            except Exception as error:
                failures.append(error)

    workers = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert failures == []
    messages = manager.get_messages("t")
    assert [message.seq for message in messages] == list(range(40))
    assert manager.message_count("t") == 40


def test_a_thread_deleted_meanwhile_is_not_written_to(manager, storage):
    manager.create_thread(thread_id="t")
    with pytest.raises(ThreadNotFoundError), storage.writing("gone"):
        pass
    assert manager.delete_thread("t")
    with pytest.raises(ThreadNotFoundError):
        manager.add_message("t", "late", "user")
    assert not ChatMessage.objects.using(storage.database).exists()


def test_failures_of_the_database_have_the_stores_type(manager, storage, monkeypatch):
    with monkeypatch.context() as broken:
        broken.setattr(ChatThread._meta, "db_table", "nowhere")
        with pytest.raises(StorageError, match="message store"):
            manager.list_threads()


@pytest.mark.spec("history-38")
def test_owners_do_not_see_each_other(manager, storage):
    """The manager's and the search's part; the API's is in test_api."""
    ann, bob = manager.scoped("ann"), manager.scoped("bob")
    ann.create_thread({"mood": "good"}, thread_id="t")
    ann.add_message("t", "secret", "user")
    assert bob.list_threads() == manager.list_threads() == []
    assert (
        bob.search_threads({"content": "secret"}) == bob.search_threads({"metadata": {"mood": "good"}}) == []
    )
    for call in (bob.get_thread, bob.get_messages, bob.message_count):
        with pytest.raises(ThreadNotFoundError):
            call("t")
    assert bob.delete_thread("t") is False
    bob.create_thread(thread_id="t")
    assert (bob.message_count("t"), ann.message_count("t")) == (0, 1)


@pytest.mark.spec("history-55")
def test_an_async_client_on_djangos_database(storage):
    manager = HistoryManager(storage)

    async def run(stub):
        async with openai.AsyncOpenAI(base_url=stub.url, api_key="any", max_retries=0) as bare:
            client = with_history(history_manager=manager)(bare)
            create = client.chat.completions.create

            def ask(text, thread, **options):
                messages = [{"role": "user", "content": text}] if isinstance(text, str) else text
                return create(model="m", messages=messages, thread_id=thread, **options)

            await ask("one", "a")
            await ask("two", "a")
            assert [m["content"] for m in stub.bodies[-1]["messages"]] == ["one", "ok", "two"]
            stub.call(tool_call("c", "f"))
            await ask("look", "b")
            await ask([{"role": "tool", "tool_call_id": "c", "content": "found"}], "b")
            assert [m["role"] for m in stub.bodies[-1]["messages"]] == ["user", "assistant", "tool"]
            async for _ in await ask("stream", "c", stream=True):
                pass
            stream = await ask("leave", "d", stream=True)
            await anext(stream)
            await stream.close()
            await asyncio.gather(*(ask(f"at once {n}", "e") for n in range(8)))

    with OpenAIStub() as stub:
        asyncio.run(run(stub))
    kept = {name: manager.get_messages(name) for name in "abcde"}
    assert [len(messages) for messages in kept.values()] == [4, 4, 2, 2, 16]
    assert [message.seq for message in kept["e"]] == list(range(16))
    assert kept["d"][-1].hidden
    assert kept["d"][-1].metadata["partial"] is True


def test_async_managers_and_hooks(storage):
    from charactermemory.history import BaseAlgorithm

    class Waiting(BaseAlgorithm):
        async def get_message_window(self, messages):
            await asyncio.sleep(0)
            return messages[-2:]

    manager = AsyncHistoryManager(HistoryManager(storage, Waiting()))

    async def run():
        await manager.create_thread(thread_id="t")
        for text in "abc":
            await manager.add_message("t", text, "user")
        first = await manager.get_thread("t")
        second = await manager.get_thread("t")  # on the same loop, after the first one left it as it was
        return [message.content for message in (*first.messages, *second.messages)]

    assert asyncio.run(run()) == ["b", "c", "b", "c"]
