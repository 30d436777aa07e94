"""The seed's two examples, as they stand."""

import runpy
from datetime import UTC, datetime, timedelta, timezone

import pytest

from charactermemory.history import (
    BaseAlgorithm,
    HistoryManager,
    Message,
    SQLiteStorage,
)
from charactermemory.integrations.openai import with_history
from charactermemory.testing.openai_stub import OpenAIStub, tool_call
from tests.history import seed_advanced
from tests.history.seed_advanced import SmartAlgorithm
from tests.history.seed_minimal import CustomAlgorithm

openai = pytest.importorskip("openai")


@pytest.mark.spec("history-1")
def test_the_minimal_example_takes_the_last_n_and_loses_nothing(storage):
    manager = HistoryManager(storage, CustomAlgorithm(3))
    manager.create_thread(thread_id="t")
    for number in range(6):
        manager.add_message("t", str(number), "user")
    assert [message.content for message in manager.get_thread("t").messages] == ["3", "4", "5"]
    assert manager.message_count("t") == 6


@pytest.mark.spec("history-2", "history-3")
def test_the_usage_example_answers_and_keeps_its_statistics(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with OpenAIStub() as stub:
        monkeypatch.setenv("OPENAI_API_KEY", "any")
        monkeypatch.setenv("OPENAI_BASE_URL", stub.url)
        stub.say("Hello to you!")
        ran = runpy.run_module("tests.history.seed_usage")
        assert ran["response"].choices[0].message.content == "Hello to you!"
        ran["client"].close()
        ran["history_manager"].storage.close()
    reopened = SQLiteStorage(tmp_path / "chat.db")
    (thread,) = reopened.list_threads()
    assert thread.message_count == 2
    assert thread.metadata == {
        "message_counts": {"user": 1, "assistant": 1},
        "last_message": thread.messages[1].created_at.isoformat(),
        "has_important": False,
    }
    assert thread.messages[1].role == "assistant"
    reopened.close()


@pytest.mark.spec("history-4")
def test_process_thread_keeps_what_others_wrote(storage):
    manager = HistoryManager(storage, SmartAlgorithm())
    manager.create_thread({"owner": "x"}, thread_id="t")
    manager.add_message("t", "hi", "user")
    metadata = storage.get_thread("t").metadata
    assert metadata["owner"] == "x"
    assert metadata["message_counts"] == {"user": 1}


@pytest.mark.spec("history-5")
def test_smart_keeps_system_and_the_newest_important(storage):
    manager = HistoryManager(storage, SmartAlgorithm(50))
    manager.create_thread(thread_id="t")
    manager.algorithm = None
    manager.add_messages("t", [Message("rules", "system")])
    manager.add_messages(
        "t", [Message(str(number), "user", metadata={"importance": 1.0}) for number in range(200)]
    )
    manager.algorithm = SmartAlgorithm(50)
    window = manager.get_thread("t").messages
    assert [message.content for message in window] == ["rules", *map(str, range(150, 200))]


@pytest.mark.spec("history-6")
def test_smart_counts_the_window_to_the_second(storage, monkeypatch):
    now = datetime(2026, 5, 1, 12, tzinfo=UTC)

    class Frozen(datetime):
        @classmethod
        def now(cls, tz=None):
            return now

    monkeypatch.setattr(seed_advanced, "datetime", Frozen)
    manager = HistoryManager(storage, SmartAlgorithm(time_window_hours=12))
    manager.create_thread(thread_id="t")
    ages = {"late": timedelta(hours=12, seconds=1), "just": timedelta(hours=12)}
    manager.add_messages(
        "t",
        [
            Message(name, "user", created_at=now - age, metadata={"importance": 1})
            for name, age in ages.items()
        ],
    )
    assert [message.content for message in manager.get_thread("t").messages] == ["just"]


@pytest.mark.spec("history-7")
def test_smart_judges_importance(storage):
    manager = HistoryManager(storage, SmartAlgorithm(importance_threshold=0.7))
    manager.create_thread(thread_id="t")
    manager.add_message("t", "a" * 100, "user")
    manager.add_message("t", "b" * 101, "user")
    manager.add_message("t", "c", "user", {"importance": 0.7})
    manager.add_message("t", "d" * 500, "user", {"importance": 0})
    assert [message.content[0] for message in manager.get_thread("t").messages] == ["b", "c"]


@pytest.mark.spec("history-8", "history-9")
def test_smart_in_a_tool_loop(storage):
    manager = HistoryManager(storage, SmartAlgorithm())
    with OpenAIStub() as stub, openai.OpenAI(base_url=stub.url, api_key="any", max_retries=0) as client:
        client = with_history(history_manager=manager)(client)
        stub.call(tool_call("call-1", "weather"))
        ask = client.chat.completions.create
        ask(model="m", messages=[{"role": "user", "content": "rain?"}], thread_id="t")
        result = {"role": "tool", "tool_call_id": "call-1", "content": "dry"}
        answer = ask(model="m", messages=[result], thread_id="t")
        assert answer.choices[0].message.content == "ok"
        call = {"role": "assistant", "content": None, "tool_calls": [tool_call("call-1", "weather")]}
        assert stub.bodies[1]["messages"] == [call, result]
    assert storage.get_thread("t").metadata["message_counts"] == {"user": 1, "assistant": 2, "tool": 1}


@pytest.mark.spec("history-10")
@pytest.mark.parametrize("zone", [None, UTC, timezone(timedelta(hours=-3))])
def test_smart_meets_aware_times_only(storage, settings, zone):
    settings.USE_TZ = False
    manager = HistoryManager(storage, SmartAlgorithm(time_window_hours=1))
    manager.create_thread(thread_id="t")
    made = datetime.now(zone or UTC).replace(tzinfo=zone)
    manager.add_messages("t", [Message("x" * 101, "user", created_at=made)])
    (message,) = manager.get_thread("t").messages
    assert message.created_at.utcoffset() is not None
    assert message.created_at == (made if zone else made.replace(tzinfo=UTC))


@pytest.mark.spec("history-11")
def test_only_the_window_must_be_written(storage):
    class Least(BaseAlgorithm):
        def get_message_window(self, messages):
            return messages[-1:]

    class Nothing(BaseAlgorithm):
        pass

    manager = HistoryManager(storage, Least())
    manager.create_thread(thread_id="t")
    manager.add_message("t", "a", "user")
    assert len(manager.get_thread("t").messages) == 1
    with pytest.raises(TypeError):
        Nothing()


@pytest.mark.spec("history-12")
def test_the_positional_path_makes_a_file_that_can_be_reopened(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    first = SQLiteStorage("chat.db")
    assert (tmp_path / "chat.db").is_file()
    manager = HistoryManager(first)
    manager.create_thread({"mood": "good"}, thread_id="t")
    manager.add_message("t", "hi", "user", {"n": 1})
    before = first.get_thread("t").to_dict()
    first.close()
    second = SQLiteStorage("chat.db")
    assert second.get_thread("t").to_dict() == before
    second.close()
