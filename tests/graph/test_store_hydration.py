"""What cannot be read as memory is an error that names the place and never the text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from pyoxigraph import Literal, NamedNode

from charactermemory.adapters.oxigraph import vocabulary as cm
from charactermemory.adapters.oxigraph.connection import Connection
from charactermemory.adapters.oxigraph.mapping import scene_iri
from charactermemory.adapters.oxigraph.store import OxigraphStore
from charactermemory.adapters.oxigraph.terms import graph_iri, part_iri, ref_iri
from charactermemory.domain.digest import digest
from charactermemory.domain.objects import MemoryObject
from charactermemory.domain.scene import Participant, Scene, Setting
from charactermemory.errors import DeterministicIdCollision, GraphQueryError, StoredConflict
from charactermemory.testing.builders import NOON, belief, episode, link, notion, observation, thread
from charactermemory.testing.graph_contract import put
from tests.graph.stores import Place

GRAPH = graph_iri("contract")
SECRET = "Alice promised Bob"


@pytest.fixture
def connection(place: Place) -> Iterator[Connection]:
    with closing(place.connection()) as opened:
        yield opened


@pytest.fixture
def store(place: Place, connection: Connection) -> OxigraphStore:
    return place.over(connection)


def replace(
    connection: Connection, node: NamedNode, predicate: NamedNode, *values: Literal | NamedNode
) -> None:
    """What no memory operation does: put other values in the place of those stored."""
    connection.update(f"DELETE WHERE {{ GRAPH {GRAPH} {{ {node} {predicate} ?o }} }}")
    for value in values:
        connection.update(f"INSERT DATA {{ GRAPH {GRAPH} {{ {node} {predicate} {value} }} }}")


def refused(store: OxigraphStore, item: MemoryObject, *, predicate: NamedNode) -> GraphQueryError:
    with pytest.raises(GraphQueryError) as caught:
        store.read([item.ref], anew=True)
    assert caught.value.kind == "hydration"
    assert str(item.id) in caught.value.detail
    assert predicate.value.removeprefix(cm.VOCABULARY) in caught.value.detail
    assert SECRET not in str(caught.value)
    return caught.value


@pytest.mark.spec("core-100")
def test_a_corrupted_token_is_an_error_and_never_active(store: OxigraphStore, connection: Connection) -> None:
    happened, story = episode(), thread()
    said, held = observation(happened), belief()
    tied = link(happened, story)
    cases: list[tuple[MemoryObject, NamedNode]] = [
        (happened, cm.RETENTION_STATE),
        (happened, cm.MODALITY),
        (said, cm.RETENTION_STATE),
        (said, cm.MODALITY),
        (story, cm.STATUS),
        (held, cm.RETENTION_STATE),
        (held, cm.DERIVED_TYPE),
        (tied, cm.RELATION_OF_LINK),
    ]
    put(store, happened, story, said, held, tied)
    for item, predicate in cases:
        node = ref_iri(item.ref)
        was = connection.query(f"SELECT ?o WHERE {{ GRAPH {GRAPH} {{ {node} {predicate} ?o }} }}")[0][0]
        for wrong in (Literal("Active"), Literal(""), Literal(SECRET), NamedNode("urn:active"), Literal(1)):
            replace(connection, node, predicate, wrong)
            refused(store, item, predicate=predicate)
        assert isinstance(was, Literal | NamedNode)
        replace(connection, node, predicate, was)
        assert store.read([item.ref], anew=True)[item.ref].object == item


def test_every_required_predicate_is_missed(store: OxigraphStore, connection: Connection) -> None:
    who = notion()
    scene = Scene(
        time=NOON, participants=(Participant(key=who.id),), setting=Setting(), custom_values={"a": "b"}
    )
    happened, story = episode(scene=scene, summary=SECRET), thread()
    said, held = observation(happened, text=SECRET), belief(entity_ids=(who.id,), known_as=SECRET)
    tied = link(happened, story)
    objects = (who, happened, said, story, held, tied)
    put(store, *objects)
    base = (cm.DIGEST, cm.CREATED_AT, cm.SCHEMA_VERSION)
    lived = (cm.SALIENCE_SCORE, cm.RETENTION_STATE)
    own = (
        (),
        (*lived, cm.MODALITY, cm.SCENE),
        (*lived, cm.MODALITY, cm.TEXT, cm.POSITION, cm.TURN),
        (cm.TITLE, cm.SUMMARY, cm.STATUS, cm.LAST_TOUCHED_AT, cm.SALIENCE_SCORE, cm.UPDATED_AT),
        (*lived, cm.DERIVED_TYPE, cm.TEXT, cm.GIVEN_BY_APPLICATION, cm.UPDATED_AT),
        (cm.FROM, cm.TO, cm.RELATION_OF_LINK),
    )
    nodes = [(ref_iri(item.ref), item, (*base, *more)) for item, more in zip(objects, own, strict=True)]
    place = scene_iri(ref_iri(happened.ref))
    nodes += [
        (place, happened, (cm.TIME, cm.OFFSET_MINUTES)),
        (part_iri(place, "custom_value", 1), happened, (cm.KEY, cm.VALUE)),
        (part_iri(ref_iri(held.ref), "assertion", 1), held, (cm.SUBJECT, cm.PREDICATE, cm.NAME)),
    ]
    for node, item, predicates in nodes:
        for predicate in predicates:
            rows = connection.query(f"SELECT ?o WHERE {{ GRAPH {GRAPH} {{ {node} {predicate} ?o }} }}")
            replace(connection, node, predicate)
            refused(store, item, predicate=predicate)
            replace(connection, node, predicate, *(row[0] for row in rows))  # type: ignore[misc]
    stored = store.read([item.ref for item in objects], anew=True)
    assert [stored[item.ref].object for item in objects] == list(objects)


@pytest.mark.parametrize(
    ("predicate", "wrong"),
    [
        (cm.CREATED_AT, Literal("2026-01-01T00:00:00Z")),
        (cm.CREATED_AT, Literal("2026-01-01T00:00:00", datatype=cm.XSD_DATE_TIME)),
        (cm.SALIENCE_SCORE, Literal(SECRET)),
        (cm.SALIENCE_SCORE, Literal("NaN", datatype=cm.XSD_DOUBLE)),
        (cm.SALIENCE_SCORE, Literal("1", datatype=cm.XSD_INTEGER)),
        (cm.POSITION, Literal("-1", datatype=cm.XSD_INTEGER)),
        (cm.POSITION, Literal("1", datatype=cm.XSD_INTEGER)),
        (cm.TEXT, Literal(SECRET, language="en")),
        (cm.TEXT, NamedNode("urn:text")),
        (cm.SPEAKER, Literal(SECRET)),
        (cm.SPEAKER, NamedNode("urn:charactermemory:episode:00000000-0000-0000-0000-000000000001")),
        (cm.SPEAKER, NamedNode("urn:charactermemory:entity:nobody")),
        (cm.TURN, NamedNode("urn:charactermemory:episode:nowhere")),
    ],
)
def test_a_value_of_another_kind_is_not_guessed(
    store: OxigraphStore, connection: Connection, predicate: NamedNode, wrong: Literal | NamedNode
) -> None:
    said = observation(episode(), text=SECRET)
    put(store, said)
    replace(connection, ref_iri(said.ref), predicate, wrong)
    with pytest.raises(GraphQueryError) as caught:
        store.read([said.ref], anew=True)
    assert caught.value.kind == "hydration"
    assert str(said.id) in caught.value.detail
    assert SECRET not in str(caught.value)


def test_two_values_of_one_field_are_not_chosen_from(store: OxigraphStore, connection: Connection) -> None:
    said = observation(episode())
    put(store, said)
    replace(connection, ref_iri(said.ref), cm.TEXT, Literal("one"), Literal("two"))
    refused(store, said, predicate=cm.TEXT)


def test_a_lost_part_is_missed(store: OxigraphStore, connection: Connection) -> None:
    people = tuple(Participant(name=name) for name in ("Ada", "Bea", "Cleo"))
    happened = episode(scene=Scene(time=NOON, participants=people))
    put(store, happened)
    scene = scene_iri(ref_iri(happened.ref))
    parts = [part_iri(scene, "participant", number) for number in (1, 2, 3)]
    for left in (
        parts[:1] + parts[2:],
        [*parts, NamedNode("urn:else")],
        [*parts, part_iri(scene, "participant", 4)],
    ):
        replace(connection, scene, cm.PARTICIPANT, *left)
        refused(store, happened, predicate=cm.PARTICIPANT)
    replace(connection, scene, cm.PARTICIPANT, *reversed(parts))
    assert store.read([happened.ref], anew=True)[happened.ref].object == happened


def test_two_digests_are_a_conflict(place: Place, store: OxigraphStore, connection: Connection) -> None:
    """A content that is known, or was just committed, hides no second one."""
    first, other = belief(), belief()
    put(store, first, other)
    reader = place.over(connection)
    assert reader.read([first.ref]) == store.read([first.ref])
    extra = Literal("0" * 64)
    connection.update(f"INSERT DATA {{ GRAPH {GRAPH} {{ {ref_iri(first.ref)} {cm.DIGEST} {extra} }} }}")
    for knowing in (store, reader, place.over(connection)):
        with pytest.raises(StoredConflict) as caught:
            knowing.read([other.ref, first.ref])
        assert caught.value.object == first.ref
        assert caught.value.digests == ("0" * 64, digest(first))
        assert set(knowing.read([other.ref])) == {other.ref}
    before = store.head()
    with pytest.raises(DeterministicIdCollision) as collision:
        put(store, first, belief())
    assert collision.value.object == first.ref
    assert store.head() == before


def test_known_contents_yield_to_another_digest(store: OxigraphStore, connection: Connection) -> None:
    """A store that lost its end and went on holds another content under an id than it had before."""
    said, other = observation(episode()), observation(episode())
    put(store, said, other)
    assert store.read([said.ref, other.ref])[said.ref].object == said
    node = ref_iri(said.ref)
    replace(connection, node, cm.TEXT, Literal("another text"))
    assert store.read([said.ref])[said.ref].object == said, "known, for its digest stands"
    replace(connection, node, cm.DIGEST, Literal("0" * 64))
    found = store.read([said.ref, other.ref])
    assert (found[said.ref].object, found[said.ref].digest) == (said.replace(text="another text"), "0" * 64)
    assert found[other.ref].object == other
    connection.update(f"DELETE WHERE {{ GRAPH {GRAPH} {{ {node} ?p ?o }} }}")
    assert store.read([said.ref, other.ref]).keys() == {other.ref}


def test_a_broken_event_does_not_suppress_in_silence(store: OxigraphStore, connection: Connection) -> None:
    held = belief()
    put(store, held)
    event = NamedNode("urn:charactermemory:event:1")
    connection.update(
        f"INSERT DATA {{ GRAPH {GRAPH} {{ {event} {cm.SUPPRESSES} {ref_iri(held.ref)} ; {cm.AT} 'never' }} }}"
    )
    with pytest.raises(GraphQueryError) as caught:
        store.read([held.ref])
    assert event.value in caught.value.detail


def test_a_receipt_that_cannot_be_read_is_an_error(store: OxigraphStore, connection: Connection) -> None:
    put(store, notion())
    receipt = NamedNode("urn:charactermemory:receipt:1")
    replace(connection, receipt, cm.WROTE, NamedNode("urn:elsewhere"))
    for reading in (lambda: store.receipts(0, 1), lambda: store.scan(None, 5)):
        with pytest.raises(GraphQueryError):
            reading()
