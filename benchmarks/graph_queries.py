"""Are the graph adapter's queries flat? Runs every one of them in a small and in a large collection.

    python -m benchmarks.graph_queries [--sizes 1000 100000] [--rounds 15] [--service]

Two collections are filled with objects of every type around one hub that half of them touch. Then a script
calls every method of the graph port on the same number of objects in both, and every call that reaches the
connection is timed: query texts, match batches, guarded inserts. The table gives the fastest of all rounds,
since whatever is slower is other work of the machine, and the ratio between the sizes; the exit code is 1 when
one ratio is above 3 (decisions.md "To R3"). What a method returns whole by its contract (members, observations,
memories of a source) has the same size in both.

`--service` asks `oxigraph serve` on the same folder instead of the engine in process.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import cast
from uuid import UUID

from pyoxigraph import NamedNode, Quad, Store, Triple

from charactermemory.adapters.oxigraph.connection import Connection, Pattern, Row
from charactermemory.adapters.oxigraph.embedded import EmbeddedConnection
from charactermemory.adapters.oxigraph.locks import ThreadWriterLock
from charactermemory.adapters.oxigraph.mapping import event_triples, object_triples, receipt_triples
from charactermemory.adapters.oxigraph.service import ServiceConnection
from charactermemory.adapters.oxigraph.store import OxigraphStore
from charactermemory.adapters.oxigraph.terms import graph_iri, ref_iri
from charactermemory.domain.digest import digest
from charactermemory.domain.kinds import RelationType
from charactermemory.domain.lifecycle import LifecycleEvent, derived_links
from charactermemory.domain.objects import MemoryObject
from charactermemory.domain.scene import Participant, Scene, Setting
from charactermemory.ports.graph import Edge, WriteBatch
from charactermemory.testing.builders import (
    NOON,
    belief,
    episode,
    forgetting,
    link,
    notion,
    observation,
    thread,
)
from charactermemory.testing.servers import OxigraphServer

COLLECTION = "bench"
GRAPH = graph_iri(COLLECTION)
LIMIT = 3.0
GROUP = 10
FLOOR_MS = 0.05
"""Added to both sides of a ratio: below it, the clock and the caches are what is measured."""

Label = tuple[str, int, str]


class Timed:
    """A connection that times its calls under the name of what is being done."""

    def __init__(self, inner: Connection) -> None:
        self.inner = inner
        self.name: str | None = None
        self.taken: defaultdict[Label, list[float]] = defaultdict(list)
        self._count = 0

    @contextmanager
    def doing(self, name: str) -> Iterator[None]:
        self.name, self._count = name, 0
        try:
            yield
        finally:
            self.name = None

    def _timed(self, kind: str, call: Callable[[], object]) -> object:
        started = time.perf_counter()
        result = call()
        if self.name is not None:
            self._count += 1
            self.taken[self.name, self._count, kind].append((time.perf_counter() - started) * 1e3)
        return result

    def query(self, text: str) -> list[Row]:
        return self._timed("query", lambda: self.inner.query(text))  # type: ignore[return-value]

    def ask(self, text: str) -> bool:
        return self._timed("ask", lambda: self.inner.ask(text))  # type: ignore[return-value]

    def update(self, text: str) -> None:
        self._timed("update", lambda: self.inner.update(text))

    def match(self, graph: NamedNode, patterns: Sequence[Pattern]) -> list[list[Triple]]:
        return self._timed("match", lambda: self.inner.match(graph, patterns))  # type: ignore[return-value]

    def __getattr__(self, name: str) -> object:
        """Everything else is passed on untimed."""
        return getattr(self.inner, name)


class Ids:
    """Ids that are the same in every run."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def __call__(self) -> UUID:
        return UUID(int=self._random.getrandbits(128), version=4)


