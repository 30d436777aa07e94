"""No read of recall is unbounded (DESIGN R10): a notion in everything costs what one in a few hundred things does.

The life here has one person who was at every episode and whom every belief is about, one thread that all
beliefs belong to, one episode with a turn for each belief, and one note that is linked to all of them. Every
read that reaches the graph's engine is recorded with its limit and with what came back, and every statement
of the statistics.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from pyoxigraph import Quad

from charactermemory.adapters.oxigraph.connection import NamedNode, Pattern, Row, Triple
from charactermemory.adapters.oxigraph.in_memory import InMemoryConnection
from charactermemory.adapters.oxigraph.mapping import object_triples
from charactermemory.adapters.oxigraph.terms import graph_iri
from charactermemory.domain.digest import digest
from charactermemory.domain.kinds import RelationType
from charactermemory.domain.lifecycle import Stored
from charactermemory.domain.objects import MemoryObject
from charactermemory.domain.scene import Participant, Scene
from charactermemory.ports.statistics import Health
from charactermemory.ports.transcript import RecentTurn
from charactermemory.recall import RetrievalContext
from charactermemory.recall.context import GraphLimits
from charactermemory.recall.recent import unremembered
from charactermemory.testing.builders import (
    NOON,
    at,
    belief,
    episode,
    link,
    notion,
    numbered_id,
    observation,
    thread,
)
from charactermemory.testing.recording import RecordingConnection
from charactermemory.upkeep.projection import project
from tests.recall.world import COLLECTION, World

FEW, MANY, VERY_MANY = 300, 2_000, 50_000
"""Memories at one notion; the fewest are beyond every cap."""

LOG = "a whole evening's log"
"""What every turn was taken from."""

PAGE = 5_000
"""Objects projected at once."""

ROWS_PER_TERM = 64
"""Rows that a query may return for each term it names; an object's node has about 15."""
TOLERANCE = 1.1
"""Which neighbours are met first is the store's choice, so that two lives are not read quite alike."""

WHOLE = "?s ?q ?o"
"""Asks for everything under a node, the links that start there too."""

CUT = re.compile(r"} LIMIT \d+ }")
"""Ends a sub-select that is cut off."""

PATTERNS = re.compile(r"GRAPH <[^>]+> {(?:[^{}]|{[^{}]*})*}")
"""What is asked of terms that are named beside it, each way of asking in braces of its own."""

LIMITED = re.compile(r" LIMIT (\d+)$")
"""Ends a query that names nothing."""

KEYED = re.compile(r"FROM (generation|hub_count|global_count) WHERE \w+ = ")
"""Tables of which a read by key brings one row, or the counters of one hub: at most one a relation and type."""


@dataclass(frozen=True)
class Read:
    """One read: what it asked for, the most it may return, and what it returned."""

    text: str
    named: int
    limit: int
    rows: int


class Watched(RecordingConnection):
    """A connection that notes every read."""

    def __init__(self) -> None:
        super().__init__(InMemoryConnection())
        self.reads: list[Read] = []

    def query(self, text: str) -> list[Row]:
        rows = super().query(text)
        named = sum(
            len(re.findall(r'<[^>]+>|"', clause)) for clause in re.findall(r"VALUES[^{]+{([^}]*)}", text)
        )
        whole = LIMITED.search(text) if not named else None
        self.reads.append(
            Read(text, named, int(whole.group(1)) if whole else ROWS_PER_TERM * named, len(rows))
        )
        return rows

    def match(self, graph: NamedNode, patterns: Sequence[Pattern]) -> list[list[Triple]]:
        answers = super().match(graph, patterns)
        for pattern, triples in zip(patterns, answers, strict=True):
            limit = ROWS_PER_TERM if pattern.limit is None else pattern.limit
            self.reads.append(Read(str(pattern), 1, limit, len(triples)))
        return answers

    @property
    def store(self) -> Any:
        """The engine's own store, for loading past the commit path."""
        return self.inner._engine.store  # type: ignore[attr-defined]


