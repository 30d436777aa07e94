"""How long one retrieve takes, and what it asks of the stores, with lives of several lengths.

    python -m benchmarks.latency [--objects 1000 10000 100000] [--calls 200] [--default-collector] [--profile]

A life on embedded stores, in which one person was present at everything: a hub with as many edges as there are
episodes. Embedding costs nothing. Questions are a sentence on a matter of that life, a third of them with the
hub and somebody else present, a third with the hub named in the text. Beside each retrieve, and by turns with
it, the bare engine answers the vector query of the same sentence, both legs in one batch.

No question is asked twice. `at first` is a process that has just opened the memory, `retrieve`, which the last
line repeats, one that has answered 800 questions on it, `after one` the same with a moment committed before each
question, as a companion does.

Python's collector is set as the reference project sets it (docs/deployment.md), unless `--default-collector`.

`round trips` are calls that reached the graph's engine, `statistics queries` calls of the statistics port, and
`sql` the statements behind them. Time excludes the first calls, which fill caches.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import random
import shutil
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks import support
from benchmarks.support import Spread, Timer
from charactermemory import (
    BeliefAssertion,
    CandidateProvenance,
    CharacterMemory,
    DerivedMemoryDraft,
    DerivedType,
    Participant,
    RememberWritePlan,
    RetrievalContext,
    Scene,
    candidate,
)
from charactermemory.domain.provenance import ProducerKind
from charactermemory.ids import derive_id
from charactermemory.recall.context import CandidateLimits

HUB_NAME = "Robin"
WARM_UP = 12
SETTLING = 600
"""Questions between those that are measured at first and the others."""
COUNTED = 30
"""Questions of which the calls of the stores are counted, none of them asked before."""


@dataclass(frozen=True)
class Figures:
    """What was measured at one size."""

    at_first: Spread
    retrieve: Spread
    after_commit: Spread
    engine: Spread
    round_trips: int
    statistics_queries: int
    sql: int
    sections: float


@contextmanager
def counting(memory: CharacterMemory) -> Iterator[dict[str, int]]:
    """Count, while inside, what reaches the graph's engine, the statistics port and its database."""
    found = {"graph": 0, "statistics": 0, "sql": 0}
    graph: Any = memory.stores.graph
    port: Any = memory.stores.statistics
    statements: list[str] = []
    database: Any = port._database
    with ExitStack() as undone:
        for method in ("query", "ask", "match"):
            undone.enter_context(_counted(graph._connection, method, found, "graph"))
        for method in ("counts", "best", "hints", "states", "health"):
            undone.enter_context(_counted(port, method, found, "statistics"))
        database._reader._connection.set_trace_callback(statements.append)
        undone.callback(database._reader._connection.set_trace_callback, None)
        yield found
    found["sql"] = sum(text.lstrip().startswith(("SELECT", "WITH")) for text in statements)


@contextmanager
def _counted(owner: Any, method: str, found: dict[str, int], key: str) -> Iterator[None]:
    """Count the calls of a method of one object, whoever makes them."""
    inner = getattr(owner, method)

    def call(*args: Any, **named: Any) -> Any:
        found[key] += 1
        return inner(*args, **named)

    setattr(owner, method, call)
    try:
        yield
    finally:
        delattr(owner, method)


def questions(moments: int, count: int) -> Iterator[RetrievalContext]:
    """Yield questions on matters of the life."""
    rng = random.Random(count)
    hub = Participant(key=support.notion_id(0))
    for number in range(count):
        data = support.moment(rng.randrange(moments))
        said = data.observations[number % 2].text.split()
        text = " ".join(rng.sample(said, 8))
        if number % 3 == 1:
            text = f"What did {HUB_NAME} say of {text}?"
        scene = None
        if number % 3 == 2:
            scene = Scene(
                time=data.episode.scene.time,  # type: ignore[union-attr]
                participants=(hub, Participant(key=support.notion_id(1 + number % 19))),
            )
        yield RetrievalContext(topic=text, scene=scene)


def name_the_hub(memory: CharacterMemory) -> None:
    """Give the character the belief that the hub is known by a name; a replay writes nothing."""
    hub = support.notion_id(0)
    when = support.moment(0).episode.created_at  # type: ignore[union-attr]
    naming = DerivedMemoryDraft(
        id=derive_id("latency", HUB_NAME),
        created_at=when,
        updated_at=when,
        schema_version=support.SCHEMA_VERSION,
        derived_type=DerivedType.CLAIM,
        text=f"This is {HUB_NAME}.",
        entity_ids=(hub,),
        assertions=(BeliefAssertion.known_as(hub, HUB_NAME),),
        given_by_application=True,
    )
    provenance = CandidateProvenance.unavailable(ProducerKind.CALLER)
    memory.commit(RememberWritePlan.new().with_candidates(candidate(naming, provenance)))


class RawQuery:
    """The engine's own answer to a question's vector query: both legs, one batch, no rule of ours."""

    def __init__(self, memory: CharacterMemory) -> None:
        vectors: Any = memory.stores.vectors
        self._memory, self._lexical = memory, vectors._lexical
        self._shard = support.shard_of(memory)
        self._limit = CandidateLimits().max_vector_candidates

    def prepared(self, text: str) -> Any:
        """Return the batch for a text."""
        import qdrant_edge as qe

        from charactermemory.adapters.qdrant.lexical import SPARSE_NAME

        embedding = self._memory.stores.embedder.generate_embedding(text)
        terms = self._lexical.query(text)
        params = qe.SearchParams(exact=True)
        legs = (
            qe.Query.Nearest(embedding),
            qe.Query.Nearest(qe.SparseVector(terms.indices, terms.values), using=SPARSE_NAME),
        )
        return qe.QueryBatchRequest(
            [qe.QueryRequest(limit=self._limit, query=leg, params=params) for leg in legs]
        )

    def ask(self, batch: Any) -> Any:
        """Run a batch."""
        return self._shard.query_batch(batch)


