"""The numbered cases of the statistics, on SQLite in a file and in memory."""

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from charactermemory.adapters.statistics import SqliteStatistics
from charactermemory.domain.kinds import RelationType, RetentionState
from charactermemory.domain.lifecycle import LifecyclePolicy, Stored, derived_links
from charactermemory.domain.objects import MemoryObject
from charactermemory.domain.repair import Cause
from charactermemory.domain.scene import Participant, Scene
from charactermemory.errors import RetrievalStatsStoreError
from charactermemory.ids import ObjectType
from charactermemory.ports.statistics import Count, Health, HubEdge
from charactermemory.recall.context import GraphLimits
from charactermemory.recall.knobs import RecallKnobs
from charactermemory.recall.roots import Candidate, Root
from charactermemory.recall.selectivity import Planner
from charactermemory.recall.trust import Trust
from charactermemory.testing.builders import (
    NOON,
    belief,
    episode,
    link,
    notion,
    observation,
    unknown_ref,
)
from charactermemory.testing.statistics_model import counts_of, overall_of
from charactermemory.upkeep.projection import MissingEnds, project
from tests.statistics.test_projection import ends, stored

if TYPE_CHECKING:
    from tests.support.rig import Rig

DERIVED, EPISODE, ENTITY = ObjectType.DERIVED_MEMORY, ObjectType.EPISODE, ObjectType.ENTITY
ABOUT, INVOLVES = RelationType.ABOUT, RelationType.INVOLVES
Record = Callable[..., None]


