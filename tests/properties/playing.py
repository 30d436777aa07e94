"""Plays sequences of deeds on a memory and on the model, in fair weather and foul, and compares after each."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Set
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Literal, NamedTuple

from charactermemory.adapters.oxigraph.store import OxigraphStore
from charactermemory.composition import Opened
from charactermemory.errors import (
    CharacterMemoryError,
    EmbeddingError,
    RetrievalStatsStoreError,
    StoreError,
    StoreUnavailable,
    VectorDatabaseError,
)
from charactermemory.memory import CharacterMemory
from charactermemory.ports.graph import GraphStore
from charactermemory.ports.ledger import Ledger
from charactermemory.recall.context import CandidateLimits, GraphLimits, RetrievalContext, SectionLimits
from charactermemory.testing.statistics_model import assert_equal_to_recount
from charactermemory.upkeep.rebuild import pages, projections
from tests.properties.deeds import Deed, Maker, Remember, key_of
from tests.properties.model import Model
from tests.support.grounds import COLLECTION, Ground
from tests.support.steps import Crash, Moment, Step, unwatched

DeedKind = Literal["remember", "leave", "correct", "forget", "link", "repeat", "claim"]
UpkeepKind = Literal["sweep", "restart", "verify", "rebuild_vectors", "rebuild_statistics"]
WeatherKind = Literal["fair", "meanwhile", "crash", "no embedding", "no index", "no statistics", "taken over"]

UPKEEP: tuple[UpkeepKind, ...] = ("sweep", "restart", "verify", "rebuild_vectors", "rebuild_statistics")

EVERYTHING = RetrievalContext(
    topic="note",
    candidate_limits=CandidateLimits(max_vector_candidates=1_000, max_graph_roots=100),
    graph_limits=GraphLimits(max_depth=1, max_nodes=1_000, max_fanout_per_node=256, max_hub_edges=1_000),
    section_limits=SectionLimits(**dict.fromkeys(SectionLimits.model_fields, 500)),
)
"""Every text here has the word, and every limit is beyond what a sequence makes."""

_FAILURES: dict[WeatherKind, tuple[str, str, Callable[[], Exception]]] = {
    "no embedding": ("embedder", "bulk_generate_embeddings", lambda: EmbeddingError("timeout")),
    "no index": ("index", "write", lambda: VectorDatabaseError("test", "engine", "not now")),
    "no statistics": ("statistics", "apply", lambda: RetrievalStatsStoreError("sqlite", "not now")),
}


class Violation(AssertionError):
    """The memory is not as the model says."""


class Act(NamedTuple):
    """What is done: a deed or upkeep, and three numbers that choose what it is about."""

    kind: DeedKind | UpkeepKind
    one: int = 0
    other: int = 0
    flags: int = 0

    def __repr__(self) -> str:
        """Short, for a failing sequence is printed whole."""
        return f"{self.kind} {self.one} {self.other} {self.flags}"


class Weather(NamedTuple):
    """What happens during an act.

    fair: nothing. meanwhile: another act while texts are embedded, outside every lock. crash: the process
    dies before or after its step number `at`. no …: that port fails once. taken over: just before the update
    reaches the graph, another process takes over the right to write, and writes.
    """

    kind: WeatherKind = "fair"
    at: int = 1
    after: bool = False
    other: Act = Act("sweep")

    def __repr__(self) -> str:
        """Short, for a failing sequence is printed whole."""
        match self.kind:
            case "meanwhile":
                return f"meanwhile: {self.other}"
            case "crash":
                return f"crash {'after' if self.after else 'before'} step {self.at}"
            case kind:
                return kind


FAIR = Weather()


class Player:
    """Plays acts; raises `Violation` as soon as memory and model differ."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.model = Model()
        self.head = 0
        self.behind = False
        """Whether a derived store may lack something, until a sweep."""
        self._make = Maker(self.model)
        self._deeds: list[Deed] = []
        self._unsettled: Deed | None = None
        self._struck = self._taken = False
        ground.start()
        self._do(self._make.beginning())
        self._see_head(True)

    @property
    def memory(self) -> CharacterMemory:
        """The open facade."""
        return self.ground.memory

    @property
    def graph(self) -> GraphStore:
        """The graph port."""
        return self.memory.stores.graph

    def play(self, acts: list[tuple[Act, Weather]]) -> None:
        """Play every act, then see that a sweep and a restart leave nothing to be done."""
        for act, weather in acts:
            self.act(act, weather)
        with _no_error("the end"):
            self.finish()

    def act(self, act: Act, weather: Weather = FAIR) -> None:
        """Play one act in its weather, and compare."""
        writes = self.model.writes
        try:
            with _no_error(f"{act} in {weather}"), self._weather(weather):
                self._one(act)
        except Crash:
            self._recover()
        if self._struck and weather.kind != "meanwhile":
            self.behind = True
        changed = self.model.writes > writes
        with _no_error(f"looking after {act} in {weather}"):
            self._see_head(changed)
            self.compare(recall=changed)

    # Weather.

    @contextmanager
    def _weather(self, weather: Weather) -> Iterator[None]:
        steps = self.ground.steps
        begun = len(steps.taken)
        self._struck = self._taken = False

        def watch(step: Step, moment: Moment) -> None:
            if not self._struck and _strikes(weather, step, moment, begun):
                self._struck = True
                self._strike(weather)

        steps.watch = watch
        try:
            yield
        finally:
            steps.watch = unwatched

    def _strike(self, weather: Weather) -> None:
        match weather.kind:
            case "meanwhile":
                self._settle()  # texts are embedded after the commit
                self._one(weather.other)
            case "crash":
                self.ground.steps.crash()
            case "taken over":
                self._take_over()
            case kind:
                raise _FAILURES[kind][2]()

    def _recover(self) -> None:
        """Begin a new process. What was not acknowledged happened whole, or not at all; its receipt tells."""
        self._restart(self.ground.die)
        if self.graph.head() > self.head:
            self._settle()
        self._unsettled = None

    def _take_over(self) -> None:
        """Another process finds this one's token open, settles it, writes, and dies before it derives."""
        self._taken = True
        deed = self._make.remember(0, 1, 128)
        with closing(self.ground.connect()) as connection:
            graph = OxigraphStore(connection, COLLECTION, _NextHolder(), watch_seconds=0)
            theirs = dataclasses.replace(
                self.memory.stores,
                graph=graph,
                vector_ledger=Ledger(0, 0),
                statistics_ledger=Ledger(0, 0),
            )
            deed.call(CharacterMemory(Opened(theirs, lambda: None), self.memory.settings, COLLECTION))
        deed.happen(self.model)

    # Acts.

    def _one(self, act: Act) -> None:
        if act.kind in UPKEEP:
            self._keep_up(act.kind)
        elif deed := self._deed(act):
            self._do(deed)

    def _deed(self, act: Act) -> Deed | None:
        make, one, other, flags = self._make, act.one, act.other, act.flags
        match act.kind:
            case "remember":
                return make.remember(one, other, flags & ~128)
            case "leave":
                return make.remember(one, other, flags | 128)
            case "correct":
                return make.correct(one, flags)
            case "forget":
                return make.forget(one, flags)
            case "link":
                return make.link(one, other)
            case "claim":
                return make.claim(one)
            case _:
                return self._deeds[-1 - one % len(self._deeds)]

    def _do(self, deed: Deed) -> None:
        """Do a deed, and see that of it comes what the model says."""
        self._deeds.append(deed)
        expected = deed.expect(self.model)
        before = None if expected.writes else self.export()
        self._unsettled = deed if expected.writes else None
        try:
            outcome = deed.call(self.memory)
        except CharacterMemoryError as error:
            taken_over = self._taken and isinstance(error, StoreUnavailable)
            if not taken_over and not isinstance(error, (*expected.refused, *expected.tolerated)):
                raise Violation(f"{deed} was refused: {error!r}") from error
            self._unsettled = None
        else:
            if expected.refused or self._taken:
                raise Violation(f"{deed} was not refused")
            if expected.mutated is not None:
                mutated = {key_of(ref) for ref in outcome.graph_mutated_object_ids}
                _same("what a revision mutated", mutated, set(expected.mutated))
            self._settle()
        if before is not None and not self._struck:
            _same("the graph after what changes nothing", self.export(), before)
        self.behind |= isinstance(deed, Remember) and deed.left

    def _settle(self) -> None:
        """Let the deed under way happen in the model: its commit is in the graph."""
        deed, self._unsettled = self._unsettled, None
        if deed is not None:
            deed.happen(self.model)

    def _keep_up(self, kind: str) -> None:
        before = self.export()
        upkeep = self.memory.upkeep
        try:
            match kind:
                case "sweep":
                    self.behind = not upkeep.sweep().complete
                case "restart":
                    self._restart(self.ground.stop)
                case "verify":
                    upkeep.verify(repair=True)
                case "rebuild_vectors":
                    upkeep.rebuild_vectors()
                case "rebuild_statistics":
                    upkeep.rebuild_statistics()
        except StoreError as error:
            if not self._struck:
                raise Violation(f"{kind} failed: {error!r}") from error
        if not self._struck:
            _same(f"the graph after {kind}", self.export(), before)

    def _restart(self, end: Callable[[], None]) -> None:
        end()
        self.ground.start()

    # Comparing.

    def export(self) -> tuple[bytes, ...]:
        """The graph as sorted lines; looking is no step."""
        steps = self.ground.steps
        watch, steps.watch = steps.watch, unwatched
        lines = tuple(self.memory.upkeep.export())
        steps.watch = watch
        return lines

    def _see_head(self, moved: bool) -> None:
        head = self.graph.head()
        if head < self.head or (head > self.head) is not moved:
            raise Violation(
                f"with {self.model.writes} writes in all the head went from {self.head} to {head}"
            )
        self.head = head

    def compare(self, *, recall: bool = True) -> None:
        """What comes back, what is indexed and what is counted is what the model says."""
        indexed = self.model.indexed()
        if recall:
            self._compare_recall(indexed.keys())
        if self.behind:
            return
        points = self.memory.stores.vectors.scan(None, 10_000)[0]
        _same("the index", {key_of(ref): text for ref, text in points}, indexed)
        states = self.memory.stores.statistics.scan(None, 10_000)
        recorded = {key_of(item.ref): (item.suppressed, item.current) for item in states}
        _same("the statistics", recorded, self.model.states())

    def _compare_recall(self, indexed: Set[str]) -> None:
        found = {key_of(item.object) for item in self.memory.retrieve(EVERYTHING).pack.admissions}
        if intruders := found - self.model.current():
            raise Violation(f"recall returned what has no influence: {sorted(intruders)}")
        within_limits = len(indexed) <= EVERYTHING.candidate_limits.max_graph_roots
        if within_limits and not self.behind and (lost := indexed - found):
            raise Violation(f"recall did not return {sorted(lost)}")

    def finish(self) -> None:
        """Sweep, compare everything, and see that after a restart nothing is left to be done."""
        self._keep_up("sweep")
        if self.behind:
            raise Violation("a sweep in fair weather left something to be repaired")
        self.compare()
        graph, statistics = self.graph, self.memory.stores.statistics
        receipts = [receipt.token for receipt in graph.receipts(0, graph.head())]
        if receipts != sorted(set(receipts)) or len(receipts) != self.model.writes:
            raise Violation(f"{self.model.writes} writes left the receipts {receipts}")
        recount = list(projections(graph, pages(graph, 1_000)))
        assert_equal_to_recount(statistics, recount)
        _same("differences", self.memory.upkeep.verify().found, ())
        self._restart(self.ground.stop)
        report = self.memory.upkeep.sweep()
        left = (report.commits, report.vector_backlog, report.statistics_backlog)
        _same("what a sweep after a restart had to do", left, (0, 0, 0))
        self.compare(recall=False)
        self.ground.stop()


