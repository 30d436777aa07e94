"""The lazy list of a thread's messages."""

import pytest

from charactermemory.history import FIFO, HistoryManager, Message, Selection, SQLiteStorage, ThreadMessages
from tests.history.seed_minimal import CustomAlgorithm


class Counting:
    """A reader over plain numbers that counts the rows it returns."""

    def __init__(self, count):
        self.messages = [Message(str(number), "user", seq=number) for number in range(count)]
        self.rows = 0

    def __call__(self, selection):
        rows = [
            message for message in self.messages if selection.before is None or message.seq < selection.before
        ]
        if selection.newest:
            stop = max(0, len(rows) - selection.offset)
            rows = rows[max(0, stop - selection.limit) : stop] if selection.limit is not None else rows[:stop]
        else:
            rows = rows[selection.offset :]
            rows = rows if selection.limit is None else rows[: selection.limit]
        self.rows += len(rows)
        return list(rows)


def lazy(count):
    reader = Counting(count)
    return reader, ThreadMessages(reader, count, Selection(before=count))


SLICES = [
    slice(start, stop, step)
    for start in (None, -7, -3, -1, 0, 1, 4, 9)
    for stop in (None, -9, -4, -1, 0, 2, 5, 9)
    for step in (None, 2, -1)
]


@pytest.mark.parametrize("count", [0, 1, 5])
def test_slices_and_places_are_those_of_a_list(count):
    plain = Counting(count).messages
    plain_ids = [message.content for message in plain]
    for piece in SLICES:
        _, messages = lazy(count)
        assert [message.content for message in messages[piece]] == plain_ids[piece], piece
    for place in range(-count, count):
        assert lazy(count)[1][place].content == plain_ids[place]
    for place in (count, -count - 1):
        with pytest.raises(IndexError):
            lazy(count)[1][place]


def test_it_reads_what_is_looked_at():
    reader, messages = lazy(1000)
    assert len(messages) == 1000
    assert reader.rows == 0
    assert [message.content for message in messages[-3:]] == ["997", "998", "999"]
    assert reader.rows == 3
    assert messages[-1].content == "999"
    assert reader.rows == 4
    assert next(reversed(messages)).content == "999"
    assert reader.rows < 100
    assert [message.content for message in reversed(messages)] == [str(n) for n in range(999, -1, -1)]


def test_it_works_as_a_list():
    _, messages = lazy(4)
    extra = Message("extra", "user")
    assert [message.content for message in messages + [extra]] == ["0", "1", "2", "3", "extra"]
    assert [message.content for message in [extra] + messages][:2] == ["extra", "0"]
    assert messages == messages.copy()
    assert messages[0] in messages
    messages.append(extra)
    messages.sort(key=lambda message: message.content, reverse=True)
    assert messages.pop(0).content == "extra"
    messages[0] = extra
    del messages[1:]
    assert [message.content for message in messages] == ["extra"]
    assert sorted(messages, key=lambda message: message.content) == [extra]


@pytest.mark.spec("history-37")
def test_work_does_not_grow_with_the_thread(tmp_path):
    storage = SQLiteStorage(tmp_path / "long.db")
    manager = HistoryManager(storage, FIFO(100))
    manager.create_thread(thread_id="t")
    manager.add_messages("t", [Message("text", "user") for _ in range(50_000)])
    statements = []
    loaded = []
    storage._database.connection.set_trace_callback(statements.append)
    read = storage._select
    storage._select = lambda *args: loaded.append(read(*args)) or loaded[-1]

    manager.add_message("t", "one more", "user")
    work = [text for text in statements if text.split()[0] in ("SELECT", "INSERT", "UPDATE", "DELETE")]
    assert len(work) <= 4, work
    statements.clear()

    manager.get_thread("t")
    assert len(statements) <= 2, statements

    loaded.clear()
    manager.algorithm = CustomAlgorithm(30)
    assert len(manager.get_thread("t").messages) == 30
    assert sum(map(len, loaded)) == 30
    storage.close()
