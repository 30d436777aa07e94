"""What a commit costs beside the same data handed to the engines directly.

    python -m benchmarks.writes [--objects 0 10000 100000] [--commits 300] [--folder DIR]

A commit is an episode with two observations, two participants and a place; embedding is excluded, the log is
synced. Raw is the same number of the same quads by INSERT DATA, a sync of the log, and one upsert of three
points, on the same engine handles, commit and raw by turns. Texts of raw are made beforehand, so raw holds
nothing but the engines' work.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import qdrant_edge as qe

from benchmarks import support
from benchmarks.support import Spread, Timer
from charactermemory import CharacterMemory
from charactermemory.adapters.qdrant.lexical import Lexical
from memory_app.chat_import.chat import ChatSession
from memory_app.chat_import.formats import read_locomo
from memory_app.chat_import.importer import import_chat

THREADS = 8
RAW_TOKENS = 10**9
"""Receipts of raw writes are numbered from here, in a graph of their own: no memory meets them."""
TURNS = 600
"""Turns of the conversation that is imported."""


@dataclass(frozen=True)
class Figures:
    """What was measured at one size."""

    commit: Spread
    raw: Spread
    sync: Spread
    written: int
    raw_written: int


class Raw:
    """The engines of a memory, without the memory."""

    def __init__(self, memory: CharacterMemory) -> None:
        self._opened = support.engine_of(memory)
        self._shard = support.shard_of(memory)
        self._generation = memory.stores.vectors._store.generation  # type: ignore[attr-defined]
        self._graph = support.named_graph("raw")
        self._lexical = Lexical()
        self._embedder = support.ReadyVectors()
        self.sync = Timer()

    def made(self, number: int) -> tuple[str, list[qe.Point]]:
        """Return the update and the points of a moment."""
        objects = support.objects_of(support.moment(number))
        body = " .\n".join(map(str, support.mapped(objects, RAW_TOKENS + number)))
        points = [
            self._generation._point(self._lexical, record.surface.ref.id, record, record.embedding)
            for record in support.records(objects, self._embedder)
        ]
        return f"INSERT DATA {{ GRAPH {self._graph} {{\n{body}\n}} }}", points

    def write(self, text: str, points: list[qe.Point]) -> None:
        """Hand over what was made."""
        self._opened.engine.store.update(text)
        self.sync(self._opened.log.sync)
        self._shard.update(qe.UpdateOperation.upsert_points(points))


def measure(root: Path, objects: int, commits: int) -> Figures:
    """Measure commits and raw writes by turns on a memory of `objects` objects."""
    support.grow(root, objects // support.OBJECTS_PER_MOMENT)
    with support.open_memory(root) as memory:
        raw, commit_timer, raw_timer = Raw(memory), Timer(), Timer()
        written = raw_written = 0
        first = memory.stores.graph.head() - 1
        for number in range(first, first + commits):
            plan = memory.prepare(support.moment(number))
            update, points = raw.made(-1 - number)
            before = support.bytes_written()
            outcome = commit_timer(lambda plan=plan: memory.commit(plan))
            between = support.bytes_written()
            raw_timer(lambda update=update, points=points: raw.write(update, points))
            written += between - before
            raw_written += support.bytes_written() - between
            assert outcome.complete, outcome
    return Figures(
        commit_timer.spread, raw_timer.spread, raw.sync.spread, written // commits, raw_written // commits
    )


def measure_threads(root: Path, commits: int) -> float:
    """Return how many commits a second eight threads bring about together."""
    with support.open_memory(root) as memory:
        first = memory.stores.graph.head() - 1
        plans = [memory.prepare(support.moment(number)) for number in range(first, first + commits)]
        start_line = threading.Barrier(THREADS + 1)

        def work(mine: Sequence[int]) -> None:
            start_line.wait()
            for index in mine:
                assert memory.commit(plans[index]).complete

        threads = [
            threading.Thread(target=work, args=(range(number, commits, THREADS),))
            for number in range(THREADS)
        ]
        for thread in threads:
            thread.start()
        start_line.wait()
        start = time.perf_counter()
        for thread in threads:
            thread.join()
        return commits / (time.perf_counter() - start)


def conversation() -> tuple[str, list[ChatSession]]:
    """Return a conversation of about 600 turns: a real one where it lies beside the project, else ours."""
    here = Path(__file__).resolve().parents[1]
    real = here.parent / "shared" / "data" / "locomo10.json"
    if real.exists():
        return "LoCoMo conv-42", list(read_locomo(real, "conv-42"))
    own = read_locomo(here / "tests" / "data" / "companion_locomo.json")
    sessions: list[ChatSession] = []
    while sum(len(session.turns) for session in sessions) < TURNS:
        round_ = len(sessions)
        sessions += [
            ChatSession(f"{round_}/{item.key}", item.time, item.summary, item.turns, item.conversation)
            for item in own
        ]
    return "companion_locomo.json, repeated", sessions


def measure_import(root: Path) -> tuple[str, int, float]:
    """Import a conversation with the bundled embedder; return its name, its turns, and turns a second."""
    name, sessions = conversation()
    with CharacterMemory.open(support.settings(root), "imported") as memory:
        memory.stores.embedder.bulk_generate_embeddings(["warm up: load the weights"])
        start = time.perf_counter()
        report = import_chat(memory, sessions)
        taken = time.perf_counter() - start
        assert report.new_turns == report.turns and not report.owed
    return name, report.turns, report.turns / taken


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--objects", type=int, nargs="+", default=[0, 10_000, 100_000])
    parser.add_argument("--commits", type=int, default=300, help="commits measured at each size")
    parser.add_argument("--folder", help="where the stores are made; the disk that is measured")
    options = parser.parse_args()
    print(support.machine())
    found: dict[int, Figures] = {}
    with support.scratch(options.folder) as root:
        for objects in sorted(options.objects):
            start = time.perf_counter()
            figures = found[objects] = measure(root, objects, options.commits)
            ratio = figures.commit.p50 / figures.raw.p50
            print(f"{objects:>7,} objects ({time.perf_counter() - start:.0f} s, {support.machine()})")
            print(f"    commit  {figures.commit}  written {figures.written / 1024:.0f} KiB")
            print(f"    raw     {figures.raw}  written {figures.raw_written / 1024:.0f} KiB")
            print(f"    sync    {figures.sync}")
            print(f"    ratio   {ratio:.2f} (cpu {figures.commit.cpu / figures.raw.cpu:.2f})", flush=True)
        rate = measure_threads(root, options.commits)
        print(f"{THREADS} threads: {rate:.0f} commits/s", flush=True)
        name, turns, speed = measure_import(root)
        print(f"import: {name}, {turns} turns, {speed:.0f} turns/s ({support.machine()})")
    small, large = found[min(found)], found[max(found)]
    print(
        f"commit_p50_ms_empty={small.commit.p50:.2f} commit_p50_ms_{max(found)}={large.commit.p50:.2f}"
        f" sync_p50_ms={large.sync.p50:.2f} raw_ratio={large.commit.p50 / large.raw.p50:.2f}"
        f" turns_per_s={speed:.0f}"
    )


if __name__ == "__main__":
    main()