@pytest.fixture(params=["file", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqliteStatistics]:
    path = tmp_path / "statistics.sqlite3" if request.param == "file" else ":memory:"
    opened = SqliteStatistics(path, "main")
    yield opened
    opened.close()


@pytest.fixture
def record(store: SqliteStatistics) -> Record:
    """Project objects, with others to look up, and apply the projection."""
    tokens = iter(range(1, 100))

    def record_these(*items: Stored | MemoryObject, beside: tuple[MemoryObject, ...] = ()) -> None:
        given = [item if isinstance(item, Stored) else stored(item) for item in items]
        store.apply(project(given, ends(*beside)), next(tokens))

    return record_these


@pytest.mark.spec("recall-121")
def test_three_participants_are_three_edges(store: SqliteStatistics, record: Record) -> None:
    people = [notion() for _ in range(3)]
    item = episode(scene=Scene.at(NOON, *(Participant(key=person.id) for person in people)))
    record(item)
    assert store.edges_of([item.ref]) == {
        item.ref: frozenset(HubEdge(person.ref, INVOLVES, item.ref) for person in people)
    }
    assert overall_of(store, INVOLVES, EPISODE) == Count(3, 3, 3)


@pytest.mark.spec("recall-122")
def test_a_replay_changes_no_counter(store: SqliteStatistics, record: Record) -> None:
    person = notion()
    scene = episode(scene=Scene.at(NOON, Participant(key=person.id)))
    item = belief(scene, entity_ids=(person.id,))
    write = [scene, observation(scene), item, *derived_links(item)]

    def counters() -> list[object]:
        pairs = [(INVOLVES, EPISODE), (ABOUT, DERIVED), (RelationType.OBSERVED_IN, ObjectType.OBSERVATION)]
        hubs = [person.ref, scene.ref]
        return [(counts_of(store, hubs, *pair), overall_of(store, *pair)) for pair in pairs]

    record(*write)
    before = counters()
    assert before[0] == ({person.ref: Count(1, 1, 1)}, Count(1, 1, 1))
    record(*write)
    assert counters() == before


@pytest.mark.spec("recall-123")
def test_a_speaker_makes_no_edge(store: SqliteStatistics, record: Record) -> None:
    scene, speaker = episode(), notion()
    said = observation(scene, speaker_entity_id=speaker.id)
    record(said, beside=(scene,))
    assert [edge.hub for edge in store.edges_of([said.ref])[said.ref]] == [scene.ref]
    for relation in RelationType:
        assert counts_of(store, [speaker.ref], relation, ObjectType.OBSERVATION) == {}


@pytest.mark.spec("recall-124")
def test_an_about_link_and_the_field_are_one_edge(store: SqliteStatistics, record: Record) -> None:
    subject = notion()
    item = belief(entity_ids=(subject.id,))
    record(item, *derived_links(item), link(item, subject, ABOUT))
    assert store.edges_of([item.ref]) == {item.ref: frozenset({HubEdge(subject.ref, ABOUT, item.ref)})}
    assert counts_of(store, [subject.ref], ABOUT, DERIVED) == {subject.ref: Count(1, 1, 1)}


@pytest.mark.spec("recall-125")
def test_a_link_between_notions_is_two_edges_one_to_a_link_none(
    store: SqliteStatistics, record: Record
) -> None:
    a, b = notion(), notion()
    related = RelationType.ASSOCIATED_WITH
    record(link(a, b, related), link(a, unknown_ref(ObjectType.MEMORY_LINK), related))
    assert store.edges_of([a.ref, b.ref]) == {
        a.ref: frozenset({HubEdge(b.ref, related, a.ref)}),
        b.ref: frozenset({HubEdge(a.ref, related, b.ref)}),
    }
    assert overall_of(store, related, ENTITY) == Count(2, 2, 2)
    assert overall_of(store, related, ObjectType.MEMORY_LINK) is None


@pytest.mark.spec("recall-126")
def test_only_a_rebuild_loosens(store: SqliteStatistics, record: Record) -> None:
    active = belief(entity_ids=(notion().id,))
    record(active)
    assert overall_of(store, ABOUT, DERIVED) == Count(1, 1, 1)
    record(active.replace(retention_state=RetentionState.SUPPRESSED))
    record(active)
    assert overall_of(store, ABOUT, DERIVED) == Count(1, 0, 0)
    store.rebuild([project([stored(active)], {})], 3)
    assert overall_of(store, ABOUT, DERIVED) == Count(1, 1, 1)


@pytest.mark.spec("recall-127")
def test_a_superseded_memory_is_active_and_not_current(store: SqliteStatistics, record: Record) -> None:
    subject = notion()
    a = belief(entity_ids=(subject.id,))
    b = belief(entity_ids=(subject.id,), supersedes=(a.id,))
    record(a)
    record(b, *derived_links(b), stored(a, b.id))
    assert counts_of(store, [subject.ref], ABOUT, DERIVED) == {subject.ref: Count(2, 2, 1)}


@pytest.mark.spec("recall-128")
def test_unhealthy_until_rebuilt(rig: "Rig") -> None:
    rig.memory.remember("Mira planted beans.")
    statistics = rig.memory.stores.statistics
    statistics.mark_unhealthy("first")
    statistics.mark_unhealthy("second")
    rig.memory.remember("The beans came up.")
    assert rig.memory.stores.statistics.health(rig.head()) == Health("unhealthy", "second")
    rig.reopen()
    assert rig.memory.stores.statistics.health(rig.head()) == Health("unhealthy", "second")
    rig.memory.upkeep.rebuild_statistics()
    assert rig.memory.stores.statistics.health(rig.head()) == Health("healthy")


@pytest.mark.spec("recall-130")
def test_a_missing_end_is_named_and_the_rest_is_projected(store: SqliteStatistics) -> None:
    lost, subject = unknown_ref(DERIVED), notion()
    item = belief(entity_ids=(subject.id,))
    with pytest.raises(MissingEnds) as caught:
        project([stored(link(subject, lost, ABOUT)), stored(item)], {})
    cause = Cause.of("graph_read", caught.value)
    assert str(lost) in cause.detail
    assert caught.value.references == (lost,)
    store.apply(caught.value.projection, 1)
    assert counts_of(store, [subject.ref], ABOUT, DERIVED) == {subject.ref: Count(1, 1, 1)}


@pytest.mark.spec("recall-131")
@pytest.mark.parametrize("table", ["hub_count", "global_count"])
def test_a_negative_counter_is_an_error_and_means_fallback(tmp_path: Path, table: str) -> None:
    path = tmp_path / "statistics.sqlite3"
    store = SqliteStatistics(path, "main")
    subject = notion()
    store.apply(project([stored(belief(entity_ids=(subject.id,)))], {}), 1)

    def decisions() -> list[str]:
        planner = Planner(Trust(store), RecallKnobs(), GraphLimits(), LifecyclePolicy())
        (plan,) = planner.plan([Root(Candidate(subject.ref, ("place",), frozenset()), 0.0, 0.0)]).values()
        return [row.decision for row in plan.decisions if row.relation is ABOUT]

    assert decisions() == ["low_selectivity_rejected"]
    _execute(path, f"UPDATE {table} SET current = -1")
    assert decisions() == ["conservative_fallback"]
    with pytest.raises(RetrievalStatsStoreError) as caught:
        if table == "hub_count":
            counts_of(store, [subject.ref], ABOUT, DERIVED)
        else:
            overall_of(store, ABOUT, DERIVED)
    assert caught.value.kind == "negative_counter"
    store.close()


@pytest.mark.spec("recall-133")
def test_a_rebuild_from_the_graph_equals_a_projection_from_scratch(rig: "Rig") -> None:
    for text in ("Mira planted beans.", "The beans came up.", "Mira was glad."):
        rig.memory.remember(text)
    before = rig.contents()
    store = rig.memory.stores.statistics
    _execute(Path(rig.settings.retrieval_stats_path), "UPDATE hub_count SET total = total + 3, active = -1")
    _execute(Path(rig.settings.retrieval_stats_path), "UPDATE global_count SET current = 0")
    store.mark_unhealthy("drift")

    rig.memory.upkeep.rebuild_statistics()

    assert rig.contents() == before
    assert store.health(rig.head()) == Health("healthy")
    scratch = SqliteStatistics(":memory:", "scratch")
    graph = rig.memory.stores.graph
    objects = graph.read(graph.scan(None, 1_000)[0])
    scratch.apply(project(objects.values(), {}), 1)
    hubs = [edge.hub for edges in scratch.edges_of(list(objects)).values() for edge in edges]
    assert hubs
    for relation in RelationType:
        for kind in ObjectType:
            assert counts_of(store, hubs, relation, kind) == counts_of(scratch, hubs, relation, kind)
            assert overall_of(store, relation, kind) == overall_of(scratch, relation, kind)
    scratch.close()


def _execute(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(statement)
    connection.close()
