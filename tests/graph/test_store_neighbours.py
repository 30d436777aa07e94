"""What the store keeps of neighbourhoods and names is never told after it has changed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import count

import pytest

from charactermemory.adapters.oxigraph import given_names, neighbours
from charactermemory.adapters.oxigraph.connection import Row
from charactermemory.adapters.oxigraph.kept import Current
from charactermemory.adapters.oxigraph.store import OxigraphStore
from charactermemory.domain.kinds import RelationType
from charactermemory.domain.lifecycle import derived_links
from charactermemory.domain.objects import MemoryObject
from charactermemory.domain.scene import Participant, Scene
from charactermemory.ids import MemoryObjectRef
from charactermemory.ports.graph import Neighbourhood
from charactermemory.testing.builders import (
    at,
    belief,
    episode,
    forgetting,
    link,
    notion,
    observation,
    thread,
)
from charactermemory.testing.graph_contract import put
from charactermemory.testing.recording import CallName, RecordingConnection
from tests.graph.stores import Place

RELATIONS = tuple(RelationType)
LINKED = (RelationType.ABOUT, RelationType.OBSERVED_IN, RelationType.INVOLVES, RelationType.MENTIONS)


def around(
    store: OxigraphStore, nodes: list[MemoryObjectRef], cap: int = 40
) -> dict[MemoryObjectRef, Neighbourhood]:
    """Return the neighbourhoods of nodes, edges in one order."""
    turns = [(node, n) for node in nodes if node.object_type.value == "episode" for n in range(3)]
    sparing = [(node, RelationType.ABOUT) for node in nodes]
    found = store.neighbours(nodes, RELATIONS, cap, turns, sparing)
    return {
        ref: Neighbourhood(tuple(sorted(item.edges)), item.capped, item.turns) for ref, item in found.items()
    }


def few(store: OxigraphStore, nodes: list[MemoryObjectRef]) -> list[tuple[object, ...]]:
    """Return how many edges are read of nodes where a cap bites; which of them is the store's choice."""
    found = store.neighbours(nodes, RELATIONS, 1)
    return [(ref, len(item.edges), item.capped) for ref, item in found.items()]


def grown(rng: random.Random, items: list[MemoryObject], turns: Iterator[int]) -> list[MemoryObject]:
    """Return what a commit may bring beside `items`: at least one object, most of them tied to some of these."""
    some = rng.choice
    episodes = [item for item in items if item.object_type.value == "episode"]
    notions = [item for item in items if item.object_type.value == "entity"]
    makes = [
        lambda: notion(),
        lambda: episode(scene=Scene.at(at(next(turns)), Participant(key=some(notions).id))),
        lambda: observation(some(episodes), next(turns)),
        lambda: belief(entity_ids=(some(notions).id,), known_as=f"Name {rng.randrange(6)}"),
        lambda: link(some(items), some(items), relation=some(LINKED)),
        lambda: thread(),
    ]
    return [some(makes)() for _ in range(rng.randint(1, 3))]


@pytest.mark.parametrize("seed", range(4))
def test_what_is_kept_is_what_is_stored(place: Place, seed: int) -> None:
    """Two stores write by turns, and a third that has read nothing yet is asked the same."""
    rng, turns = random.Random(seed), count()
    items: list[MemoryObject] = [notion(), episode()]
    names = [f"name {number}" for number in range(6)]
    with ExitStack() as opened:
        stores = [opened.enter_context(closing(place.open())) for _ in range(2)]
        put(stores[0], *items)
        for step in range(12):
            writer = stores[0] if step < 6 else rng.choice(stores)
            more = grown(rng, items, turns)
            put(writer, *more)
            items += more
            if step % 5 == 4:
                put(writer, event=forgetting(rng.choice(items[1:2])))
            asked = [item.ref for item in rng.sample(items, min(len(items), 12))]
            fresh = opened.enter_context(closing(place.open()))
            for store in stores:
                assert around(store, asked) == around(fresh, asked)
                assert few(store, asked) == few(fresh, asked)
                assert store.notions_known_as(names) == fresh.notions_known_as(names)


@pytest.fixture
def recorded(embedded: Place) -> Iterator[RecordingConnection]:
    with closing(RecordingConnection(embedded.connection())) as connection:
        yield connection


def calls(connection: RecordingConnection, call: Callable[[], object]) -> list[CallName]:
    """Return what one call asks of the connection."""
    before = len(connection.calls)
    call()
    return connection.names()[before:]


def test_only_what_a_commit_touched_is_read_again(embedded: Place, recorded: RecordingConnection) -> None:
    store = embedded.over(recorded)
    one, other, happened = notion(), notion(), episode()
    put(store, one, other, happened)
    every = [one.ref, other.ref, happened.ref]

    def asks(*nodes: MemoryObjectRef, cap: int = 9) -> list[CallName]:
        return calls(recorded, lambda: store.neighbours(nodes, RELATIONS, cap))

    put(store, link(other, happened))
    assert asks(*every) == ["match"]
    assert asks(*every) == []
    assert asks(one.ref, cap=8) == ["match"], "asked otherwise"
    assert asks(*every) == ["match"]
    put(store, link(one, happened))
    assert asks(other.ref) == []
    assert asks(one.ref) == asks(happened.ref) == ["match"]
    assert asks(*every) == []
    store.raise_head(9)  # of which nothing is told
    assert asks(other.ref) == ["match"]


