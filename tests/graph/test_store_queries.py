"""What the adapter sends: no text of a caller becomes syntax, and the number of round trips is known."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import cast

import pytest

from charactermemory.adapters.oxigraph.settle import fence_update, settle
from charactermemory.adapters.oxigraph.store import OxigraphStore
from charactermemory.adapters.oxigraph.terms import graph_iri
from charactermemory.domain.kinds import RelationType
from charactermemory.ports.graph import Edge
from charactermemory.testing.builders import belief, episode, notion, observation, thread
from charactermemory.testing.graph_contract import put
from charactermemory.testing.graph_contract_writes import every_object
from charactermemory.testing.recording import CallName, RecordingConnection
from tests.graph.exercise import exercise
from tests.graph.stores import Place

ATOM = re.compile(
    r"""(?P<literal>"(?:[^"\\\n\r]|\\.)*"|'(?:[^'\\\n\r]|\\.)*') | (?P<iri><[^<>"{}|^`\\\s]*>)""", re.VERBOSE
)
SYNTAX = re.compile(r"[A-Za-z0-9_:?.,;(){}*+!=><^ \n-]*")
"""What may stand between the atoms: words, variables, brackets, comparisons, sums, lists."""


@pytest.fixture
def connection(place: Place) -> Iterator[RecordingConnection]:
    with closing(RecordingConnection(place.connection())) as recorded:
        yield recorded


@pytest.fixture
def store(place: Place, connection: RecordingConnection) -> OxigraphStore:
    return place.over(connection)


def skeleton(text: str) -> str:
    """Return a query without its literals and IRIs."""
    return ATOM.sub(" ", text)


def test_no_text_of_a_caller_becomes_syntax(store: OxigraphStore, connection: RecordingConnection) -> None:
    exercise(store)
    settle(connection, graph_iri("contract"), 1, 2, 0.1)
    texts = {call.text for call in connection.calls if call.text}
    assert len(texts) > 20
    assert any("SERVICE" in text for text in texts), "the exercise must carry the word in its literals"
    for text in texts:
        bare = skeleton(text)
        assert "SERVICE" not in bare.upper()
        assert SYNTAX.fullmatch(bare), bare


def test_the_skeleton_would_show_a_service_clause() -> None:
    """That the test above can fail."""
    bad = 'SELECT ?s WHERE { ?s ?p "x" . SERVICE <http://example.org/> { ?s ?p ?o } }'
    assert "SERVICE" in skeleton(bad)
    assert "SERVICE" not in skeleton('SELECT ?s WHERE { ?s ?p "a \\" SERVICE <urn:x> { } b" }')
    assert not SYNTAX.fullmatch(skeleton('SELECT ?s WHERE { ?s ?p "a" SERVICE" }'))


@pytest.mark.parametrize("name", ["a> <urn:b", "a b", 'a"', "a\n", "a{", "a\\"])
def test_a_collection_name_cannot_leave_its_iri(name: str) -> None:
    with pytest.raises(ValueError):
        graph_iri(name)


def test_a_fence_is_set_by_number_alone() -> None:
    with pytest.raises(ValueError):
        fence_update(graph_iri("contract"), cast(int, "1> . <urn:x"))


def test_round_trips_are_few_and_known(store: OxigraphStore, connection: RecordingConnection) -> None:
    items = every_object()
    put(store, *items)
    refs = [item.ref for item in items]
    who, happened = items[0], items[3]

    def names(call: Callable[[], object]) -> list[CallName]:
        before = len(connection.calls)
        call()
        return connection.names()[before:]

    edge = Edge(happened.ref, RelationType.INVOLVES, who.ref)
    assert names(lambda: store.read(refs)) == ["query"]
    assert names(lambda: store.neighbours(refs, tuple(RelationType), 9)) == ["match"]
    assert names(lambda: store.existing(refs, anew=True)) == ["query"]
    assert names(lambda: store.existing(refs)) == [], "met before"
    assert names(lambda: store.existing([*refs, notion().ref])) == ["query"]
    assert names(lambda: store.turns([(happened.ref, n) for n in range(9)])) == ["query"]
    assert names(lambda: store.link_ids([edge])) == ["query"]
    assert names(lambda: store.notions_known_as(["a", "b", "c"])) == ["query"]
    assert names(lambda: store.names_of([who.id])) == ["query"]
    assert names(lambda: store.memories_from([happened.id], [])) == ["query"]
    assert names(lambda: store.observations_of([happened.id])) == ["query"]
    assert names(lambda: store.members_of(happened.id)) == ["query"]
    assert names(lambda: store.receipts(0, 40)) == ["query"]
    # The end of a graph that only this process writes is known without asking.
    head: list[CallName] = [] if connection.version() is not None else ["query"]
    assert names(store.head) == head
    assert names(lambda: put(store, *items)) == [*head, "query", "query"]
    assert names(lambda: put(store, notion())) == [*head, "query", "update", "ask", "sync"]
    assert names(store.head) == head
    # Nor has anything happened to what was read or written and no commit has ended.
    new, newer = notion(), notion()
    put(store, new)
    fresh: list[CallName] = [] if connection.version() is not None else ["query"]
    assert names(lambda: store.read([new.ref])) == fresh
    assert names(lambda: store.read([new.ref], anew=True)) == ["query"]
    assert names(lambda: store.read([new.ref, who.ref])) == fresh
    assert names(lambda: store.read([new.ref, notion().ref])) == ["query"]
    put(store, newer)
    assert names(lambda: store.read([new.ref, newer.ref])) == fresh
    empty: list[Callable[[], object]] = [
        lambda: store.read([]),
        lambda: store.existing([]),
        lambda: store.neighbours([], tuple(RelationType), 5),
        lambda: store.neighbours(refs, [], 5),
        lambda: store.notions_known_as([]),
        lambda: store.names_of([]),
        lambda: store.memories_from([], []),
        lambda: store.observations_of([]),
        lambda: store.turns([]),
        lambda: store.link_ids([]),
        lambda: store.receipts(5, 5),
    ]
    assert [names(call) for call in empty] == [[]] * len(empty)


@pytest.mark.spec("core-99")
def test_a_reopened_graph_is_the_same(embedded: Place) -> None:
    items = every_object()
    who, story = notion(), thread()
    happened = episode()
    said = observation(happened)
    old = belief(said, entity_ids=(who.id,), thread_ids=(story.id,), known_as="Alice")
    new = belief(said, entity_ids=(who.id,), known_as="Ally", supersedes=(old.id,))
    refs = [item.ref for item in (*items, who, story, happened, said, old, new)]

    def everything(store: OxigraphStore) -> list[object]:
        return [
            store.read(refs),
            store.notions_known_as(["alice", "ally", "zed", "al"]),
            store.names_of([who.id]),
            store.neighbours(refs, tuple(RelationType), 50),
            store.memories_from([happened.id], [said.id]),
            store.receipts(0, 9),
            store.scan(None, 100),
            list(store.export()),
            store.head(),
        ]

    with closing(embedded.open()) as store:
        put(store, *items)
        put(store, who, story, happened, said, old)
        put(store, new)
        before = everything(store)
        assert store.read([old.ref])[old.ref].superseded_by == (new.id,)
    with closing(embedded.open()) as again:
        assert everything(again) == before
        assert put(again, *items) is None
