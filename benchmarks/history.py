"""What does the chat window cost, and does it grow with the thread?

    python -m benchmarks.history [--sizes 1000 10000 50000] [--rounds 40] [--folder DIR]

Two stores on one disk are filled to each size: `SQLiteStorage`, and a reference that writes as MemexLLM does,
reading and rewriting the whole thread for every message (with our journal settings, so that the difference is
the algorithm's alone). Appends are timed turn about in one run. Then windows are timed at every size, and a
wrapped client against a bare one that sends the same messages to the local stub. The table names each goal of
the acceptance cases history-65 to 68; the exit code is 1 when one is missed, and the last line holds the figures.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from charactermemory.history import FIFO, BaseAlgorithm, HistoryManager, Message, SQLiteStorage, TokenBudget
from charactermemory.integrations.openai import with_history
from charactermemory.testing.openai_stub import OpenAIStub

TEXT = "the quick brown fox jumps over the lazy dog near the river " * 4
"""About the 216 characters a message of the recorded baseline."""

NEWEST_HOUR = 100
"""How many messages of every thread are younger than an hour."""


class RewritingStore:
    """The reference: a message is added by reading the thread, deleting its rows and inserting all again."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute("PRAGMA synchronous = NORMAL")
        self.connection.execute(
            "CREATE TABLE messages (id TEXT PRIMARY KEY, thread TEXT, content TEXT, role TEXT, created_at TEXT, "
            "metadata TEXT, place INTEGER)"
        )
        self.connection.execute("CREATE INDEX by_place ON messages (thread, place)")

    def load(self) -> list[Message]:
        rows = self.connection.execute(
            "SELECT content, role, id, created_at, metadata FROM messages WHERE thread = 't' ORDER BY place"
        )
        return [
            Message(content, role, message_id, datetime.fromisoformat(made), json.loads(metadata))
            for content, role, message_id, made, metadata in rows
        ]

    def save(self, messages: Sequence[Message]) -> None:
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.execute("DELETE FROM messages WHERE thread = 't'")
        for place, message in enumerate(messages):
            made, metadata = message.created_at.isoformat(), json.dumps(message.metadata)
            self.connection.execute(
                "INSERT INTO messages VALUES (?, 't', ?, ?, ?, ?, ?)",
                (message.id, message.content, message.role, made, metadata, place),
            )
        self.connection.execute("COMMIT")

    def append(self, message: Message) -> None:
        self.save([*self.load(), message])


class Smart(BaseAlgorithm):
    """The window rule of the advanced example: system messages, then recent important ones."""

    def get_message_window(self, messages: Sequence[Message]) -> list[Message]:
        now = datetime.now(UTC)
        system = [message for message in messages if message.role == "system"]
        recent = [
            message
            for message in messages
            if message.role != "system"
            and now - message.created_at <= timedelta(hours=1)
            and len(message.content) > 100
        ]
        return system + recent[-50:]


class HintedSmart(Smart):
    """The same with the hint that spares it reading what is older."""

    lookback = timedelta(hours=1)
    roles_always = ("system",)


@dataclass
class Goal:
    """One figure beside what it may be."""

    name: str
    value: float
    limit: float
    at_least: bool = False

    @property
    def met(self) -> bool:
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    def __str__(self) -> str:
        bound = "≥" if self.at_least else "≤"
        return f"{'ok    ' if self.met else 'MISSED'}  {self.name:<52} {self.value:>10.2f}  {bound} {self.limit:g}"


def milliseconds(action: Callable[[], Any], rounds: int) -> float:
    """Return the median time of one call."""
    return statistics.median(timed(action) for _ in range(rounds))


def timed(action: Callable[[], Any]) -> float:
    """Return the time of one call in milliseconds."""
    before = time.perf_counter()
    action()
    return (time.perf_counter() - before) * 1000


def talk(count: int) -> list[Message]:
    """Return `count` messages, the newest of the last hour."""
    now = datetime.now(UTC)
    messages = []
    for place in range(count):
        age = timedelta(minutes=10) if place >= count - NEWEST_HOUR else timedelta(days=2)
        messages.append(Message(TEXT, "assistant" if place % 2 else "user", created_at=now - age))
    return messages


