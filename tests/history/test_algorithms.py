"""The contract of window algorithms, and the ones that ship."""

import asyncio
import logging
from datetime import UTC, datetime, timedelta

import pytest
from django.core.exceptions import SynchronousOnlyOperation

from charactermemory.history import (
    FIFO,
    AlgorithmError,
    AsyncHistoryManager,
    BaseAlgorithm,
    Composite,
    HistoryManager,
    Importance,
    KeepSystem,
    Message,
    Summarizing,
    ThreadMessages,
    TimeWindow,
    TokenBudget,
    ValidationError,
    approximate_tokens,
    processing_failed,
)


class Spy(BaseAlgorithm):
    """Notes every call."""

    def __init__(self, max_messages=None):
        super().__init__(max_messages)
        self.windows = []
        self.processed = []

    def get_message_window(self, messages):
        self.windows.append(len(messages))
        return list(messages)

    def process_thread(self, thread, new_message):
        self.processed.append((thread.messages[-1].id, new_message.id, len(thread.messages)))


class RecentSpy(Spy):
    history_scope = "recent"


def said(*roles):
    return [Message(f"{role}-{number}", role) for number, role in enumerate(roles)]


def contents(messages):
    return [message.content for message in messages]


def filled(storage, algorithm, messages):
    manager = HistoryManager(storage)
    manager.create_thread(thread_id="t")
    manager.add_messages("t", messages)
    manager.algorithm = algorithm
    return manager


@pytest.mark.spec("history-13")
def test_the_hook_runs_once_per_message_and_the_window_once_per_read(storage):
    spy = Spy()
    manager = HistoryManager(storage, spy)
    manager.create_thread(thread_id="t")
    ids = [manager.add_message("t", str(number), "user").id for number in range(4)]
    assert spy.processed == [(message_id, message_id, place) for place, message_id in enumerate(ids, start=1)]
    assert spy.windows == []
    manager.get_thread("t")
    assert spy.windows == [4]
    assert len(spy.processed) == 4


@pytest.mark.spec("history-14")
@pytest.mark.parametrize(("kind", "seen"), [(Spy, 20), (RecentSpy, 5)])
def test_the_scope_says_how_much_is_offered(storage, kind, seen):
    spy = kind(5)
    filled(storage, spy, said(*["user"] * 20)).get_thread("t")
    assert spy.windows == [seen]


@pytest.mark.spec("history-15")
def test_a_hook_cannot_delete_messages(storage):
    class Emptying(Spy):
        def process_thread(self, thread, new_message):
            thread.messages.clear()
            thread.metadata["seen"] = thread.metadata.get("seen", 0) + 1

    manager = HistoryManager(storage, Emptying())
    manager.create_thread(thread_id="t")
    manager.add_messages("t", said(*["user"] * 20))
    assert manager.message_count("t") == len(storage.get_thread("t").messages.load()) == 20
    assert storage.get_thread("t").metadata == {"seen": 20}


class Failing(Spy):
    def process_thread(self, thread, new_message):
        thread.metadata["half"] = "done"
        raise RuntimeError("hook broke")


@pytest.mark.spec("history-16")
@pytest.mark.parametrize("raises", [False, True])
def test_a_failing_hook_loses_neither_message_nor_metadata(storage, caplog, raises):
    heard = []

    def hear(sender, **values):
        heard.append((sender, values))

    manager = HistoryManager(storage, Failing(), raise_algorithm_errors=raises)
    manager.create_thread({"kept": 1}, thread_id="t")
    processing_failed.connect(hear)
    try:
        if raises:
            with pytest.raises(AlgorithmError, match="Failing"):
                manager.add_message("t", "hi", "user")
        else:
            manager.add_message("t", "hi", "user")
    finally:
        processing_failed.disconnect(hear)
    (message,) = manager.get_messages("t")
    assert message.content == "hi"
    assert storage.get_thread("t").metadata == {"kept": 1}
    assert "Failing.process_thread failed" in caplog.text
    ((sender, values),) = heard
    assert sender is manager
    assert values["thread_id"] == "t"
    assert values["message"].id == message.id
    assert str(values["error"]) == "hook broke"


@pytest.mark.spec("history-18")
@pytest.mark.parametrize("returned", [None, ["text"], "text", "twice", 7])
def test_what_is_no_window_is_refused_by_name(storage, returned):
    class Wrong(BaseAlgorithm):
        def get_message_window(self, messages):
            return [messages[0], messages[0]] if returned == "twice" else returned

    manager = filled(storage, Wrong(), said("user", "assistant"))
    with pytest.raises(AlgorithmError, match="^Wrong: ") as caught:
        manager.get_thread("t")
    assert caught.value.algorithm == "Wrong"


