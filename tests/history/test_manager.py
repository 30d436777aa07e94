"""Threads and messages through the manager, on every storage."""

import json
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from charactermemory.history import (
    FIFO,
    HistoryManager,
    MemoryStorage,
    Message,
    SQLiteStorage,
    StorageError,
    Thread,
    ThreadNotFoundError,
    ValidationError,
)
from charactermemory.history.models import ROLES
from tests.history.seed_advanced import SmartAlgorithm


@pytest.fixture
def manager(storage):
    ticks = count()
    return HistoryManager(
        storage, clock=lambda: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=next(ticks))
    )


def contents(messages):
    return [message.content for message in messages]


def every_kind():
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    custom = {"id": "c2", "type": "custom", "custom": {"name": "g", "input": "free text"}}
    parts = [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png", "detail": "low"}},
        {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
    ]
    return [
        Message(None, "assistant", tool_calls=[call, custom]),
        Message("", "user"),
        Message("Ünïcödé 漢字 🐈", "user", name="Ann"),
        Message(parts, "user", metadata={"deep": {"list": [1, 2.5, None, True], "text": "ä"}}),
        Message("done", "tool", tool_call_id="c1"),
        Message("old style", "function", name="f"),
        Message(None, "assistant", function_call={"name": "f", "arguments": "{}"}),
        Message(None, "assistant", refusal="I will not"),
        Message("counted", "user", token_count=7, created_at=datetime(2020, 2, 29, 23, 59, 59, 999999, UTC)),
        Message("unknown", "developer", extra={"cache_control": {"type": "ephemeral"}}, hidden=True),
    ]


@pytest.mark.spec("history-26")
def test_every_field_comes_back(manager, storage):
    manager.create_thread({"nested": {"a": [1, {"b": None}]}}, thread_id="t")
    given = every_kind()
    manager.add_messages("t", given)
    assert manager.get_messages("t") == given
    thread = storage.get_thread("t")

    again = Thread.from_dict(json.loads(json.dumps(thread.to_dict())))
    assert again == thread
    assert again.created_at == thread.created_at
    assert [message.created_at for message in again.messages] == [message.created_at for message in given]
    given[3].metadata["deep"]["text"] = "changed after"
    manager.get_messages("t")[3].metadata.clear()
    assert manager.get_messages("t")[3].metadata["deep"]["text"] == "ä"


@pytest.mark.spec("history-27")
@pytest.mark.parametrize(
    ("arguments", "error", "field"),
    [
        (("", "hi", "user"), ValidationError, "thread_id"),
        (("t", "hi", "robot"), ValidationError, "role"),
        (("t", 7, "user"), ValidationError, "content"),
        (("t", {"a": 1}, "user"), ValidationError, "content"),
        (("nowhere", "hi", "user"), ThreadNotFoundError, "nowhere"),
        (("t", "hi", "user", {"when": datetime.now(UTC)}), ValidationError, "metadata"),
        (("t", "hi", "user", {"n": float("nan")}), ValidationError, "metadata"),
        (("t", "hi", "user", {1: "one"}), ValidationError, "metadata"),
        (("t", "hi", "user", ["list"]), ValidationError, "metadata"),
    ],
)
def test_what_is_wrong_is_refused_and_nothing_written(manager, arguments, error, field):
    manager.create_thread({"a": 1}, thread_id="t")
    with pytest.raises(error, match=field):
        manager.add_message(*arguments)
    for metadata in ({"bad": object()}, "t", ["t"]):
        with pytest.raises(ValidationError, match="metadata"):
            manager.create_thread(metadata)
    with pytest.raises(ValidationError, match="metadata"):
        manager.update_thread_metadata("t", {"bad": object()})
    with pytest.raises(ValidationError, match="metadata"):
        manager.update_thread_metadata("t", "seen")
    assert manager.message_count("t") == 0
    (thread,) = manager.list_threads()
    assert thread.metadata == {"a": 1}


@pytest.mark.spec("history-28")
def test_own_ids_are_taken_once(manager):
    assert manager.create_thread(thread_id="mine").id == "mine"
    with pytest.raises(ValidationError, match="mine"):
        manager.create_thread(thread_id="mine")
    thread, created = manager.get_or_create_thread("mine", {"new": 1})
    assert (thread.metadata, created) == ({}, False)
    thread, created = manager.get_or_create_thread("other", {"new": 1})
    assert (thread.metadata, created) == ({"new": 1}, True)
    assert len({manager.create_thread().id for _ in range(3)}) == 3
    manager.add_messages("mine", [Message("once", "user", id="m1")])
    with pytest.raises(ValidationError, match="m1"):
        manager.add_messages("mine", [Message("new", "user"), Message("twice", "user", id="m1")])
    assert contents(manager.get_messages("mine")) == ["once"]


@pytest.mark.spec("history-29")
def test_no_write_of_a_windowed_thread_deletes_messages(manager, storage):
    manager.create_thread({"a": 1}, thread_id="t")
    manager.add_messages("t", [Message(str(number), "user") for number in range(6)])
    manager.algorithm = FIFO(2)
    assert manager.update_thread_metadata("t", {"b": 2}).metadata == {"a": 1, "b": 2}
    assert manager.message_count("t") == 6
    windowed = manager.get_thread("t")
    assert len(windowed.messages) == 2
    windowed.metadata = {"c": 3}
    windowed.add_message(Message("added", "user"))
    storage.save_thread(windowed)
    assert contents(manager.get_messages("t")) == ["0", "1", "2", "3", "4", "5", "added"]
    assert storage.get_thread("t").metadata == {"c": 3}
    with pytest.raises(ThreadNotFoundError):
        manager.update_thread_metadata("nowhere", {})


@pytest.mark.spec("history-30")
def test_paging_is_stable_with_equal_times(manager, storage, monkeypatch):
    manager.create_thread(thread_id="t")
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    manager.add_messages("t", [Message(str(number), "user", created_at=moment) for number in range(10)])
    pages = [contents(manager.get_messages("t", limit=4, offset=offset)) for offset in (0, 4, 8, 12)]
    assert pages == [["0", "1", "2", "3"], ["4", "5", "6", "7"], ["8", "9"], []]
    assert contents(manager.get_messages("t", after=6)) == ["7", "8", "9"]
    assert contents(manager.get_messages("t", limit=2, after=3)) == ["4", "5"]
    assert contents(manager.get_messages("t", limit=2, before=5)) == ["3", "4"]
    assert contents(manager.get_messages("t", after=2, before=5)) == ["3", "4"]
    for limit, offset in ((0, 0), (-1, 0), (1, -1)):
        with pytest.raises(ValidationError):
            manager.get_messages("t", limit=limit, offset=offset)
    with pytest.raises(ThreadNotFoundError):
        manager.get_messages("nowhere")
    monkeypatch.setattr(type(storage), "read", lambda *_: pytest.fail("messages were loaded"))
    monkeypatch.setattr(
        type(storage), "_select", lambda *_: pytest.fail("messages were loaded"), raising=False
    )
    assert manager.message_count("t") == 10


@pytest.mark.spec("history-31")
def test_threads_are_listed_by_activity_without_messages(manager, storage, monkeypatch):
    for name in "abc":
        manager.create_thread(thread_id=name)
    manager.add_message("a", "hi", "user")
    assert [thread.id for thread in manager.list_threads()] == ["a", "c", "b"]
    assert [thread.id for thread in manager.list_threads(limit=1, offset=1)] == ["c"]
    for limit, offset in ((0, 0), (-5, 0), (10, -1)):
        with pytest.raises(ValidationError):
            manager.list_threads(limit, offset)
    monkeypatch.setattr(
        type(storage), "_select", lambda *_: pytest.fail("messages were loaded"), raising=False
    )
    monkeypatch.setattr(type(storage), "read", lambda *_: pytest.fail("messages were loaded"))
    assert [thread.message_count for thread in manager.list_threads()] == [1, 0, 0]


@pytest.mark.spec("history-32")
def test_deleting_takes_one_thread_and_its_messages(manager, storage):
    for name in ("gone", "kept"):
        manager.create_thread(thread_id=name)
        manager.add_message(name, "hi", "user")
    assert manager.delete_thread("gone") is True
    assert manager.delete_thread("gone") is False
    with pytest.raises(ThreadNotFoundError):
        manager.get_messages("gone")
    manager.create_thread(thread_id="gone")
    assert manager.message_count("gone") == 0
    assert contents(manager.get_messages("kept")) == ["hi"]


@pytest.mark.spec("history-33")
def test_the_cap_and_the_window_are_independent(make_storage):
    def run(window, added, **options):
        manager = HistoryManager(make_storage(**options), FIFO(window))
        manager.create_thread(thread_id="t")
        manager.add_message("t", "rules", "system")
        for number in range(added):
            manager.add_message("t", str(number), "user")
        stored = contents(manager.get_messages("t"))
        assert manager.message_count("t") == len(stored)
        return stored, contents(manager.get_thread("t").messages)

    assert run(100, 10, max_messages=3)[0] == ["7", "8", "9"]
    assert run(100, 10, max_messages=3, keep_system=True)[0] == ["rules", "7", "8", "9"]
    stored, window = run(5, 7)
    assert (len(stored), len(window)) == (8, 5)
    stored, window = run(5, 7, max_messages=3)
    assert (len(stored), len(window)) == (3, 3)
    with pytest.raises(ValidationError):
        make_storage(max_messages=0)


@pytest.mark.spec("history-34")
def test_search_is_literal_and_exact(manager):
    metadata = {
        "text": "x", "int": 1, "bool": True, "null": None, "real": 1.5, "list": [1, "a"],
        "deep": {"er": {"n": 2}}, "dot.ted": "d", "da-sh": "e", "quo\"te's": "f", "under__score": "g",
    }  # fmt: skip
    manager.create_thread(metadata, thread_id="full")
    manager.create_thread({"int": "1", "bool": 1, "deep": {"er": 2}}, thread_id="other")
    manager.add_message("full", "100% Ärger_heute", "user")
    manager.add_message("other", [{"type": "text", "text": "parts are searched"}], "user")

    def found(**query):
        return [thread.id for thread in manager.search_threads(query)]

    for key, value in metadata.items():
        assert found(metadata={key: value}) == ["full"], key
    assert found(metadata={"deep": {"er": {"n": 2}}, "int": 1}) == ["full"]
    for wrong in (
        {"int": True},
        {"int": 1.0},
        {"bool": "true"},
        {"text": 1},
        {"null": "null"},
        {"real": "1.5"},
    ):
        assert found(metadata=wrong) == [], wrong
    assert found(metadata={"bool": 1}) == ["other"]
    assert found(metadata={"int": "1"}) == ["other"]
    for trick in ({"x') = ? OR 1=1 --": "z"}, {"s__regex": ".*"}, {"text__regex": ".*"}, {"deep.er.n": 2}):
        assert found(metadata=trick) == []
    assert found(content="%") == ["full"]
    assert found(content="_") == ["full"]
    assert found(content="ärger") == found(content="ÄRGER") == ["full"]
    assert found(content="ARE SEARCHED") == ["other"]
    assert found(content="ärger", metadata={"int": "1"}) == []
    assert sorted(found(content="r")) == ["full", "other"]
    first = manager.search_threads({"content": "r"}, limit=1)
    second = manager.search_threads({"content": "r"}, limit=1, offset=1)
    assert [thread.id for thread in first + second] == ["other", "full"]
    for empty in ({}, {"content": ""}, {"metadata": {}}, {"unknown": 1}, {"content": 5}):
        with pytest.raises(ValidationError, match="query"):
            manager.search_threads(empty)


@pytest.mark.spec("history-35", "history-36")
def test_concurrent_writers_lose_nothing(storage):
    class Counting(SmartAlgorithm):
        def process_thread(self, thread, new_message):
            super().process_thread(thread, new_message)
            thread.metadata["increments"] = thread.metadata.get("increments", 0) + 1

    manager = HistoryManager(storage, Counting())
    manager.create_thread(thread_id="t")
    failures = []

    def write():
        try:
            for number in range(20):
                manager.add_message("t", str(number), "user")
        except Exception as error:
            failures.append(error)

    workers = [threading.Thread(target=write) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert failures == []
    assert [message.seq for message in manager.get_messages("t")] == list(range(160))
    metadata = storage.get_thread("t").metadata
    assert metadata["message_counts"] == {"user": 160}
    assert metadata["increments"] == 160


@pytest.mark.spec("history-35")
def test_concurrent_processes_lose_nothing(tmp_path):
    path = tmp_path / "shared.db"
    manager = HistoryManager(SQLiteStorage(path))
    manager.create_thread(thread_id="t")
    code = (
        "import sys; from charactermemory.history import HistoryManager, SQLiteStorage\n"
        "manager = HistoryManager(SQLiteStorage(sys.argv[1]))\n"
        "for n in range(40): manager.add_message('t', str(n), 'user')\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code, str(path)]) for _ in range(2)]
    assert [writer.wait() for writer in writers] == [0, 0]
    assert [message.seq for message in manager.get_messages("t")] == list(range(80))
    manager.storage.close()


def test_owners_do_not_see_each_other(manager):
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
    with pytest.raises(ThreadNotFoundError):
        bob.add_message("t", "mine now", "user")
    assert bob.delete_thread("t") is False
    bob.create_thread(thread_id="t")
    assert bob.message_count("t") == 0
    assert ann.message_count("t") == 1
    assert ann.get_thread("t").owner == "ann"


@pytest.mark.spec("history-39")
def test_the_core_needs_neither_django_nor_openai():
    code = (
        "import sys\n"
        "for name in ('django', 'openai', 'aiosqlite', 'pyoxigraph', 'qdrant_client'): sys.modules[name] = None\n"
        "import charactermemory\n"
        "import charactermemory.integrations.openai\n"
        "from charactermemory.history import FIFO, HistoryManager, MemoryStorage\n"
        "manager = HistoryManager(MemoryStorage(), FIFO(2))\n"
        "manager.create_thread(thread_id='t')\n"
        "manager.add_message('t', 'hi', 'user')\n"
        "print(manager.get_thread('t').messages[0].content)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "hi\n"


def test_metadata_can_be_changed_by_a_function_without_losing_others(manager):
    manager.create_thread({"n": 1}, thread_id="t")

    def double(metadata):
        metadata["n"] *= 2

    assert manager.update_thread_metadata("t", double).metadata == {"n": 2}


def test_hidden_messages_are_stored_and_never_offered(manager):
    manager.create_thread(thread_id="t")
    manager.add_messages("t", [Message(str(n), "user", hidden=n % 2 == 1) for n in range(6)])
    assert contents(manager.get_thread("t").messages) == ["0", "2", "4"]
    manager.algorithm = FIFO(2)
    assert contents(manager.get_thread("t").messages) == ["2", "4"]
    assert len(manager.get_messages("t")) == 6


def test_storage_failures_have_one_type(tmp_path):
    (tmp_path / "notes.db").write_text("this is no database, and long enough to be sure of that " * 20)
    with pytest.raises(StorageError, match="notes.db"):
        SQLiteStorage(tmp_path / "notes.db")
    with pytest.raises(ValidationError, match="db_path"):
        SQLiteStorage("")
    with pytest.raises(ValidationError, match="storage"):
        HistoryManager(None)


def test_a_database_in_memory_works_and_roles_are_the_six():
    manager = HistoryManager(SQLiteStorage(":memory:"))
    manager.create_thread(thread_id="t")
    for role in ROLES:
        manager.add_message("t", "hi", role)
    assert len(manager.get_thread("t").messages) == 6
    assert isinstance(MemoryStorage().scoped("x"), MemoryStorage)