class Bench:
    """One run in one folder; `figures` and `goals` fill as it goes."""

    def __init__(self, folder: Path, sizes: Sequence[int], rounds: int) -> None:
        self.folder = folder
        self.sizes = sizes
        self.rounds = rounds
        self.figures: dict[str, float] = {}
        self.goals: list[Goal] = []

    def run(self) -> None:
        appends = {size: self.size(size) for size in (0, *self.sizes)}
        last = self.sizes[-1]
        self.goals.append(Goal(f"append at {last} / append at 0", appends[last] / appends[0], 1.5))
        windows = [self.figures[f"window_{size}_ms"] for size in self.sizes]
        self.goals.append(Goal(f"window(100) at {last} / at {self.sizes[0]}", windows[-1] / windows[0], 1.5))

    def size(self, size: int) -> float:
        """Measure everything at one size; return the append's median."""
        messages = talk(size)
        with closing(SQLiteStorage(self.folder / f"ours-{size}.db")) as storage:
            manager = HistoryManager(storage)
            manager.create_thread(thread_id="t")
            manager.add_messages("t", messages)
            append = self.appends(size, messages, manager)
            if size:
                self.windows(size, manager)
            if size == 10_000:
                self.smart(manager)
                self.client(manager)
        return append

    def appends(self, size: int, messages: list[Message], manager: HistoryManager) -> float:
        reference = RewritingStore(self.folder / f"reference-{size}.db")
        with closing(reference.connection):
            reference.save(messages)
            ours, theirs = [], []
            for turn in range(self.rounds):
                ours.append(timed(lambda: manager.add_message("t", TEXT, "user")))
                if turn % max(1, size // 2500) == 0:
                    theirs.append(timed(lambda: reference.append(Message(TEXT, "user"))))
        append, rewrite = statistics.median(ours), statistics.median(theirs)
        self.figures[f"append_{size}_ms"] = append
        self.figures[f"rewrite_{size}_ms"] = rewrite
        faster = {1_000: 20, 10_000: 200, 50_000: 1_000}.get(size)
        if faster:
            self.goals.append(Goal(f"rewrite / append at {size}", rewrite / append, faster, at_least=True))
        return append

    def windows(self, size: int, manager: HistoryManager) -> None:
        manager.algorithm = FIFO(100)
        window = milliseconds(lambda: manager.get_thread("t"), self.rounds)
        self.figures[f"window_{size}_ms"] = window
        self.goals.append(Goal(f"window FIFO(100) at {size}, ms", window, 1.2))
        manager.algorithm = TokenBudget(4_000)
        budget = milliseconds(lambda: manager.get_thread("t"), self.rounds)
        self.figures[f"budget_{size}_ms"] = budget
        self.goals.append(Goal(f"window TokenBudget(4000) at {size}, ms", budget, 5))
        manager.algorithm = None

    def smart(self, manager: HistoryManager) -> None:
        for name, algorithm, limit in (("smart", Smart(), 150), ("smart_hinted", HintedSmart(), 5)):
            manager.algorithm = algorithm
            figure = milliseconds(lambda: manager.get_thread("t"), max(5, self.rounds // 4))
            self.figures[f"{name}_10000_ms"] = figure
            self.goals.append(Goal(f"window {name} at 10000, ms", figure, limit))
        manager.algorithm = None

    def client(self, manager: HistoryManager) -> None:
        from openai import OpenAI

        manager.algorithm = FIFO(50)
        with OpenAIStub() as stub:
            bare: Any = OpenAI(base_url=stub.url, api_key="any")
            wrapped: Any = OpenAI(base_url=stub.url, api_key="any")
            with closing(bare), closing(wrapped):
                with_history(history_manager=manager)(wrapped)
                alone, together = [], []
                turn = {"role": "user", "content": TEXT}

                def call_wrapped() -> Any:
                    return wrapped.chat.completions.create(model="m", messages=[turn], thread_id="t")

                def call_bare() -> Any:
                    return bare.chat.completions.create(model="m", messages=stub.bodies[-1]["messages"])

                for _ in range(self.rounds):
                    together.append(timed(call_wrapped))
                    alone.append(timed(call_bare))
        overhead = statistics.median(together) - statistics.median(alone)
        self.figures["bare_call_ms"] = statistics.median(alone)
        self.figures["with_history_overhead_10000_ms"] = overhead
        self.goals.append(Goal("with_history over the bare call at 10000, ms", overhead, 10))
        manager.algorithm = None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; 0 when every goal is met."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 50_000])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument(
        "--folder", type=Path, default=None, help="where to write; a temporary folder if not given"
    )
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        bench = Bench(Path(folder), sorted(options.sizes), options.rounds)
        bench.run()
    for name, value in bench.figures.items():
        print(f"{name:<36} {value:>10.3f}")
    print(*bench.goals, sep="\n")
    print(json.dumps({name: round(value, 3) for name, value in bench.figures.items()}))
    return 0 if all(goal.met for goal in bench.goals) else 1


if __name__ == "__main__":
    sys.exit(main())
