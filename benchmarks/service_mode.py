"""What a retrieve and a commit take when the stores are servers, and how often they are asked.

    python -m benchmarks.service_mode [--commits 200] [--calls 200] [--folder DIR]

The production row on this machine: `oxigraph serve` on RocksDB, PostgreSQL for statistics and writer leases, and
in the place of a Qdrant server **a stub** (`tests/support/qdrant_stub.py`, qdrant-client's local mode over REST),
unless REQUIRE_QDRANT_TESTS=1 names a real one. One process measures, through `memory_app.runtime.get_memory`; the
servers are processes of their own, the stub a thread of another. Embedding costs nothing; PostgreSQL syncs nothing
(it is the tests'), and neither does the graph.

`round trips` are requests to the graph and to the vector server, and statements to the database; `waited` is how
long their answers took. What the stub takes says nothing of a Qdrant server.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock
from urllib.parse import urlsplit

import httpx
from django.db import connections

from benchmarks import support
from benchmarks.support import Timer

WARM_UP = 20


class Asked:
    """Counts and times what each call asks of each server."""

    def __init__(self, ports: dict[int, str]) -> None:
        self._ports = ports
        self._now: dict[str, list[float]] = defaultdict(list)
        self.calls: dict[str, list[int]] = defaultdict(list)
        self.waited: dict[str, list[float]] = defaultdict(list)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch every request by httpx and every statement of Django's, the writer leases' too."""
        from memory_app import leases

        send = httpx.Client.send

        def request(client: httpx.Client, request: httpx.Request, **options: Any) -> httpx.Response:
            with self._noted(self._ports[request.url.port or 0]):
                return send(client, request, **options)

        def statement(execute: Callable[..., Any], *arguments: Any) -> Any:
            with self._noted("database"):
                return execute(*arguments)

        databases = [connections["default"], *(item.connection for item in leases._databases.values())]
        with ExitStack() as stack:
            stack.enter_context(mock.patch.object(httpx.Client, "send", request))
            for database in databases:
                if database is not None:
                    stack.enter_context(database.execute_wrapper(statement))
            yield

    @contextmanager
    def _noted(self, server: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self._now[server].append((time.perf_counter() - start) * 1_000)

    def end(self) -> None:
        """One call is over: keep what it asked."""
        for server in (*self._ports.values(), "database"):
            taken = self._now.pop(server, [])
            self.calls[server].append(len(taken))
            self.waited[server].append(sum(taken))

    def summary(self) -> dict[str, dict[str, float]]:
        """Return the greatest count and the median wait by server."""
        return {
            server: {"calls": max(counts), "waited_ms": statistics.median(self.waited[server])}
            for server, counts in self.calls.items()
        }


def measure(commits: int, calls: int) -> dict[str, Any]:
    """Measure in this process, which is one of the deployment's."""
    import django

    django.setup()
    from benchmarks.latency import questions
    from memory_app.runtime import close_memories, get_memory

    memory = get_memory("bench")
    memory.commit(support.people())
    ports = {
        urlsplit(os.environ["OXIGRAPH_URL"]).port or 0: "graph",
        urlsplit(os.environ["QDRANT_CONNECTION_STRING"]).port or 0: "vectors",
    }
    figures: dict[str, Any] = {}
    plans = [memory.prepare(support.moment(number)) for number in range(commits + WARM_UP)]
    asked = list(questions(commits, calls + WARM_UP))
    for plan in plans[:WARM_UP]:
        assert memory.commit(plan).complete
    figures["commit"] = _timed(
        ports, [lambda plan=plan: memory.commit(plan).complete for plan in plans[WARM_UP:]]
    )
    for context in asked[:WARM_UP]:
        memory.retrieve(context)
    figures["retrieve"] = _timed(
        ports,
        [
            lambda context=context: not memory.retrieve(context).rationale.degraded
            for context in asked[WARM_UP:]
        ],
    )
    figures["objects"] = memory.upkeep.verify().objects
    close_memories()
    return figures


def _timed(ports: dict[int, str], calls: list[Callable[[], bool]]) -> dict[str, Any]:
    asked, timer = Asked(ports), Timer()
    with asked.watching():
        for call in calls:
            assert timer(call), "not complete: something else was measured"
            asked.end()
    spread = timer.spread
    return {"p50": spread.p50, "p95": spread.p95, "cpu": spread.cpu, "asked": asked.summary()}


def main() -> int:
    """Start the servers, have a process measure, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--commits", type=int, default=200)
    parser.add_argument("--calls", type=int, default=200, help="retrieves, on what the commits made")
    parser.add_argument("--folder", help="where the stores are made")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.commits, options.calls)))
        return 0
    from tests.support import services

    if why := services.missing():
        print(why, file=sys.stderr)
        return 1
    print(support.machine())
    with support.scratch(options.folder) as scratch, services.running(scratch) as running:
        running.environment = {
            **running.environment,
            "MEMORY_EMBEDDING_PROVIDER_FACTORY": "benchmarks.support.ReadyVectors",
        }
        running.manage("migrate", "--verbosity", "0")
        numbers = ("--commits", str(options.commits), "--calls", str(options.calls))
        found = json.loads(running.run("benchmarks.service_mode", "--measure", *numbers, seconds=None))
    vectors = "qdrant" if os.environ.get("REQUIRE_QDRANT_TESTS") == "1" else "qdrant_stub"
    print(f"{found.pop('objects'):,} objects at the end, vectors: {vectors} ({support.machine()})")
    for name, figures in found.items():
        print(f"{name:>9}  p50 {figures['p50']:.1f}  p95 {figures['p95']:.1f}  cpu {figures['cpu']:.1f} ms")
        for server, asked in figures["asked"].items():
            shown = vectors if server == "vectors" else server
            print(
                f"{shown:>22}  at most {asked['calls']:.0f} round trips, {asked['waited_ms']:.1f} ms waited"
            )
    commit, retrieve = found["commit"], found["retrieve"]
    print(
        f"vectors={vectors} commit_p50_ms={commit['p50']:.1f} commit_p95_ms={commit['p95']:.1f} "
        f"retrieve_p50_ms={retrieve['p50']:.1f} retrieve_p95_ms={retrieve['p95']:.1f} "
        f"commit_graph_round_trips={commit['asked']['graph']['calls']} "
        f"retrieve_graph_round_trips={retrieve['asked']['graph']['calls']} "
        f"retrieve_vector_round_trips={retrieve['asked']['vectors']['calls']} "
        f"retrieve_statements={retrieve['asked']['database']['calls']}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