def crowd(count: int, hub: MemoryObject, ids: Ids) -> Iterator[list[MemoryObject]]:
    """Yield groups of ten objects, all of which touch the hub one way or another."""
    for number in range(count // GROUP):
        who = notion(id=ids())
        scene = Scene(
            time=NOON,
            participants=(Participant(key=hub.id, name="Ada"), Participant(key=who.id)),
            setting=Setting(key=f"room:{number % 7}", words="the kitchen"),
            custom_values={"weather": "rain"},
        )
        happened = [episode(id=ids(), scene=scene, summary=f"Talk {number}.{part}") for part in range(2)]
        said = [
            observation(happened[part % 2], part, id=ids(), text=f"Line {part} of talk {number}, about rain.")
            for part in range(4)
        ]
        held = belief(*said, id=ids(), entity_ids=(hub.id, who.id), text=f"It rains, {number} times.")
        ties = [
            link(hub, happened[0], id=ids()),
            link(happened[0], hub, RelationType.MENTIONS, id=ids()),
        ]
        yield [who, *happened, *said, held, *ties]


def fill(folder: Path, count: int, hub: MemoryObject) -> list[MemoryObject]:
    """Write the crowd straight into the engine's files; return a sample of it."""
    ids, sample = Ids(1), [hub]

    def quads() -> Iterator[Quad]:
        for token, group in enumerate(crowd(count, hub, ids), start=1):
            items = group if token > 1 else [hub, *group]
            sample.extend(group if len(sample) < 100 else [])
            batch = WriteBatch("commit", "plan", NOON)
            for item in items:
                yield from (Quad(*triple, GRAPH) for triple in object_triples(item, digest(item)))
            yield from (
                Quad(*triple, GRAPH)
                for triple in receipt_triples(token, batch, [ref_iri(i.ref) for i in items])
            )
            if token % 10 == 0:
                event = forgetting(group[1], id=ids())
                yield from (Quad(*triple, GRAPH) for triple in event_triples(event))

    store = Store(str(folder))
    store.bulk_extend(quads())
    store.flush()
    return sample


class Script:
    """Every method of the port, on the same number of objects whatever the collection's size."""

    def __init__(self, store: OxigraphStore, timed: Timed, sample: list[MemoryObject]) -> None:
        self.store, self.timed, self.sample = store, timed, sample
        self.ids = Ids(2)
        self.hub = sample[0]
        self.happened = episode(id=self.ids())
        self.said = [observation(self.happened, number, id=self.ids()) for number in range(20)]
        self.story = thread(id=self.ids())
        self.people = [notion(id=self.ids()) for _ in range(10)]
        self.held = [
            belief(
                self.said[number],
                id=self.ids(),
                entity_ids=(self.people[number].id,),
                thread_ids=(self.story.id,),
                known_as=f"Person {number}",
            )
            for number in range(10)
        ]
        self.newer = belief(
            self.happened,
            id=self.ids(),
            supersedes=(self.held[0].id,),
            entity_ids=(self.hub.id,),
            known_as="Ada",
        )

    def prepare(self) -> None:
        """Store what the script asks about."""
        self.put(self.happened, *self.said, self.story, *self.people, *self.held)
        self.put(self.newer, *derived_links(self.newer))
        self.put(event=forgetting(self.held[1], id=self.ids()))

    def put(self, *objects: MemoryObject, event: LifecycleEvent | None = None) -> None:
        with self.store.writing() as writer:
            writer.apply(WriteBatch("commit", "plan", NOON, objects, event, (("hub", self.hub.ref),)))

    def episode_with_two(self) -> tuple[MemoryObject, ...]:
        happened = episode(id=self.ids(), scene=Scene.at(NOON, Participant(key=self.hub.id)))
        return (happened, *(observation(happened, number, id=self.ids()) for number in range(2)))

    def steps(self) -> Iterator[tuple[str, Callable[[], object]]]:
        """Yield every step once; writes are new every time."""
        refs = [item.ref for item in self.sample[:60]] + [
            item.ref for item in (*self.said, *self.held, self.newer)
        ]
        near = [self.hub.ref, *(item.ref for item in self.sample[1:12])]
        people = [item.id for item in self.people]
        head = self.store.head()
        edges = [Edge(self.hub.ref, RelationType.ASSOCIATED_WITH, item.ref) for item in self.sample[:50]]
        store = self.store
        yield "read 91 anew", lambda: store.read(refs, anew=True)
        yield "read 91 known", lambda: store.read(refs)
        yield "read hub anew", lambda: store.read([self.hub.ref], anew=True)
        yield "existing 91", lambda: store.existing(refs)
        yield "neighbours 12 + hub, cap 64", lambda: store.neighbours(near, tuple(RelationType), 64)
        names = [f"person {number}" for number in range(10)] + ["ada", "nobody"]
        yield "notions_known_as 12", lambda: store.notions_known_as(names)
        yield "names_of 10 + hub", lambda: store.names_of([*people, self.hub.id])
        yield "memories_from 21", lambda: store.memories_from([self.happened.id], [i.id for i in self.said])
        yield "observations_of", lambda: store.observations_of([self.happened.id])
        yield "members_of", lambda: store.members_of(self.story.id)
        yield "turns 48", lambda: store.turns([(self.happened.id, number) for number in range(48)])
        yield "link_ids 50", lambda: store.link_ids(edges)
        yield "head", store.head
        yield "receipts, last 32", lambda: store.receipts(head - 32, head)
        yield "scan 200, first page", lambda: store.scan(None, 200)
        yield "commit 1 episode, 2 observations", lambda: self.put(*self.episode_with_two())
        yield "commit 200 notions", lambda: self.put(*(notion(id=self.ids()) for _ in range(200)))
        yield "replay 41 objects", lambda: self.put(self.happened, *self.said, *self.people)
        target = self.sample[4]
        yield "forget 1", lambda: self.put(event=forgetting(target, id=self.ids()))

    def run(self, timing: bool) -> None:
        """Take every step once."""
        for name, step in self.steps():
            if timing:
                with self.timed.doing(name):
                    step()
            else:
                step()


@contextmanager
def opened(size: int, service: bool) -> Iterator[Script]:
    """Fill a collection of `size` objects and open it."""
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        EmbeddedConnection(root, COLLECTION).close()
        started = time.perf_counter()
        sample = fill(root / COLLECTION, size, notion(id=Ids(3)()))
        print(f"{size} objects written in {time.perf_counter() - started:.1f} s", flush=True)
        connection: Connection
        if service:
            server = stack.enter_context(OxigraphServer(root / COLLECTION))
            connection = ServiceConnection(server.url)
        else:
            connection = EmbeddedConnection(root, COLLECTION)
        timed = Timed(connection)
        store = OxigraphStore(cast(Connection, timed), COLLECTION, ThreadWriterLock(str(root)))
        script = Script(stack.enter_context(closing(store)), timed, sample)
        script.prepare()
        yield script


def measured(sizes: Sequence[int], rounds: int, service: bool) -> list[dict[Label, float]]:
    """Return the fastest time, in ms, of every call of the script in collections of these sizes.

    The collections take turns, so that both see the same state of the machine.
    """
    with ExitStack() as stack:
        scripts = [stack.enter_context(opened(size, service)) for size in sizes]
        for number in range(rounds + 2):
            for script in scripts:
                script.run(timing=number >= 2)
        return [{label: min(taken) for label, taken in script.timed.taken.items()} for script in scripts]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs=2, default=(1_000, 100_000), metavar="OBJECTS")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--service", action="store_true")
    options = parser.parse_args()
    small, large = measured(options.sizes, options.rounds, options.service)
    if small.keys() != large.keys():
        print("the two collections were asked different questions:", sorted(small.keys() ^ large.keys()))
        return 1
    print(f"\n{'step':36} {'call':8} {options.sizes[0]:>10} {options.sizes[1]:>10}  ratio")
    worst = 0.0
    for label, before in small.items():
        ratio = (large[label] + FLOOR_MS) / (before + FLOOR_MS)
        worst = max(worst, ratio)
        name, number, kind = label
        mark = "  <-- above 3" if ratio > LIMIT else ""
        print(
            f"{name:36} {kind + ' ' + str(number):8} {before:8.2f}ms {large[label]:8.2f}ms {ratio:6.2f}{mark}"
        )
    print(f"\nworst ratio {worst:.2f}, allowed {LIMIT:.0f}")
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
