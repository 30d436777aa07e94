"""A life of any length on real embedded stores, and how figures are taken and shown."""

from __future__ import annotations

import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain, islice
from operator import add
from pathlib import Path
from typing import Any
from uuid import UUID
from zlib import crc32

from pyoxigraph import NamedNode, Quad, Triple

from charactermemory import (
    SCHEMA_VERSION,
    CharacterMemory,
    EntityDraft,
    EpisodeDraft,
    MemoryId,
    ObservationDraft,
    Participant,
    RememberInput,
    RememberWritePlan,
    Scene,
    Setting,
    candidate,
)
from charactermemory.adapters.oxigraph.mapping import object_triples, receipt_triples
from charactermemory.adapters.oxigraph.terms import graph_iri, ref_iri
from charactermemory.domain.digest import digest
from charactermemory.domain.lifecycle import Stored
from charactermemory.domain.objects import Entity, MemoryObject
from charactermemory.domain.provenance import CandidateProvenance, ProducerKind
from charactermemory.ids import MemoryObjectRef, ObjectType
from charactermemory.ports.embedding import Vector
from charactermemory.ports.graph import WriteBatch
from charactermemory.ports.stores import Stores
from charactermemory.ports.vectors import VectorRecord
from charactermemory.upkeep.projection import project
from charactermemory.upkeep.surfaces import surface_of

COLLECTION = "life"
DIMENSION = 256
"""Components of the bundled embedder's vectors."""
OBJECTS_PER_MOMENT = 3
"""An episode with two observations."""

_NOTIONS = 20
_WORDS = 4_000
_BIRTH = datetime(2020, 1, 1, 8, tzinfo=UTC)
_STEP = timedelta(minutes=20)
_FILL_PAGE = 500


