"""Cases 1-8, 11, 16, 20, 21: what is asked, and what happens when part of recall fails (recall.md §2, §3)."""

import time

import pytest
from pydantic import ValidationError

from charactermemory.domain.kinds import RelationType
from charactermemory.domain.lifecycle import LifecyclePolicy
from charactermemory.domain.scene import Participant, Scene
from charactermemory.errors import (
    CollectionIncompatible,
    DatabaseError,
    EmbeddingError,
    OutOfDomain,
    StoreClosedError,
    VectorDatabaseError,
)
from charactermemory.ids import ObjectType
from charactermemory.ports.vectors import Completeness
from charactermemory.recall import CandidateLimits, GraphLimits, RetrievalContext, SectionLimits
from charactermemory.recall.roads.road import Degradation
from charactermemory.recall.sections import Section
from charactermemory.testing.builders import NOON, belief, episode, notion, observation, thread
from tests.recall.world import World, decisions, refs_in, stale


@pytest.mark.spec("recall-1")
def test_a_topic_alone_takes_every_default(world: World) -> None:
    context = RetrievalContext.new("tea")

    assert context == RetrievalContext(
        topic="tea",
        scene=None,
        anchors=(),
        candidate_limits=CandidateLimits(max_vector_candidates=48, max_graph_roots=12),
        graph_limits=GraphLimits(
            max_depth=2,
            max_nodes=96,
            max_fanout_per_node=16,
            max_hub_edges=64,
            allowed_relation_types=(),
            allowed_object_types=(
                ObjectType.EPISODE,
                ObjectType.OBSERVATION,
                ObjectType.DERIVED_MEMORY,
                ObjectType.MEMORY_THREAD,
                ObjectType.ENTITY,
            ),
        ),
        section_limits=SectionLimits(
            active_threads=6,
            relevant_episodes=8,
            salient_observations=16,
            derived_memories=12,
            preferences=8,
            relationship_notes=8,
            open_loops=8,
            commitments=8,
            character_signals=8,
        ),
        lifecycle_policy=LifecyclePolicy(include_suppressed=False, include_superseded=False),
        object_type_defaults=(
            ObjectType.EPISODE,
            ObjectType.OBSERVATION,
            ObjectType.DERIVED_MEMORY,
            ObjectType.MEMORY_THREAD,
        ),
        profile="full",
        include_trace=False,
    )
    assert context.graph_limits.relations == frozenset(RelationType)
    assert world.retrieve(context).trace is None
    assert context.with_trace() == context.replace(include_trace=True)
    assert RetrievalContext.from_json(context.to_json()) == context


@pytest.mark.spec("recall-2")
def test_a_context_without_any_type_is_refused_before_anything_is_called(world: World) -> None:
    with pytest.raises(OutOfDomain) as caught:
        world.retrieve(object_type_defaults=())

    assert caught.value.keys == ("object_type_defaults",)
    assert caught.value.expected == "at least one retrieval object type"
    assert caught.value.actual == "[]"
    assert not world.embedder.queries
    assert not world.vectors.searches
    assert not world.graph.calls
    assert not world.statistics.calls


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("candidate_limits", {"max_vector_candidates": 1_001}),
        ("candidate_limits", {"max_graph_roots": -1}),
        ("graph_limits", {"max_depth": 4}),
        ("graph_limits", {"max_nodes": 1_001}),
        ("graph_limits", {"max_fanout_per_node": 257}),
        ("graph_limits", {"max_hub_edges": 1_001}),
        ("section_limits", {"preferences": 501}),
        ("topic", "x" * 50_001),
        ("query_text", "tea"),
        ("current_context", "tea"),
    ],
)
def test_what_no_retrieve_should_cost_is_refused(field: str, value: object) -> None:
    with pytest.raises(ValidationError) as caught:
        RetrievalContext(**{field: value})  # type: ignore[arg-type]
    assert caught.value.errors()[0]["loc"][0] == field


@pytest.mark.spec("recall-3")
def test_the_topic_is_embedded_trimmed_and_once(world: World) -> None:
    world.retrieve(topic="  tea  ")

    assert world.embedder.queries == ["tea"]
    ((_, text, _, _),) = world.vectors.searches
    assert text == "tea"