def moments_of(objects: int) -> int:
    """Return how many moments make so many objects."""
    return max(objects // support.OBJECTS_PER_MOMENT, 1)


def made(objects: int, scratch: Path, keep: Path | None) -> Path:
    """Return a folder in `scratch` with a memory of `objects` objects, out of `keep` if there is such a folder.

    Measuring commits, so what is kept is copied: measured again, it would be of another size.
    """
    root = scratch / str(objects)
    if keep is None:
        support.grow(root, moments_of(objects))
    else:
        support.grow(keep / str(objects), moments_of(objects))
        shutil.copytree(keep / str(objects), root)
    return root


def measure(root: Path, objects: int, calls: int, profile: bool) -> Figures:
    """Measure retrieves and raw vector queries by turns on the memory of `objects` objects under `root`."""
    moments = moments_of(objects)
    with support.open_memory(root) as memory:
        name_the_hub(memory)
        memory.upkeep.sweep()
        counts = (WARM_UP, calls, SETTLING, calls, calls, COUNTED)
        asked = questions(moments, sum(counts))
        parts = [list(islice(asked, count)) for count in counts]
        warming, early, settling, measured, following, counted = parts
        for context in warming:
            memory.retrieve(context)
        raw, first_timer, retrieve_timer, engine_timer = RawQuery(memory), Timer(), Timer(), Timer()
        for context in early:
            first_timer(lambda context=context: memory.retrieve(context))
        for context in settling:
            memory.retrieve(context)
        held = []
        profiler = cProfile.Profile()
        for context in measured:
            if profile:
                profiler.enable()
            outcome = retrieve_timer(lambda context=context: memory.retrieve(context))
            if profile:
                profiler.disable()
            batch = raw.prepared(context.topic or "")
            engine_timer(lambda batch=batch: raw.ask(batch))
            assert not outcome.rationale.degraded, outcome.rationale.degraded
            held.append(len(outcome.pack.admissions))
        after_timer, first = Timer(), memory.stores.graph.head() - 1
        for number, context in enumerate(following, first):
            memory.commit(memory.prepare(support.moment(number)))
            after_timer(lambda context=context: memory.retrieve(context))
        calls_made = []
        for context in counted:
            with counting(memory) as found:
                memory.retrieve(context)
            calls_made.append(found)
    if profile:
        pstats.Stats(profiler).sort_stats("tottime").print_stats(35)
        pstats.Stats(profiler).sort_stats("cumulative").print_stats(45)
    return Figures(
        first_timer.spread,
        retrieve_timer.spread,
        after_timer.spread,
        engine_timer.spread,
        max(found["graph"] for found in calls_made),
        max(found["statistics"] for found in calls_made),
        max(found["sql"] for found in calls_made),
        statistics.fmean(held),
    )


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--objects", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--calls", type=int, default=200, help="retrieves measured at each size")
    parser.add_argument(
        "--default-collector", action="store_true", help="leave Python's collector as Python sets it"
    )
    parser.add_argument("--profile", action="store_true", help="print where the time goes; slows everything")
    parser.add_argument("--folder", help="where the stores are made")
    parser.add_argument("--keep", type=Path, help="make the stores here, or find them; measured are copies")
    options = parser.parse_args()
    if not options.default_collector:
        import config  # noqa: F401 - sets it as in every process of the reference project
    print(f"{support.machine()}, collector {gc.get_threshold()}")
    found: dict[int, Figures] = {}
    with support.scratch(options.folder) as scratch:
        for objects in sorted(options.objects):
            start = time.perf_counter()
            root = made(objects, scratch, options.keep)
            figures = found[objects] = measure(root, objects, options.calls, options.profile)
            print(f"{objects:>7,} objects ({time.perf_counter() - start:.0f} s, {support.machine()})")
            print(f"    retrieve  {figures.retrieve}  {figures.sections:.1f} memories a pack")
            print(f"    at first  {figures.at_first}")
            print(f"    after one {figures.after_commit}")
            print(f"    engine    {figures.engine}")
            print(
                f"    asks      {figures.round_trips} round trips, {figures.statistics_queries} statistics "
                f"queries ({figures.sql} SQL)",
                flush=True,
            )
    sizes = sorted(found)
    for small, large in zip(sizes, sizes[1:], strict=False):
        growth = found[large].retrieve.p50 / found[small].retrieve.p50
        at_first = found[large].at_first.p50 / found[small].at_first.p50
        print(
            f"growth from {small:,} to {large:,} objects: {growth:.2f}, at first {at_first:.2f} (allowed 3)"
        )
    last = found[sizes[-1]]
    print(
        f"retrieve_p50_ms={last.retrieve.p50:.2f} retrieve_p95_ms={last.retrieve.p95:.2f} "
        f"round_trips={max(f.round_trips for f in found.values())} "
        f"statistics_queries={max(f.statistics_queries for f in found.values())} "
        f"engine_ms={last.engine.p50:.2f}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