class ReadyVectors:
    """An embedder whose vectors are sums of two made beforehand, so that embedding costs next to nothing.

    A million different ones, the same in every run: were many points to share one, as they do with no model,
    each search would spend its time on closing ties.
    """

    def __init__(self) -> None:
        rng = random.Random(0)  # noqa: S311
        self._pool = [[rng.gauss(0, 1) for _ in range(DIMENSION)] for _ in range(1_024)]

    def fingerprint(self) -> str:
        """See `EmbeddingProvider`."""
        return "benchmark:ready"

    def vector_size(self) -> int:
        """See `EmbeddingProvider`."""
        return DIMENSION

    def generate_embedding(self, text: str) -> Vector:
        """See `EmbeddingProvider`."""
        number = crc32(text.encode())
        one, other = (
            self._pool[number % len(self._pool)],
            self._pool[number // len(self._pool) % len(self._pool)],
        )
        return list(map(add, one, other))

    def bulk_generate_embeddings(self, texts: Sequence[str]) -> list[Vector]:
        """See `EmbeddingProvider`."""
        return [self.generate_embedding(text) for text in texts]


def settings(root: Path) -> dict[str, str]:
    """Return the settings of embedded stores under `root`."""
    return {
        "GRAPH_STORE_MODE": "persistent",
        "OXIGRAPH_PATH": str(root / "graph"),
        "VECTOR_STORE_MODE": "embedded",
        "VECTOR_STORE_PATH": str(root / "vectors"),
        "RETRIEVAL_STATS_PATH": str(root / "statistics.sqlite3"),
    }


def open_memory(root: Path, collection: str = COLLECTION) -> CharacterMemory:
    """Open the memory under `root` with vectors that cost nothing."""
    return CharacterMemory.open(settings(root), collection, embedding_provider=ReadyVectors())


def notion_id(number: int) -> MemoryId:
    """Return the id of one of the people in this life."""
    return UUID(int=number + 1, version=4)


def moment(number: int) -> RememberInput:
    """Return the `number`-th moment of the life: an episode with two observations, two people, a place.

    Person 0 is in all of them, and so becomes a hub; words are drawn as in speech, few often, many seldom.
    """
    rng = random.Random(number)  # noqa: S311
    when = _BIRTH + number * _STEP
    people = (notion_id(0), notion_id(1 + number % (_NOTIONS - 1)))
    episode = UUID(int=rng.getrandbits(128), version=4)
    scene = Scene(
        time=when,
        participants=tuple(Participant(key=key) for key in people),
        setting=Setting(words=_sentence(rng, 2)),
    )
    observations = tuple(
        ObservationDraft(
            id=UUID(int=rng.getrandbits(128), version=4),
            episode_id=episode,
            position=place,
            speaker_entity_id=people[place],
            observed_at=when + timedelta(seconds=place),
            text=_sentence(rng, 20),
            created_at=when,
            schema_version=SCHEMA_VERSION,
        )
        for place in (0, 1)
    )
    draft = EpisodeDraft(
        id=episode, scene=scene, summary=_sentence(rng, 12), created_at=when, schema_version=SCHEMA_VERSION
    )
    return RememberInput(episode=draft, observations=observations)


def _sentence(rng: random.Random, length: int) -> str:
    return " ".join(f"word{int(_WORDS ** rng.random())}" for _ in range(length))


def objects_of(data: RememberInput) -> list[MemoryObject]:
    """Return what a moment becomes when it is stored."""
    drafts = (data.episode, *data.observations)
    return [draft.to_object(draft.created_at) for draft in drafts if draft and draft.created_at]


def mapped(objects: Sequence[MemoryObject], token: int) -> Iterator[Triple]:
    """Yield every triple that commit `token` of these objects writes."""
    batch = WriteBatch("commit", "0" * 64, _BIRTH, objects=tuple(objects))
    for item in objects:
        yield from object_triples(item, digest(item))
    yield from receipt_triples(token, batch, [ref_iri(item.ref) for item in objects])


def records(objects: Iterable[MemoryObject], embedder: ReadyVectors) -> list[VectorRecord]:
    """Return the points of these objects."""
    surfaces = [surface for item in objects if (surface := surface_of(item)) is not None]
    return [
        VectorRecord(surface, embedder.generate_embedding(surface.embedding_text)) for surface in surfaces
    ]


def engine_of(memory: CharacterMemory) -> Any:
    """Return the embedded graph's open engine: its store and its log."""
    shared = memory.stores.graph._connection._store  # type: ignore[attr-defined]
    with shared.use() as opened:
        return opened


def shard_of(memory: CharacterMemory) -> Any:
    """Return the embedded index's shard."""
    return memory.stores.vectors._store.generation._shard  # type: ignore[attr-defined]


def people() -> RememberWritePlan:
    """Return the plan of the people of this life, of whom its moments speak."""
    provenance = CandidateProvenance.unavailable(ProducerKind.CALLER)
    drafts = [
        EntityDraft(id=notion_id(n), created_at=_BIRTH, schema_version=SCHEMA_VERSION)
        for n in range(_NOTIONS)
    ]
    return RememberWritePlan.new().with_candidates(*(candidate(draft, provenance) for draft in drafts))


def grow(root: Path, moments: int) -> None:
    """Bring a memory under `root` to `moments` moments, past the commit path: loading them is no measurement."""
    with open_memory(root) as memory:
        stores = memory.stores
        if stores.graph.head() == 0:
            memory.commit(people())
        start = stores.graph.head() - 1
        if moments <= start:
            return
        head = moments + 1
        store = engine_of(memory).engine.store
        store.bulk_extend(_loaded(stores, range(start, moments), head))
        # Where a memory grew by commits the engine has put its files in order by the way; a recall takes as long
        # in either, and 5 % longer in files just loaded (24.3 and 23.7 against 25.0 ms at 100,000 objects).
        store.optimize()
        stores.vectors.flush(head)
        stores.statistics.advance(head)


def _loaded(stores: Stores, numbers: Iterable[int], head: int) -> Iterator[Quad]:
    """Yield the quads of moments, and bring each page of them to the derived stores by the way."""
    graph, embedder = graph_iri(COLLECTION), ReadyVectors()
    for page in _pages(numbers):
        made = {number: objects_of(moment(number)) for number in page}
        for number, objects in made.items():
            for triple in mapped(objects, number + 2):
                yield Quad(*triple, graph)
        together = list(chain.from_iterable(made.values()))
        stores.vectors.write(records(together, embedder), (), head)
        stores.statistics.apply(project(map(_stored, together), _PEOPLE), head)


def _pages(numbers: Iterable[int]) -> Iterator[list[int]]:
    rest = iter(numbers)
    while page := list(islice(rest, _FILL_PAGE)):
        yield page


def _stored(item: MemoryObject) -> Stored:
    return Stored(object=item, digest="0" * 64)


_PEOPLE = {
    MemoryObjectRef.of(ObjectType.ENTITY, notion_id(n)): _stored(Entity(id=notion_id(n), created_at=_BIRTH))
    for n in range(_NOTIONS)
}


@dataclass(frozen=True)
class Spread:
    """Milliseconds of a call: median, 95th percentile, greatest; and the thread's CPU, on average and median."""

    p50: float
    p95: float
    greatest: float
    cpu: float
    cpu_p50: float

    def __str__(self) -> str:
        taken = f"p50 {self.p50:.2f}  p95 {self.p95:.2f}  max {self.greatest:.1f}"
        return f"{taken}  cpu {self.cpu:.2f} (p50 {self.cpu_p50:.2f}) ms"


class Timer:
    """Collects the durations of single calls."""

    def __init__(self) -> None:
        self.taken: list[float] = []
        self._cpu: list[float] = []

    def __call__(self, call: Callable[[], Any]) -> Any:
        """Run and time a call."""
        cpu, start = time.thread_time(), time.perf_counter()
        answer = call()
        self.taken.append((time.perf_counter() - start) * 1_000)
        self._cpu.append((time.thread_time() - cpu) * 1_000)
        return answer

    @property
    def spread(self) -> Spread:
        """What was measured."""
        cuts = statistics.quantiles(self.taken, n=20)
        return Spread(
            statistics.median(self.taken),
            cuts[18],
            max(self.taken),
            statistics.fmean(self._cpu),
            statistics.median(self._cpu),
        )


@contextmanager
def scratch(parent: str | None) -> Iterator[Path]:
    """Give a folder that is removed again."""
    with tempfile.TemporaryDirectory(prefix="charactermemory-", dir=parent) as folder:
        yield Path(folder)


def bytes_written() -> int:
    """Return what this process has sent to the disk so far; -1 where the system does not tell."""
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError:
        return -1
    return int(dict(line.split(": ") for line in lines)["write_bytes"])


def machine() -> str:
    """Describe the machine and how busy it is."""
    return f"{os.cpu_count()} cores, load {' '.join(f'{value:.1f}' for value in os.getloadavg())}"


def named_graph(name: str) -> NamedNode:
    """Return the graph of another collection in the same store, which no memory reads."""
    return graph_iri(name)
