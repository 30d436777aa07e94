"""A commit in the middle of a read, and a read in the middle of a commit, leave nothing stale behind.

Each is tried at every call of the connection, `version` among them: before the call and after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from itertools import count, product
from pathlib import Path
from typing import Any, TypeVar

import pytest

from charactermemory.adapters.oxigraph.connection import NamedNode, Pattern, Row, Triple
from charactermemory.adapters.oxigraph.store import OxigraphStore
from charactermemory.domain.kinds import RelationType
from charactermemory.domain.lifecycle import derived_links
from charactermemory.testing.builders import belief, episode, forgetting, link, notion, observation
from charactermemory.testing.graph_contract import put
from charactermemory.testing.recording import RecordingConnection
from tests.graph import faults
from tests.graph.faults import Fault
from tests.graph.stores import Place

T = TypeVar("T")


@dataclass
class Interrupted(RecordingConnection):
    """Lets something happen at one moment; there is one before every call and one after it."""

    then: Callable[[], object] | None = None
    left: int = 0

    def at(self, moment: int, then: Callable[[], object]) -> None:
        """Let it happen after so many moments."""
        self.then, self.left = then, moment

    def over(self) -> bool:
        """Return whether it happened; if not, it never will."""
        then, self.then = self.then, None
        return then is None

    def _pass(self, call: Callable[[], T]) -> T:
        self._moment()
        answer = call()
        self._moment()
        return answer

    def _moment(self) -> None:
        if self.then is None:
            return
        if self.left:
            self.left -= 1
            return
        then, self.then = self.then, None
        then()

    def version(self) -> int | None:
        """See `Connection`."""
        return self._pass(super().version)

    def query(self, text: str) -> list[Row]:
        """See `Connection`."""
        return self._pass(lambda: self.inner.query(text))

    def ask(self, text: str) -> bool:
        """See `Connection`."""
        return self._pass(lambda: self.inner.ask(text))

    def update(self, text: str) -> None:
        """See `Connection`."""
        self._pass(lambda: self.inner.update(text))

    def match(self, graph: NamedNode, patterns: Any) -> list[list[Triple]]:
        """See `Connection`."""
        return self._pass(lambda: self.inner.match(graph, patterns))

    def occurring(self, graph: NamedNode, patterns: Iterable[Pattern]) -> set[Pattern]:
        """See `Connection`."""
        return self._pass(lambda: self.inner.occurring(graph, patterns))


class Stage:
    """A small graph, and two stores on it; what the first of them does may be interrupted."""

    def __init__(self, place: Place, opened: ExitStack, collection: str) -> None:
        self._place, self._opened, self._collection = place, opened, collection
        self.connection = Interrupted(place.connection(collection))
        self.store = opened.enter_context(closing(place.over(self.connection, collection)))
        self.other = self.open()
        self.one, self.two, self.happened = notion(), notion(), episode()
        self.said = [observation(self.happened, n, speaker_entity_id=self.one.id) for n in range(2)]
        self.named = belief(entity_ids=(self.one.id,), known_as="Ada")
        self.held = belief(entity_ids=(self.two.id,))
        items = (self.named, self.said[0], self.one, self.held, self.said[1], self.two, self.happened)
        put(self.other, *items, link(self.one, self.happened))
        self.refs = [item.ref for item in items]

    def open(self) -> OxigraphStore:
        """Open one more, which knows nothing yet."""
        return self._opened.enter_context(closing(self._place.open(self._collection)))


Read = Callable[[Stage, OxigraphStore], Any]
Write = Callable[[Stage, OxigraphStore], object]


def objects(stage: Stage, store: OxigraphStore) -> object:
    return store.read(stage.refs)


def bearers(stage: Stage, store: OxigraphStore) -> object:
    return store.notions_known_as(["ada", "grace"])


def around(stage: Stage, store: OxigraphStore) -> dict[object, Any]:
    turns = [(item.ref, n) for item in (stage.happened,) if item.ref in stage.refs for n in range(3)]
    found = store.neighbours(stage.refs, tuple(RelationType), 9, turns)
    return {ref: (frozenset(item.edges), item.capped, dict(item.turns)) for ref, item in found.items()}


def stands(stage: Stage, store: OxigraphStore) -> object:
    return store.places([item.ref for item in stage.said], speakers=True)


def relates(stage: Stage, store: OxigraphStore) -> object:
    """By a relation, and between kinds, that the graph had not."""
    return put(store, link(stage.two, stage.named, RelationType.MENTIONS))


def adds(stage: Stage, store: OxigraphStore) -> object:
    more = belief(stage.happened, entity_ids=(stage.one.id,))
    return put(store, observation(stage.happened, 2), more, *derived_links(more))


def renames(stage: Stage, store: OxigraphStore) -> object:
    new = belief(entity_ids=(stage.one.id,), known_as="Grace", supersedes=(stage.named.id,))
    return put(store, new, *derived_links(new))


def forgets(stage: Stage, store: OxigraphStore) -> object:
    return put(store, event=forgetting(stage.named, stage.said[0], stage.held))


READS: tuple[Read, ...] = (objects, bearers, around, stands)
WRITES: tuple[Write, ...] = (relates, adds, renames, forgets)
MOMENTS = 40
"""More than any read or write here has."""


@pytest.fixture
def stages(tmp_path: Path) -> Iterator[Iterator[Stage]]:
    """Stages in memory, each with a graph of its own."""
    place = Place("in_memory", tmp_path, lambda: pytest.fail("no server is needed"))
    with ExitStack() as opened:
        yield (Stage(place, opened, f"stage-{number}") for number in count())


def right(stage: Stage, read: Read) -> Any:
    """What one that knows nothing yet answers."""
    return read(stage, stage.open())


def every_moment() -> Iterator[int]:
    """Yield the moments; leave off at the first that is not met any more."""
    yield from range(MOMENTS)
    raise AssertionError("more moments than were tried")


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("read", READS)
def test_a_commit_in_the_middle_of_a_read(stages: Iterator[Stage], read: Read, write: Write) -> None:
    try_every_moment(stages, read, write)


@pytest.mark.parametrize(
    ("fault", "read", "write"),
    [
        (faults.touched_is_kept, around, relates),
        (faults.forgotten_stands, objects, forgets),
        (faults.superseded_stands, objects, renames),
        (faults.commits_of_others_unseen, objects, renames),
        (faults.read_before_kept_after, objects, renames),
        (faults.two_moments, objects, forgets),
        (faults.renamed_meanwhile, bearers, renames),
        (faults.new_names_unseen, bearers, renames),
    ],
)
def test_a_planted_fault_is_found(
    stages: Iterator[Stage], fault: Fault, read: Read, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch)
    with pytest.raises(AssertionError):
        try_every_moment(stages, read, write)


def try_every_moment(stages: Iterator[Stage], read: Read, write: Write) -> None:
    """Let the commit come at each, by the store that reads or by another; it knew nothing, something or all."""
    for own, known in product((True, False), (0, 3, 7)):
        for moment in every_moment():
            stage, case = next(stages), (own, known, moment)
            every, stage.refs = stage.refs, stage.refs[:known]
            read(stage, stage.store)
            stage.refs = every
            before = right(stage, read)
            writer = stage.store if own else stage.other
            stage.connection.at(moment, partial(write, stage, writer))
            seen, happened = read(stage, stage.store), stage.connection.over()
            after = right(stage, read)
            if read is around:  # each pattern is of a moment of its own
                assert all(before[ref][0] <= seen[ref][0] <= after[ref][0] for ref in seen), case
            else:
                assert seen in (before, after), case
            assert read(stage, stage.store) == after, case
            if not happened:
                break
            relates(stage, stage.store)
            assert read(stage, stage.store) == right(stage, read), case


@pytest.mark.parametrize("write", WRITES)
def test_reads_in_the_middle_of_a_commit(stages: Iterator[Stage], write: Write) -> None:
    """Those of the store that writes, and those of another."""

    def read_all(stage: Stage, store: OxigraphStore) -> list[object]:
        return [read(stage, store) for read in READS]

    for own in (True, False):
        for moment in every_moment():
            stage = next(stages)
            reader = stage.store if own else stage.other
            read_all(stage, reader)
            stage.connection.at(moment, partial(read_all, stage, reader))
            write(stage, stage.store)
            happened = stage.connection.over()
            for _ in range(2):
                assert read_all(stage, reader) == right(stage, read_all), (own, moment)
                relates(stage, stage.store)
            if not happened:
                break
