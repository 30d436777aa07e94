"""What the store keeps of objects and their lifecycle is never told after it has changed."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest

from charactermemory.adapters.oxigraph import reads
from charactermemory.adapters.oxigraph.connection import Row
from charactermemory.adapters.oxigraph.contents import LONGEST
from charactermemory.adapters.oxigraph.store import OxigraphStore
from charactermemory.adapters.resting import OpenStores
from charactermemory.domain.lifecycle import derived_links
from charactermemory.domain.objects import DerivedMemory, MemoryObject
from charactermemory.domain.scene import Scene
from charactermemory.ids import MemoryId
from charactermemory.testing.builders import NOON, belief, episode, forgetting, notion, observation
from charactermemory.testing.graph_contract import put
from charactermemory.testing.recording import CallName, RecordingConnection
from tests.graph.stores import Place
from tests.graph.test_connections import in_child


def successor(old: MemoryObject, entity: MemoryId) -> list[MemoryObject]:
    """Return a belief that supersedes another, and its links."""
    new = belief(entity_ids=(entity,), supersedes=(old.id,))
    return [new, *derived_links(new)]


@pytest.mark.parametrize("seed", range(3))
def test_what_is_kept_is_what_is_stored(place: Place, seed: int) -> None:
    """Two stores write by turns, and a third that has read nothing yet is asked the same."""
    rng = random.Random(seed)
    who, happened = notion(), episode()
    items: list[MemoryObject] = [happened, *(observation(happened, number) for number in range(6))]
    items += [belief(entity_ids=(who.id,)) for _ in range(6)]
    with ExitStack() as opened:
        stores = [opened.enter_context(closing(place.open())) for _ in range(2)]
        put(stores[0], who, *items)
        for step in range(12):
            writer = stores[0] if step < 6 else rng.choice(stores)
            held = [item for item in items if isinstance(item, DerivedMemory)]
            if step % 3 == 0:
                put(writer, event=forgetting(rng.choice(items)))
            elif step % 3 == 1:
                items += (new := successor(rng.choice(held), who.id))
                put(writer, *new)
            else:
                put(writer, notion())
            asked = [item.ref for item in rng.sample(items, 9)]
            fresh = opened.enter_context(closing(place.open())).read(asked, anew=True)
            assert any(not item.current for item in fresh.values()) or step < 6
            for store in stores:
                assert store.read(asked) == fresh


@pytest.fixture
def recorded(embedded: Place) -> Iterator[RecordingConnection]:
    with closing(RecordingConnection(embedded.connection())) as connection:
        yield connection


def test_only_what_a_commit_ended_is_read_again(embedded: Place, recorded: RecordingConnection) -> None:
    store = embedded.over(recorded)
    who, happened = notion(), episode()
    said, one, other = observation(happened), belief(entity_ids=(who.id,)), belief(entity_ids=(who.id,))
    put(store, who, happened, said, one, other)

    def asks(*items: MemoryObject) -> list[CallName]:
        before = len(recorded.calls)
        store.read([item.ref for item in items])
        return recorded.names()[before:]

    assert asks(who, happened, said, one, other) == []
    put(store, event=forgetting(said))
    assert asks(who, happened, one, other) == []
    assert asks(said) == ["query"]
    put(store, *successor(one, who.id))
    assert asks(who, happened, said, other) == []
    assert asks(one, other) == ["query"]
    assert asks(one, other) == []
    store.raise_head(9)  # of which nothing is told
    assert asks(other) == ["query"]


def test_of_a_long_text_it_is_only_kept_that_it_is_stored(
    embedded: Place, recorded: RecordingConnection
) -> None:
    store, values = embedded.over(recorded), {"": "x" * LONGEST}
    happened, more = episode(summary="x" * LONGEST), episode(scene=Scene(time=NOON, custom_values=values))
    longer = [
        observation(happened, 1, text="x" * (LONGEST + 1)),
        episode(summary="x", scene=more.scene),
    ]
    short = [happened, more, observation(happened, 0, text="x" * LONGEST)]
    put(store, *short, *longer)
    for item in short + longer:
        for _ in range(2):
            before = len(recorded.calls)
            assert store.read([item.ref])[item.ref].object == item
            assert (len(recorded.calls) > before) is (item in longer)
    before = len(recorded.calls)
    assert store.existing([item.ref for item in longer]) == {item.ref for item in longer}
    assert len(recorded.calls) == before


def test_a_process_keeps_what_the_stores_used_last_have_met(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the others nothing is lost: they read it again."""
    keeping = OpenStores(2)
    monkeypatch.setattr(reads, "_keeping", keeping)
    who = notion()
    with ExitStack() as opened:
        recorded = [RecordingConnection(place.connection(name)) for name in ("ada", "bea", "cleo")]
        stores = [
            opened.enter_context(closing(place.over(connection, name)))
            for connection, name in zip(recorded, ("ada", "bea", "cleo"), strict=True)
        ]
        for store in stores:
            put(store, who)
        for number, queries in ((2, 0), (1, 0), (0, 1), (1, 0), (0, 0), (2, 1), (0, 0), (1, 1)):
            before = len(recorded[number].calls)
            assert stores[number].existing([who.ref]) == {who.ref}
            assert len(recorded[number].calls) - before == queries, (number, queries)
            assert len(keeping) == 2
    assert len(keeping) == 0


def test_a_forked_child_waits_for_no_thread_of_its_parent(served: Place) -> None:
    """Over HTTP a child may go on with a store, and a thread of the parent may have been about to read."""
    with closing(served.open()) as store:
        who = notion()
        put(store, who)

        def read() -> str:
            signal.alarm(10)  # which ends a child that waits
            return str(store.read([who.ref])[who.ref].object == who)

        with store._reads._contents._lock:
            assert in_child(read) == "True"


class Meanwhile(RecordingConnection):
    """Runs something before a query, once."""

    then: Callable[[], object] | None = None

    def query(self, text: str) -> list[Row]:
        """See `Connection`."""
        then, self.then = self.then, None
        if then is not None:
            then()
        return super().query(text)


def test_all_that_is_read_is_of_one_moment(embedded: Place) -> None:
    """What was known to stand is read again when a commit came before the rest was read."""
    who = notion()
    old, other = belief(entity_ids=(who.id,)), belief(entity_ids=(who.id,))
    new = successor(old, who.id)
    with closing(embedded.open()) as writer, closing(Meanwhile(embedded.connection())) as connection:
        put(writer, who, old, other)
        store: OxigraphStore = embedded.over(connection)
        assert store.read([old.ref])[old.ref].current
        connection.then = lambda: put(writer, *new)
        found = store.read([old.ref, other.ref, new[0].ref])
        assert new[0].ref in found
        assert found[old.ref].superseded_by == (new[0].id,)
        assert store.read([old.ref, other.ref, new[0].ref]) == found