def _strikes(weather: Weather, step: Step, moment: Moment, begun: int) -> bool:
    match weather.kind:
        case "fair":
            return False
        case "meanwhile":
            return moment == "before" and step.name == "bulk_generate_embeddings"
        case "crash":
            return step.number >= begun + weather.at and (moment == "after") is weather.after
        case "taken over":
            return moment == "before" and (step.port, step.name) == ("graph", "update")
        case kind:
            return moment == "before" and (step.port, step.name) == _FAILURES[kind][:2]


@contextmanager
def _no_error(what: str) -> Iterator[None]:
    try:
        yield
    except CharacterMemoryError as error:
        raise Violation(f"{what} failed: {error!r}") from error


def _same(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise Violation(f"{what} is {found}, not {expected}")


class _NextHolder:
    """The writer lock of another process, which finds the holder of the number before its own gone."""

    @contextmanager
    def hold(
        self, collection: str, settle: Callable[[int, int], bool], head: Callable[[], int]
    ) -> Iterator[_Grant]:
        """See `WriterLock`."""
        token = head() + 1
        settle(token, token + 1)
        yield _Grant(token + 1)

    def last_settled(self, collection: str) -> int | None:
        """See `WriterLock`."""
        return None


@dataclass
class _Grant:
    token: int

    def sending(self) -> None:
        """See `Grant`."""

    def settled(self, committed: bool) -> None:
        """See `Grant`."""
