"""The published vocabulary names everything that is written, and every export fits the shapes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from importlib.resources import files

import pyshacl
import pytest
import rdflib
from pyoxigraph import NamedNode
from rdflib import OWL, RDF, RDFS, SH, URIRef

from charactermemory.adapters.oxigraph import vocabulary as cm
from charactermemory.adapters.oxigraph.store import OxigraphStore
from charactermemory.domain.kinds import RelationType
from charactermemory.domain.lifecycle import LifecycleEvent, derived_links
from charactermemory.domain.provenance import ExternalSourceReference
from charactermemory.testing.builders import NOON, belief, forgetting, new_id, notion
from charactermemory.testing.graph_contract import put
from charactermemory.testing.graph_contract_writes import every_object
from tests.graph.stores import Place

PACKAGE = files("charactermemory.adapters.oxigraph")
OURS = ("urn:charactermemory:vocab:", "urn:charactermemory:relation:")
COLLECTION = URIRef("urn:charactermemory:collection:contract")


def published(name: str) -> rdflib.Graph:
    return rdflib.Graph().parse(data=PACKAGE.joinpath(name).read_text(encoding="utf-8"), format="turtle")


@pytest.fixture(scope="module")
def vocabulary() -> rdflib.Graph:
    return published("vocabulary.ttl")


@pytest.fixture(scope="module")
def shapes() -> rdflib.Graph:
    return published("shapes.ttl")


@pytest.fixture
def store(embedded: Place) -> Iterator[OxigraphStore]:
    """Everything a collection may hold."""
    with closing(embedded.open()) as opened:
        items = every_object()
        old, new = belief(entity_ids=(items[0].id,), known_as="Ada"), items[9]
        successor = belief(items[3], entity_ids=(items[0].id,), supersedes=(old.id, new.id))
        put(opened, *items, old)
        put(opened, successor, *derived_links(successor), touched=(old.ref, new.ref), operation="correct")
        event = LifecycleEvent(
            id=new_id(),
            operation="correct",
            at=NOON,
            rationale="it was wrong",
            requested_by="user:1",
            external_refs=(ExternalSourceReference.source("s"), ExternalSourceReference.raw("r")),
            targets=(old.ref,),
        )
        put(opened, event=event, operation="correct")
        put(
            opened,
            event=forgetting(items[3], items[4]),
            touched=(items[3].ref, items[4].ref),
            operation="forget",
        )
        opened.raise_head(300)
        put(opened, notion(), operation="link")
        yield opened


def exported(store: OxigraphStore) -> rdflib.Graph:
    ending = f" <{COLLECTION}> .\n".encode()
    triples = b"".join(line.removesuffix(ending) + b" .\n" for line in store.export())
    return rdflib.Graph().parse(data=triples, format="nt")


def terms() -> set[str]:
    """Every class, predicate and relation that the adapter can write."""
    single = {value.value for value in vars(cm).values() if isinstance(value, NamedNode)}
    many = {node.value for group in (cm.CLASSES, cm.RELATIONS) for node in group.values()}
    return {value for value in single | many if value.startswith(OURS)}


def test_every_term_is_published_with_its_meaning(vocabulary: rdflib.Graph) -> None:
    described = {str(subject) for subject in vocabulary.subjects() if str(subject).startswith(OURS)}
    assert described == terms()
    for term in map(URIRef, described):
        kinds = set(vocabulary.objects(term, RDF.type))
        assert kinds < {OWL.Class, OWL.ObjectProperty, OWL.DatatypeProperty} and len(kinds) == 1
        for predicate in (RDFS.label, RDFS.comment):
            (value,) = vocabulary.objects(term, predicate)
            assert str(value).strip()


def test_terms_are_mapped_where_a_standard_has_one(vocabulary: rdflib.Graph) -> None:
    expected = {
        "relation:derived_from": "http://www.w3.org/ns/prov#wasDerivedFrom",
        "relation:supersedes": "http://purl.org/dc/terms/replaces",
        "relation:part_of_thread": "http://purl.org/dc/terms/isPartOf",
        "relation:about": "http://purl.org/dc/terms/subject",
        "vocab:createdAt": "http://purl.org/dc/terms/created",
        "vocab:updatedAt": "http://purl.org/dc/terms/modified",
        "vocab:title": "http://purl.org/dc/terms/title",
        "vocab:speaker": "http://www.w3.org/ns/prov#wasAttributedTo",
        "vocab:suppresses": "http://www.w3.org/ns/prov#invalidated",
        "vocab:wrote": "http://www.w3.org/ns/prov#generated",
    }
    for name, standard in expected.items():
        term = URIRef("urn:charactermemory:" + name)
        assert URIRef(standard) in set(vocabulary.objects(term, RDFS.subPropertyOf))
    outside = {
        str(other)
        for predicate in (RDFS.subPropertyOf, RDFS.subClassOf)
        for other in vocabulary.objects(None, predicate)
        if not str(other).startswith(OURS)
    }
    assert all(re.match("http://(www.w3.org/ns/prov#|purl.org/dc/terms/)", other) for other in outside)


def test_only_published_terms_are_written(store: OxigraphStore, vocabulary: rdflib.Graph) -> None:
    graph = exported(store)
    used = {str(term) for term in {*graph.predicates(), *graph.objects(None, RDF.type)}}
    assert {term for term in used if not term.startswith(OURS)} == {str(RDF.type)}
    assert used - {str(RDF.type)} <= {str(subject) for subject in vocabulary.subjects()}
    relations = {node.value for node in cm.RELATIONS.values()}
    unused = terms() - used - relations
    assert unused == {cm.MOVED_TO.value}, "the collection of this test must hold everything else"


def test_there_are_no_blank_nodes_and_no_other_graph(store: OxigraphStore) -> None:
    lines = b"".join(store.export())
    assert b"_:" not in re.sub(rb'"(?:[^"\\]|\\.)*"', b"", lines)
    assert all(line.endswith(f"<{COLLECTION}> .".encode()) for line in lines.splitlines())


def test_literals_have_their_datatypes(store: OxigraphStore, vocabulary: rdflib.Graph) -> None:
    ranges = {
        subject: vocabulary.value(subject, RDFS.range)
        for subject in vocabulary.subjects(RDF.type, OWL.DatatypeProperty)
    }
    checked = set()
    for _, predicate, value in exported(store):
        if isinstance(value, rdflib.Literal):
            assert (value.datatype or rdflib.XSD.string) == ranges[predicate], predicate
            checked.add(predicate)
    assert checked == set(ranges)


def violations(graph: rdflib.Graph, shapes: rdflib.Graph) -> set[tuple[str, str]]:
    """Return the (focus node, path) of every violation; an empty path for one of the node itself."""
    conforms, report, _ = pyshacl.validate(graph, shacl_graph=shapes, inference="none")
    assert isinstance(report, rdflib.Graph)
    results = [
        (str(report.value(result, SH.focusNode)), str(report.value(result, SH.resultPath) or ""))
        for result in report.subjects(RDF.type, SH.ValidationResult)
    ]
    assert conforms == (not results)
    return set(results)


def test_an_export_fits_the_shapes(store: OxigraphStore, shapes: rdflib.Graph) -> None:
    assert violations(exported(store), shapes) == set()


NOWHERE = URIRef("urn:charactermemory:episode:nowhere")
PLANTED: dict[NamedNode, rdflib.Literal | URIRef] = {
    cm.RETENTION_STATE: rdflib.Literal("archived"),
    cm.SALIENCE_SCORE: rdflib.Literal(1.5),
    cm.CREATED_AT: rdflib.Literal("yesterday"),
    cm.SCHEMA_VERSION: rdflib.Literal("later"),
    cm.DIGEST: rdflib.Literal("short"),
    cm.SPEAKER: URIRef("urn:charactermemory:entity:nobody"),
    cm.OWN_SOURCE: NOWHERE,
    cm.TO: NOWHERE,
    cm.RELATION_OF_LINK: URIRef("urn:charactermemory:relation:likes"),
    cm.SUPPRESSES: NOWHERE,
    cm.OFFSET_MINUTES: rdflib.Literal(2_880),
    cm.WROTE: NOWHERE,
    cm.STATUS: rdflib.Literal("forgotten"),
    cm.NORMALIZED_NAME: rdflib.Literal(""),
}
"""A value that does not fit, for one subject of each predicate."""


def test_planted_violations_are_found(store: OxigraphStore, shapes: rdflib.Graph) -> None:
    graph = exported(store)
    planted = set()
    for predicate, value in PLANTED.items():
        path = URIRef(predicate.value)
        subject = min(graph.subjects(path))
        graph.set((subject, path, value))
        planted.add((str(subject), str(path)))
    turn = URIRef(cm.TURN.value)
    first, second = sorted(graph.subjects(turn))[:2]
    shared = graph.value(first, turn)
    assert shared is not None
    graph.set((second, turn, shared))
    found = violations(graph, shapes)
    assert planted <= found
    assert str(shared) in {focus for focus, _ in found}


def test_every_relation_has_its_place_in_the_shapes(shapes: rdflib.Graph) -> None:
    named = {str(term) for term in shapes.objects() if str(term).startswith(OURS[1])}
    assert {OURS[1] + relation.value for relation in RelationType} <= named
