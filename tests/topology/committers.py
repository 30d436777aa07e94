"""Several processes that write one collection together; prints as JSON what became of it.

    python -m tests.topology.committers COLLECTION PROCESSES COMMITS THREADS CONTESTED

Each process commits COMMITS episodes of its own from THREADS threads. Then all of them try CONTESTED ids, each
with content of its own.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.synchronize import Barrier
from typing import Any

import django

CONTESTED_FROM = 90_000


def main() -> None:
    """Start the processes, which share what is imported and nothing that is open."""
    django.setup()
    import qdrant_client  # noqa: F401 - once, instead of in every process

    import tests.support.plans  # noqa: F401

    collection = sys.argv[1]
    processes, commits, threads, contested = map(int, sys.argv[2:])
    fork = multiprocessing.get_context("fork")
    results: Any = fork.SimpleQueue()
    together = fork.Barrier(processes)
    started = [
        fork.Process(target=_work, args=(results, together, collection, number, commits, threads, contested))
        for number in range(processes)
    ]
    for process in started:
        process.start()
    found = [results.get() for _ in started]
    for process in started:
        process.join()
    print(json.dumps(found))  # noqa: T201


def _work(
    results: Any, together: Barrier, collection: str, number: int, commits: int, threads: int, contested: int
) -> None:
    from django.db import connections

    from charactermemory.errors import DeterministicIdCollision
    from memory_app.runtime import close_memories, get_memory
    from tests.support.plans import episode, observation, plan

    together.wait()
    memory = get_memory(collection)

    def commit(index: int) -> bool:
        try:
            turn = observation(index + 10_000, index, f"turn {index}")
            return memory.commit(plan(episode(index), turn)).complete
        finally:
            connections.close_all()

    first = 1 + number * commits
    with ThreadPoolExecutor(threads) as pool:
        complete = sum(pool.map(commit, range(first, first + commits)))
    won = []
    for index in range(CONTESTED_FROM, CONTESTED_FROM + contested):
        together.wait()
        try:
            memory.commit(plan(episode(index, f"as process {number} has it")))
            won.append(index)
        except DeterministicIdCollision:
            pass
    close_memories()
    results.put({"complete": complete, "won": won})


if __name__ == "__main__":
    main()