def test_a_crowd_of_edges_is_not_kept(
    embedded: Place, recorded: RecordingConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neighbours, "KEPT_EDGES", 2)
    store = embedded.over(recorded)
    happened, *others = episode(), notion(), notion(), notion()
    put(store, happened, *others, *(link(happened, item) for item in others))

    def ask() -> object:
        return store.neighbours([happened.ref, others[0].ref], RELATIONS, 9)

    assert calls(recorded, ask) == calls(recorded, ask) == ["match"]


def test_names_are_looked_up_once_they_are_given(
    embedded: Place, recorded: RecordingConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(given_names, "NAMES", 2)
    store = embedded.over(recorded)
    who = notion()
    put(store, who)

    def asks(*names: str) -> list[CallName]:
        return calls(recorded, lambda: store.notions_known_as(names))

    assert asks("ada", "grace") == ["query"], "which names there are"
    assert asks("ada", "grace") == []
    put(store, belief(entity_ids=(who.id,), known_as="Ada"))
    assert asks("grace", "ida") == []
    assert asks("ada", "grace") == ["query"]
    put(store, *(belief(entity_ids=(who.id,), known_as=name) for name in ("Grace", "Ida")))
    assert asks("nobody") == ["query"], "too many to be kept"
    assert store.notions_known_as(["ada", "ida", "nobody"]) == {"ada": (who.id,), "ida": (who.id,)}
    with closing(embedded.open()) as fresh:
        assert fresh.notions_known_as(["ada", "ida", "nobody"]) == {"ada": (who.id,), "ida": (who.id,)}


def test_where_an_observation_stands_is_known_once_it_was_written_or_read(
    embedded: Place, recorded: RecordingConnection
) -> None:
    store, happened, who = embedded.over(recorded), episode(), notion()
    said = [observation(happened, n, speaker_entity_id=who.id if n else None) for n in range(3)]
    stands = {item.ref: (happened.ref, item.position, who.ref if item.position else None) for item in said}
    put(store, happened, who, *said)

    def asks(store: OxigraphStore, number: int, speakers: bool) -> list[CallName]:
        return calls(recorded, lambda: store.places([said[number].ref], speakers))

    assert asks(store, 0, False) == asks(store, 1, True) == []
    assert store.places(stands, speakers=True) == stands
    fresh = embedded.over(recorded)
    assert asks(fresh, 0, False) == asks(fresh, 0, True) == ["match"]
    assert asks(fresh, 1, True) == ["match"]
    assert asks(fresh, 1, False) == asks(fresh, 1, True) == [], "who spoke was asked along"
    fresh.read([said[2].ref])
    assert asks(fresh, 2, False) == asks(fresh, 2, True) == []
    assert fresh.places(stands, speakers=True) == stands


def test_who_is_renamed_meanwhile_is_still_found(embedded: Place) -> None:
    """The names are known of before a commit, the bearers are read after it."""
    who = notion()
    old = belief(entity_ids=(who.id,), known_as="Ada")
    new = belief(entity_ids=(who.id,), known_as="Grace", supersedes=(old.id,))
    with closing(embedded.open()) as writer, closing(Renaming(embedded.connection())) as connection:
        put(writer, who, old, *derived_links(old))
        store = embedded.over(connection)
        assert store.notions_known_as(["ada", "grace"]) == {"ada": (who.id,)}
        connection.meanwhile = lambda: put(writer, new, *derived_links(new))
        assert store.notions_known_as(["ada", "grace"]) == {"grace": (who.id,)}


class Renaming(RecordingConnection):
    """Does something just before a query, once."""

    meanwhile: Callable[[], object] | None = None

    def query(self, text: str) -> list[Row]:
        """See `Connection`."""
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()
        return super().query(text)


def test_current_values_hold_until_they_are_touched() -> None:
    held: Current[str, int] = Current(2)
    held.keep({"a": 1}, 1)
    assert held.among(["a"], 1) == {}, "nothing is known of a version before it is asked for"
    held.keep({"a": 1, "b": 2}, 1)
    assert held.among(["a", "b"], 1) == {"a": 1, "b": 2}
    assert held.among(["a"], None) == {}
    held.carry(2, ["b", "c"])
    held.keep({"b": 9}, 1)  # read before that commit
    assert held.among(["a", "b"], 2) == {"a": 1}
    held.keep({"b": 3}, 2)
    held.carry(None, ["a"])  # others had a hand in it; the version tells
    assert held.among(["a", "b"], 3) == {}
    held.keep({"a": 4}, 3)
    held.carry(5, [])  # one was missed
    assert held.among(["a"], 5) == {}
    held.keep({"a": 1, "b": 2, "c": 3}, 5)
    assert held.among(["a", "b", "c"], 5) == {"b": 2, "c": 3}