@pytest.mark.spec("history-19")
def test_async_algorithms_serve_sync_and_async_managers(storage):
    loops = []

    class Waiting(BaseAlgorithm):
        async def get_message_window(self, messages):
            await asyncio.sleep(0)
            loops.append(asyncio.get_running_loop())
            return messages[-2:]

        async def process_thread(self, thread, new_message):
            await asyncio.sleep(0)
            loops.append(asyncio.get_running_loop())
            thread.metadata["count"] = len(thread.messages)

    manager = HistoryManager(storage, Waiting())
    manager.create_thread(thread_id="t")
    for text in "abc":
        manager.add_message("t", text, "user")
    assert contents(manager.get_thread("t").messages) == ["b", "c"]
    assert storage.get_thread("t").metadata == {"count": 3}

    async def talk():
        own = asyncio.get_running_loop()
        loops.clear()
        patient = AsyncHistoryManager(manager)
        await patient.add_message("t", "d", "user")
        thread = await patient.get_thread("t")
        assert loops == [own, own]
        # A synchronous call in the middle of async code works too, if not on this loop, save where Django
        # keeps the database from it.
        if type(storage).__name__ == "DjangoStorage":
            with pytest.raises(SynchronousOnlyOperation):
                manager.add_message("t", "e", "user")
            await patient.add_message("t", "e", "user")
        else:
            manager.add_message("t", "e", "user")
        return thread

    thread = asyncio.run(talk())
    assert contents(thread.messages) == ["c", "d"]
    assert storage.get_thread("t").metadata == {"count": 5}


@pytest.mark.spec("history-20")
def test_fifo_checks_its_number_and_its_boundary(storage):
    for wrong in (0, -1, None, True, 1.5):
        with pytest.raises(ValidationError, match="max_messages") as caught:
            FIFO(wrong)
        assert isinstance(caught.value, ValueError)
    manager = filled(storage, FIFO(3), [])
    assert list(manager.get_thread("t").messages) == []
    manager.add_messages("t", said("user", "assistant", "user"))
    assert contents(manager.get_thread("t").messages) == ["user-0", "assistant-1", "user-2"]
    manager.add_message("t", "more", "assistant")
    assert contents(manager.get_thread("t").messages) == ["assistant-1", "user-2", "more"]


@pytest.mark.spec("history-23")
def test_a_token_budget_is_never_exceeded(storage):
    def cost(messages):
        return sum(map(approximate_tokens, messages))

    talk = [
        Message("be kind", "system"),
        *(Message("word " * 20, role) for _ in range(30) for role in ("user", "assistant")),
    ]
    manager = filled(storage, TokenBudget(400, reserve=50), talk)
    window = manager.get_thread("t").messages
    assert cost(window) <= 350
    assert contents(window)[0] == "be kind"
    assert window[1].role == "user"
    assert window[-1].id == talk[-1].id
    # Two messages more, the next turn, would not have fitted.
    assert cost(window) + 2 * approximate_tokens(talk[-1]) > 350

    for budget in range(70, 2_000, 70):
        manager.algorithm = TokenBudget(budget)
        window = manager.get_thread("t").messages
        assert cost(window) <= budget
        assert [message.role for message in window[:2]] == ["system", "user"]
    manager.algorithm = TokenBudget(400, reserve=50)
    huge = manager.add_message("t", "x" * 5000, "user")
    assert [message.id for message in manager.get_thread("t").messages] == [talk[0].id, huge.id]

    # What a call costs counts with its JSON: with a long one the turn before does not fit any more.
    def called_with(arguments):
        call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
        asked, answered = Message("go", "user"), Message("done", "tool", tool_call_id="c")
        return [asked, Message(None, "assistant", tool_calls=[call]), answered, Message("so", "assistant")]

    budget = cost(called_with("y" * 800)) + 1
    assert budget > 200
    for arguments, kept in (("y" * 10, 6), ("y" * 800, 4)):
        manager.delete_thread("t")
        manager.create_thread(thread_id="t")
        manager.add_messages("t", [*said("user", "assistant"), *called_with(arguments)])
        manager.algorithm = TokenBudget(budget)
        window = manager.get_thread("t").messages
        assert (len(window), window[-4].content) == (kept, "go")


def test_a_token_budget_reads_no_more_than_it_needs(storage, monkeypatch):
    manager = filled(storage, TokenBudget(400), said(*["user", "assistant"] * 500))
    rows = []
    original = ThreadMessages._read_selection
    monkeypatch.setattr(
        ThreadMessages,
        "_read_selection",
        lambda self, wanted: rows.extend(found := original(self, wanted)) or found,
    )
    window = manager.get_thread("t").messages
    assert len(window) <= len(rows) <= len(window) + 64


def summarise(before, messages):
    return f"{before or ''}<{messages[0].content}..{messages[-1].content}>"