@pytest.mark.spec("recall-4")
def test_a_blank_topic_is_no_topic(world: World) -> None:
    outcome = world.retrieve(topic=" \t ")

    assert world.embedder.queries == []
    assert world.vectors.searches == []
    (topic,) = [row for row in outcome.rationale.telemetry.roads if row.road == "topic"]
    assert topic.proposed_count == 0


@pytest.mark.spec("recall-5")
@pytest.mark.parametrize(
    ("error", "kind"),
    [(EmbeddingError("http_status"), "http_status"), (RuntimeError("boom: tea"), "unrecognized")],
    ids=["typed", "foreign"],
)
def test_without_an_embedding_the_rest_still_answers(world: World, error: Exception, kind: str) -> None:
    person, other, happened = notion(), notion(), episode(scene=Scene.at(NOON))
    named, said = belief(happened, entity_ids=(person.id,)), observation(happened)
    elsewhere = belief(happened, entity_ids=(other.id,))
    world.store(person, other, happened, named, said, elsewhere)
    world.vectors.script(dense=[(elsewhere, 0.9)], lexical=[(said, 3.0)])
    world.embedder.error = error

    outcome = world.retrieve(anchors=(person.id,))

    assert outcome.rationale.degraded == (
        Degradation(road="topic", part="dense", cause="embedding", kind=kind),
    )
    assert {said.ref, named.ref, happened.ref} <= set(refs_in(outcome))
    ((embedding, text, _, _),) = world.vectors.searches
    assert (embedding, text) == (None, "tea")
    assert outcome.rationale.telemetry.query_embedding_dimension is None
    assert "boom" not in outcome.rationale.to_json()


def test_without_an_index_anchors_and_graph_still_answer(world: World) -> None:
    person, other, happened = notion(), notion(), episode()
    named = belief(happened, entity_ids=(person.id,))
    world.store(person, other, happened, named, belief(happened, entity_ids=(other.id,)))
    world.vectors.error = VectorDatabaseError("qdrant", "HttpConnect", "refused")

    outcome = world.retrieve(anchors=(person.id,))

    assert outcome.rationale.degraded == (
        Degradation(road="topic", part="index", cause="vector_database", kind="HttpConnect"),
    )
    assert {named.ref, happened.ref} <= set(refs_in(outcome))