class Crowd:
    """A life of `size` episodes, in which one of everything has to do with all of them.

    Of beliefs, turns and links there are `others`, as many as episodes unless said otherwise.
    """

    def __init__(self, size: int, others: int | None = None) -> None:
        self.connection = Watched()
        self.world = World(self.connection)
        numbers = iter(range(1, 10 * size))

        def new_id() -> Any:
            return numbered_id(next(numbers))

        self.person, self.line = notion(id=new_id()), thread(id=new_id())
        self.long = episode(id=new_id(), scene=Scene.at(NOON, Participant(key=self.person.id)))
        self.note = belief(self.long, id=new_id(), text="All of it hangs together.")
        named = belief(id=new_id(), entity_ids=(self.person.id,), known_as="Robin", text="This is Robin.")
        self.episodes, self.beliefs, self.turns = [], [], []
        rest: list[MemoryObject] = []
        for n in range(size):
            scene = Scene.at(at(n), Participant(key=self.person.id))
            happened = episode(id=new_id(), scene=scene, salience_score=n % 7 / 7)
            self.episodes.append(happened)
            if n >= (size if others is None else others):
                continue
            said = observation(self.long, n, id=new_id(), salience_score=n % 5 / 5, raw_ref=LOG)
            held = belief(
                happened,
                id=new_id(),
                entity_ids=(self.person.id,),
                thread_ids=(self.line.id,),
                salience_score=n % 3 / 3,
            )
            rest.append(link(self.note, held, RelationType.ASSOCIATED_WITH, id=new_id()))
            self.turns.append(said)
            self.beliefs.append(held)
        few: list[MemoryObject] = [self.person, self.line, self.long, self.note, named]
        self._load([*few, *self.episodes, *self.turns, *self.beliefs, *rest])
        # One of each kind, so that each hub is met within two steps.
        hits = [self.note, self.beliefs[3], self.turns[40], self.episodes[5], self.line, self.long]
        self.world.vectors.script(dense=[(item, 0.9 - n / 100) for n, item in enumerate(hits)])
        self.statements: list[str] = []
        database: Any = self.world.statistics.inner._database
        database._reader._connection.set_trace_callback(self.statements.append)

    def _load(self, items: Sequence[MemoryObject]) -> None:
        graph = graph_iri(COLLECTION)
        self.connection.store.bulk_extend(
            Quad(*triple, graph) for item in items for triple in object_triples(item, digest(item))
        )
        stored = [Stored(object=item, digest="0" * 64) for item in items]
        ends = {item.object.ref: item for item in stored}
        for start in range(0, len(stored), PAGE):
            self.world.statistics.inner.apply(project(stored[start : start + PAGE], ends), 1)

    def ask(self, context: RetrievalContext, trusted: bool) -> list[Read]:
        """Retrieve, with statistics that are to be trusted or not, and return what was read."""
        self.world.statistics.recover()
        if not trusted:
            unhealthy = Health("unhealthy")
            self.world.statistics.alter("health", lambda _: unhealthy)
            self.world.statistics.alter("counts", lambda found: replace(found, health=unhealthy))
        self.connection.reads.clear()
        self.statements.clear()
        assert not self.world.retrieve(context).rationale.degraded
        return list(self.connection.reads)


@pytest.fixture(scope="module")
def few() -> Crowd:
    return Crowd(FEW)


@pytest.fixture(scope="module")
def many() -> Crowd:
    return Crowd(MANY)


def contexts(crowd: Crowd) -> Iterator[RetrievalContext]:
    """Yield one context for each way of coming to a hub."""
    scene = Scene.at(at(50), Participant(key=crowd.person.id))
    yield RetrievalContext(topic="tea")
    yield RetrievalContext(topic="What does Robin think of tea?", include_trace=True)
    yield RetrievalContext(topic="tea", scene=scene, anchors=(crowd.person.id,), include_trace=True)
    yield RetrievalContext(scene=scene)
    yield RetrievalContext(topic="tea", graph_limits=GraphLimits(max_depth=3, max_nodes=1_000))
    yield RetrievalContext(topic="tea", lifecycle_policy={"include_suppressed": True})
    yield RetrievalContext(topic="tea", profile="automatic")


def check(crowd: Crowd, reads: Iterable[Read]) -> None:
    """Every read carries a limit, or is over terms it names, and brought no more than that allows."""
    most = GraphLimits().max_hub_edges + 1
    for read in reads:
        if read.text.startswith("SELECT"):
            for group in PATTERNS.sub("", read.text).split(" UNION "):
                assert "VALUES" in group or LIMITED.search(read.text), f"names nothing: {group[:300]}"
            assert WHOLE not in read.text or CUT.search(read.text), f"no limit: {read.text[-300:]}"
        else:
            assert read.limit <= most, f"no limit to speak of: {read.text[:300]}"
        assert read.rows <= read.limit, f"{read.rows} rows of at most {read.limit}: {read.text[:300]}"
    for statement in crowd.statements:
        bounded = "LIMIT" in statement or "AS (VALUES" in statement or KEYED.search(statement)
        assert bounded or not statement.startswith(("SELECT", "WITH")), statement[:300]


def asked(reads: Sequence[Read]) -> tuple[int, int]:
    """Return how many terms were named, and how many edges came back.

    Not the rows of contents: up to its limit, an object's node brings the links that start there.
    """
    edges = (read.rows for read in reads if not read.text.startswith("SELECT"))
    return sum(read.named for read in reads), sum(edges)


@pytest.mark.parametrize("trusted", [True, False], ids=["statistics", "no statistics"])
def test_a_crowd_is_never_read_whole(few: Crowd, many: Crowd, trusted: bool) -> None:
    compare(few, many, trusted)


@pytest.mark.slow
def test_fifty_thousand_are_never_read_whole(few: Crowd) -> None:
    very_many = Crowd(VERY_MANY, others=MANY)
    compare(few, very_many, trusted=True)
    compare(few, very_many, trusted=False)


def compare(few: Crowd, many: Crowd, trusted: bool) -> None:
    for of_few, of_many in zip(contexts(few), contexts(many), strict=True):
        in_few, in_many = few.ask(of_few, trusted), many.ask(of_many, trusted)
        check(few, in_few)
        check(many, in_many)
        for small, large in zip(asked(in_few), asked(in_many), strict=True):
            assert large <= TOLERANCE * small, of_many


class Log:
    """A transcript: its turns are of the evening, except for one."""

    def turns(self, topic: str, limit: int) -> list[RecentTurn]:
        refs = [LOG] * (limit - 1) + ["a later log"]
        return [
            RecentTurn(
                conversation_id="evening", raw_ref=ref, role="user", text=f"{topic} {n}", said_at=at(n)
            )
            for n, ref in enumerate(refs)
        ]


def test_what_was_imported_under_one_reference_is_not_read_whole(many: Crowd) -> None:
    many.connection.reads.clear()

    found = unremembered(Log(), many.world.graph, "tea")

    assert [turn.raw_ref for turn in found] == ["a later log"]
    check(many, many.connection.reads)
    assert [read.rows for read in many.connection.reads] == [1]