@pytest.mark.spec("history-24")
def test_summarising_folds_what_is_old_and_keeps_every_row(storage):
    talk = [Message("rules", "system"), *said(*["user", "assistant"] * 10)]
    manager = filled(
        storage, Composite(Summarizing(summarise, trigger=10, keep=5), TokenBudget(10_000)), talk
    )
    before = [message.to_dict() for message in manager.get_messages("t")]
    window = manager.get_thread("t").messages
    assert contents(window)[:2] == ["rules", "<user-0..assistant-15>"]
    assert window[1].metadata["summary"] is True
    assert contents(window)[2:] == ["user-16", "assistant-17", "user-18", "assistant-19"]
    assert [message.to_dict() for message in manager.get_messages("t")] == before
    # The next fold continues the stored summary and covers only what came since.
    manager.add_messages("t", said(*["user", "assistant"] * 4))
    window = manager.get_thread("t").messages
    assert contents(window)[1] == "<user-0..assistant-15><user-16..assistant-3>"
    assert window[2].role == "user"


@pytest.mark.spec("history-24")
def test_a_failing_summariser_leaves_the_tail(storage, caplog):
    def broken(before, messages):
        raise RuntimeError("no model today")

    manager = filled(storage, Summarizing(broken, trigger=10, keep=5), said(*["user", "assistant"] * 10))
    with caplog.at_level(logging.ERROR):
        window = manager.get_thread("t").messages
    assert contents(window) == ["user-16", "assistant-17", "user-18", "assistant-19"]
    assert "the summariser failed" in caplog.text
    assert storage.get_thread("t").metadata == {}


def test_an_async_summariser_works(storage):
    async def later(before, messages):
        await asyncio.sleep(0)
        return "short"

    manager = filled(storage, Summarizing(later, trigger=4, keep=2), said(*["user", "assistant"] * 4))
    assert "short" in contents(manager.get_thread("t").messages)


def tool_loop(steps):
    yield Message("find out", "user")
    for step in range(steps):
        call = {"id": f"c{step}", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        yield Message(None, "assistant", tool_calls=[call])
        yield Message("result " * 10, "tool", tool_call_id=f"c{step}")


@pytest.mark.spec("history-25")
@pytest.mark.parametrize(
    "algorithm",
    [
        FIFO(5),
        KeepSystem(5),
        TokenBudget(200),
        TimeWindow(timedelta(hours=1), 5),
        TimeWindow(timedelta(microseconds=1)),
        Importance(max_messages=5),
        Composite(FIFO(10), TokenBudget(200)),
        Summarizing(summarise, trigger=10, keep=5),
    ],
    ids=lambda algorithm: type(algorithm).__name__,
)
def test_a_long_tool_loop_keeps_the_request_in_the_window(storage, algorithm):
    earlier = [Message("hello", "user"), Message("hi", "assistant")]
    manager = filled(storage, algorithm, [*earlier, *tool_loop(30)])
    assert "find out" in contents(manager.get_thread("t").messages)


def test_keep_system_keeps_instructions_beside_the_newest(storage):
    talk = [Message("old rules", "system"), *said(*["user", "assistant"] * 5), Message("dev", "developer")]
    manager = filled(storage, KeepSystem(2), talk)
    assert contents(manager.get_thread("t").messages) == ["old rules", "dev", "user-8", "assistant-9"]


def test_time_and_importance_choose_and_keep_the_order(storage):
    now = datetime(2026, 5, 1, tzinfo=UTC)
    talk = [
        Message("rules", "system", created_at=now - timedelta(days=9)),
        Message("old", "user", created_at=now - timedelta(hours=3), metadata={"importance": 1}),
        Message("text", "user", created_at=now - timedelta(hours=1), metadata={"importance": "high"}),
        Message("new", "assistant", created_at=now, metadata={"importance": 0.9}),
    ]
    recent = filled(storage, TimeWindow(timedelta(hours=2), clock=lambda: now), talk)
    assert contents(recent.get_thread("t").messages) == ["rules", "text", "new"]
    recent.algorithm = Importance(clock=lambda: now)
    assert contents(recent.get_thread("t").messages) == ["rules", "old", "new"]
    recent.algorithm = Importance(window=timedelta(hours=2), clock=lambda: now)
    assert contents(recent.get_thread("t").messages) == ["rules", "new"]


def test_hints_narrow_what_is_offered(storage):
    now = datetime(2026, 5, 1, tzinfo=UTC)

    class Hinted(Spy):
        lookback = timedelta(hours=1)
        roles_always = ("system",)

        def get_message_window(self, messages):
            return messages

    talk = [
        Message("rules", "system", created_at=now - timedelta(days=9)),
        Message("old", "user", created_at=now - timedelta(days=1)),
        Message("new", "user", created_at=now),
    ]
    manager = filled(storage, Hinted(), talk)
    manager.clock = lambda: now
    assert contents(manager.get_thread("t").messages) == ["rules", "new"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: TokenBudget(0),
        lambda: TokenBudget(10, reserve=10),
        lambda: TimeWindow(timedelta(0)),
        lambda: Importance(max_messages=0),
        lambda: Composite(),
        lambda: Summarizing(summarise, trigger=2, keep=3),
    ],
)
def test_wrong_numbers_are_refused(make):
    with pytest.raises(ValidationError):
        make()