def test_an_index_of_another_model_is_searched_by_words_alone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = observation(happened := episode())
    world.store(happened, said)
    world.vectors.script(dense=[(happened, 0.9)], lexical=[(said, 3.0)])
    search = world.vectors.search

    def refuses_vectors(embedding: object, *args: object) -> object:
        if embedding is not None:
            raise CollectionIncompatible("test", "vector_size", "8", "4")
        return search(None, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(world.vectors, "search", refuses_vectors)
    outcome = world.retrieve()

    assert [row.part for row in outcome.rationale.degraded] == ["dense"]
    assert outcome.pack.salient_observations == (said,)


def test_a_closed_index_and_a_failing_graph_are_errors(world: World) -> None:
    root = thread()
    world.store(root)
    world.vectors.script(dense=[(root, 0.9)])
    for method in ("neighbours", "read"):
        world.graph.fail(method, DatabaseError("disk"))
        with pytest.raises(DatabaseError):
            world.retrieve()
        world.graph.recover()
    world.vectors.error = StoreClosedError("index")  # type: ignore[assignment]
    with pytest.raises(StoreClosedError):
        world.retrieve()


@pytest.mark.spec("recall-6")
def test_an_empty_store_answers_with_nothing(world: World) -> None:
    outcome = world.retrieve()

    assert all(getattr(outcome.pack, section.value) == () for section in Section)
    assert len(list(Section)) == 9
    rationale = outcome.rationale
    assert rationale.vector_candidate_count == rationale.graph_verified_count == 0
    assert rationale.stale_candidate_omission_count == rationale.lifecycle_omission_count == 0
    telemetry = rationale.telemetry
    assert [row.section for row in telemetry.section_pressure] == list(Section)
    assert all(row.included_count == row.omitted_by_limit_count == 0 for row in telemetry.section_pressure)
    assert telemetry.returned_vector_candidate_count == 0
    assert {row.proposed_count for row in telemetry.roads} == {0}
    assert telemetry.unique_graph_root_candidate_count == telemetry.selected_graph_root_count == 0
    assert telemetry.graph_root_omission_count == telemetry.selectivity.decision_count == 0
    expansion = dict(telemetry.graph_expansion)
    assert expansion.pop("bounded_failure_reasons") == ()
    assert set(expansion.values()) == {0}
    assert rationale.degraded == ()


@pytest.mark.spec("recall-7")
def test_no_candidates_wanted_none_searched(world: World) -> None:
    root = thread()
    world.store(root)
    world.vectors.script(dense=[(root, 0.9)])

    outcome = world.retrieve(candidate_limits=CandidateLimits(max_vector_candidates=0))

    assert world.vectors.searches == []
    assert outcome.rationale.telemetry.vector_recall_completeness == Completeness(kind="not_requested")
    assert refs_in(outcome) == []


@pytest.mark.spec("recall-8")
def test_no_roots_wanted_none_expanded(world: World) -> None:
    found = [thread() for _ in range(3)]
    world.store(*found)
    world.vectors.script(dense=[(item, 0.9) for item in found])

    outcome = world.retrieve(candidate_limits=CandidateLimits(max_graph_roots=0))

    telemetry = outcome.rationale.telemetry
    assert telemetry.unique_graph_root_candidate_count == 3
    assert telemetry.selected_graph_root_count == 0
    assert telemetry.graph_root_omission_count == 3
    assert telemetry.graph_expansion.attempted_root_count == 0
    assert world.graph.names() == ["notions_known_as"]
    assert refs_in(outcome) == []
    assert stale(outcome) == []


@pytest.mark.spec("recall-11")
def test_the_topic_is_not_echoed(world: World) -> None:
    root, gone = thread(), episode(summary="zanzibar")
    world.store(root, gone)
    world.forget(gone)
    world.vectors.script(dense=[(root, 0.9), (gone, 0.8)])

    outcome = world.retrieve(topic="zanzibar")

    assert decisions(outcome)
    assert "zanzibar" not in outcome.rationale.to_json()
    assert "zanzibar" not in outcome.rationale.telemetry.to_json()
    assert outcome.trace
    assert "zanzibar" not in outcome.trace.to_json()


def test_the_summary_counts_one_and_many(world: World) -> None:
    tea, pot = episode(summary="Tea."), episode(summary="A pot.")
    world.store(tea, pot)
    world.vectors.script(dense=[(tea, 0.9)])
    one = world.retrieve(topic="tea").rationale.summary
    assert one.startswith("1 vector candidate, 1 memory included, 0 candidates omitted, 0 lifecycle")
    world.vectors.script(dense=[(tea, 0.9), (pot, 0.8)])
    assert world.retrieve(topic="tea").rationale.summary.startswith(
        "2 vector candidates, 2 memories included"
    )


@pytest.mark.spec("recall-20")
def test_recall_has_no_wall_clock_limit() -> None:
    with pytest.raises(ValidationError) as caught:
        GraphLimits(timeout_ms=250)  # type: ignore[call-arg]
    assert [(error["loc"], error["type"]) for error in caught.value.errors()] == [
        (("timeout_ms",), "extra_forbidden")
    ]


@pytest.mark.spec("recall-21")
def test_slow_stores_answer_the_same(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call takes an hour by every clock there is."""
    person = notion()
    happened = [episode(scene=Scene.at(NOON, Participant(key=person.id))) for _ in range(4)]
    said = [observation(item, position) for item in happened for position in range(20)]
    world.store(person, *happened, *said)
    world.vectors.script(dense=[(item, 0.9 - n / 100) for n, item in enumerate(said[::9])])
    context = RetrievalContext(topic="tea", anchors=(person.id,), include_trace=True)
    fast = world.retrieve(context)
    passed = iter(range(0, 10**9, 3_600))
    for clock in ("time", "monotonic", "perf_counter", "process_time", "thread_time"):
        monkeypatch.setattr(time, clock, lambda: float(next(passed)))
        monkeypatch.setattr(time, f"{clock}_ns", lambda: next(passed) * 10**9)

    slow = world.retrieve(context)

    assert slow.to_json() == fast.to_json()
    assert slow.rationale.telemetry.graph_expansion.expanded_object_count > 50
