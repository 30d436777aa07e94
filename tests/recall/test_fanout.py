"""Cases 27-31, 36, 37: which neighbours stay when a cap bites (recall.md §5 as amended)."""

import pytest
from pydantic import ValidationError

from charactermemory.domain.beliefs import BeliefAssertion
from charactermemory.domain.kinds import RelationType
from charactermemory.domain.objects import MemoryObject
from charactermemory.ids import ObjectType
from charactermemory.ports.graph import Edge, Neighbourhood
from charactermemory.recall import FanoutSpec, GraphLimits, RecallKnobs, RetrievalOutcome, reading
from charactermemory.recall.bearings import NAMED
from charactermemory.recall.expansion import Walk, neighbours_of
from charactermemory.recall.omissions import LifecycleFilterReason
from charactermemory.recall.standing import Standing
from charactermemory.recall.trace import FanoutUtilization, TracedBound
from charactermemory.testing.builders import (
    at,
    belief,
    episode,
    link,
    notion,
    numbered_id,
    observation,
    thread,
)
from tests.recall.test_reads import life
from tests.recall.world import World, decisions, expansion_of, ranked_in, refs, refs_in, relations_of

ABOUT = (RelationType.ABOUT, ObjectType.DERIVED_MEMORY)


def rows_of(outcome: RetrievalOutcome, node: MemoryObject) -> dict[tuple[str, str], FanoutUtilization]:
    assert outcome.trace
    return {
        (row.relation.value, row.object_type.value): row
        for row in outcome.trace.fanout_utilization
        if row.node == node.ref
    }


def about(world: World, count: int) -> tuple[MemoryObject, list[MemoryObject]]:
    """Store a notion and beliefs about it, best first by salience, ids the other way round."""
    known, happened = notion(), episode()
    held = [
        belief(happened, id=numbered_id(100 - n), entity_ids=(known.id,), salience_score=0.9 - n / 100)
        for n in range(count)
    ]
    world.store(known, happened, *held)
    return known, list(held)


def with_about_fanout(fanout: int) -> RecallKnobs:
    return RecallKnobs(specs=(FanoutSpec(*ABOUT, fanout, fanout),))


def test_among_equals_in_salience_the_later_stays(world: World) -> None:
    root = thread()
    best_first = [
        episode(id=numbered_id(90 - n), scene={"time": at(-n)}, salience_score=0.5) for n in range(10)
    ]
    world.store(root, *best_first, *(link(root, item) for item in best_first))
    world.vectors.script(dense=[(root, 0.9)])

    outcome = world.retrieve(graph_limits=GraphLimits(max_fanout_per_node=4, max_depth=1))

    assert set(ranked_in(outcome)) == {root.ref, *refs(best_first[:4])}


@pytest.mark.spec("recall-27")
def test_a_hub_beyond_its_limit_keeps_the_best_and_counts_the_rest(world: World) -> None:
    root = thread()
    best_first = [thread(id=numbered_id(50 - n), salience_score=0.9 - n / 100) for n in range(12)]
    pointing = [link(root, item) for item in best_first[::2]] + [
        link(item, root) for item in best_first[1::2]
    ]
    world.store(root, *best_first, *pointing)
    world.vectors.script(dense=[(root, 0.9)])

    outcome = world.retrieve(graph_limits=GraphLimits(max_hub_edges=8, max_fanout_per_node=4))

    assert set(ranked_in(outcome)) == {root.ref, *refs(best_first[:4])}
    assert expansion_of(outcome, root).bounded_failure == TracedBound(reason="hub_limit", at=root.ref)
    row = rows_of(outcome, root)["associated_with", "memory_thread"]
    assert (row.retained_count, row.omitted_by_fanout_count, row.at_least) == (4, 8, False)


@pytest.mark.spec("recall-28")
def test_an_override_keeps_the_best_of_its_pair(world: World) -> None:
    known, held = about(world, 12)
    world.knobs = with_about_fanout(6)

    outcome = world.retrieve(
        topic=None,
        anchors=(known.id,),
        graph_limits=GraphLimits(max_hub_edges=8, max_fanout_per_node=8, max_depth=1),
    )

    assert refs_in(outcome) == refs(held[:6]), "though only 8 of 12 edges were read, in no order"
    assert expansion_of(outcome, known).bounded_failure == TracedBound(reason="hub_limit", at=known.ref)
    row = rows_of(outcome, known)["about", "derived_memory"]
    assert (row.selected_cap, row.retained_count) == (6, 6)
    assert row.at_least
    exact = world.retrieve(
        topic=None,
        anchors=(known.id,),
        graph_limits=GraphLimits(max_hub_edges=12, max_fanout_per_node=8, max_depth=1),
    )
    assert rows_of(exact, known)["about", "derived_memory"].omitted_by_fanout_count == 6


@pytest.mark.spec("recall-29")
def test_an_override_of_zero_drops_its_pair(world: World) -> None:
    known, _ = about(world, 5)
    world.knobs = with_about_fanout(0)

    outcome = world.retrieve(topic=None, anchors=(known.id,))

    assert refs_in(outcome) == []
    row = rows_of(outcome, known)["about", "derived_memory"]
    assert (row.selected_cap, row.retained_count, row.omitted_by_fanout_count) == (0, 0, 5)


@pytest.mark.spec("recall-30")
def test_an_override_governs_the_root_alone(world: World) -> None:
    known, _ = about(world, 3)
    other, elsewhere = notion(), episode()
    more = [belief(elsewhere, entity_ids=(other.id,)) for _ in range(20)]
    world.store(other, elsewhere, *more, link(known, other, RelationType.ASSOCIATED_WITH))
    world.knobs = with_about_fanout(1)

    outcome = world.retrieve(topic=None, anchors=(known.id,), graph_limits={"max_fanout_per_node": 8})

    assert rows_of(outcome, known)["about", "derived_memory"].selected_cap == 1
    row = rows_of(outcome, other)["about", "derived_memory"]
    assert row.selected_cap == row.configured_cap == 8
    assert row.retained_count + rows_of(outcome, other)["associated_with", "entity"].retained_count == 8


@pytest.mark.spec("recall-31")
@pytest.mark.parametrize("statistics", [True, False], ids=["statistics", "no-statistics"])
def test_the_suppressed_use_up_no_place(world: World, statistics: bool) -> None:
    root, happened = thread(), episode()
    first = belief(happened, thread_ids=(root.id,), salience_score=0.9)
    second = belief(happened, thread_ids=(root.id,), salience_score=0.1)
    world.store(root, happened, first, second, statistics=statistics)
    world.forget(first, statistics=statistics)
    world.vectors.script(dense=[(root, 0.9)])

    outcome = world.retrieve(graph_limits=GraphLimits(max_fanout_per_node=1, max_depth=1))

    assert refs_in(outcome) == [root.ref, second.ref]
    assert expansion_of(outcome, root).filtered_node_count == 1
    assert decisions(outcome) == [(first.ref, LifecycleFilterReason.SUPPRESSED_OMITTED)]


@pytest.mark.spec("recall-36")
def test_a_hub_over_the_limit_is_reported_and_no_error(world: World) -> None:
    known, held = about(world, 12)
    world.vectors.script(dense=[(held[0], 0.9)])

    outcome = world.retrieve(
        graph_limits=GraphLimits(max_hub_edges=4, allowed_relation_types=(RelationType.ABOUT,))
    )

    assert expansion_of(outcome, held[0]).bounded_failure == TracedBound(reason="hub_limit", at=known.ref)
    assert held[0].ref in refs_in(outcome)
    with pytest.raises(ValidationError) as caught:
        GraphLimits(failure_mode="fail_closed")  # type: ignore[call-arg]
    assert [(error["loc"], error["type"]) for error in caught.value.errors()] == [
        (("failure_mode",), "extra_forbidden")
    ]


@pytest.mark.spec("recall-37")
def test_utilization_is_a_by_product(world: World) -> None:
    items = life(episodes=4)
    world.store(*items)
    world.vectors.script(dense=[(items[5], 0.9)])
    limits = GraphLimits(max_fanout_per_node=3, max_hub_edges=5)

    on = world.retrieve(graph_limits=limits, include_trace=True)
    off = world.retrieve(graph_limits=limits, include_trace=False)

    assert on.trace
    assert on.trace.fanout_utilization
    assert off.trace is None
    assert on.rationale.telemetry.graph_expansion == off.rationale.telemetry.graph_expansion
    assert on.rationale == off.rationale
    assert on.pack == off.pack


def test_the_best_of_a_hub_are_confirmed_by_the_graph(world: World) -> None:
    known, held = about(world, 12)
    world.knobs = with_about_fanout(3)
    foreign = belief(episode_ := episode(), entity_ids=(), salience_score=1.0)
    world.store(episode_, foreign)
    world.statistics.alter(
        "best",
        lambda answer: answer._replace(
            objects={key: [foreign.ref, *best] for key, best in answer.objects.items()}
        ),
    )

    outcome = world.retrieve(
        topic=None, anchors=(known.id,), graph_limits=GraphLimits(max_hub_edges=4, max_depth=1)
    )

    assert foreign.ref not in refs_in(outcome)
    assert refs_in(outcome) == refs(held[:2]), "it cost a place, as long as the statistics are wrong"
    assert foreign.ref not in {row.source for row in relations_of(outcome, known)}


@pytest.mark.parametrize("read_all", [0, 10_000])
@pytest.mark.parametrize("include_superseded", [True, False])
def test_reading_less_changes_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, read_all: int, include_superseded: bool
) -> None:
    items = life(episodes=14, turns=6)
    world.store(*items)
    held = [item for item in items if item.ref.object_type == "derived_memory"]
    said = [item for item in items if item.ref.object_type == "observation"]
    world.store(belief(items[4], id=numbered_id(5_000), supersedes=(held[0].id, held[1].id)))
    world.forget(said[1], said[8], said[9], held[2])
    world.vectors.script(dense=[(item, 0.9 - n / 100) for n, item in enumerate(said[::7])])
    fields = {
        "anchors": (items[0].id,),
        "graph_limits": {"max_fanout_per_node": 5},
        "section_limits": {"salient_observations": 4, "relevant_episodes": 3},
        "lifecycle_policy": {"include_superseded": include_superseded},
    }
    usual = world.retrieve(**fields)

    monkeypatch.setattr(reading, "FEW", read_all)
    other = world.retrieve(**fields)

    assert other == usual
    assert usual.rationale.stale_candidate_omission_count > 0
    assert usual.rationale.lifecycle_omission_count > 0


def test_what_the_statistics_do_not_weigh_yet_is_ranked_by_its_own_salience(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened = episode()
    known = [observation(happened, n, salience_score=0.2) for n in range(2)]
    owed = observation(happened, 2, salience_score=0.9)
    world.store(happened, *known)
    world.store(owed, statistics=False)
    world.vectors.script(dense=[(happened, 0.9)])
    usual = world.retrieve()

    monkeypatch.setattr(reading, "FEW", 0)
    outcome = world.retrieve()

    assert outcome == usual
    assert outcome.pack.salient_observations[0].id == owed.id
    (admitted,) = [row for row in outcome.pack.admissions if row.object == owed.ref]
    assert admitted.scores.salience_score == 0.9


def test_who_spoke_beside_a_match_is_read_before_it_counts(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    anna, ben, happened = notion(), notion(), episode()
    hers = observation(happened, 0, speaker_entity_id=anna.id)
    his = observation(happened, 1, speaker_entity_id=ben.id)
    named = belief(entity_ids=(anna.id,), assertions=(BeliefAssertion.known_as(anna.id, "Anna"),))
    world.store(anna, ben, happened, hers, his, named)
    world.vectors.script(dense=[(hers, 0.9)])
    usual = world.retrieve(topic="What did Anna say of tea?")

    monkeypatch.setattr(reading, "FEW", 0)
    outcome = world.retrieve(topic="What did Anna say of tea?")

    assert outcome == usual
    given = {row.object: row.scores.named_score for row in outcome.pack.admissions}
    assert (given[hers.ref], given[his.ref]) == (NAMED, None)


def test_what_something_was_reached_through_is_read_though_it_has_no_place(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened = episode()
    root, beyond = observation(happened, 0), observation(happened, 1)
    world.store(happened, root, beyond)
    world.vectors.script(dense=[(root, 0.9)])
    monkeypatch.setattr(reading, "FEW", 0)
    fields = {"section_limits": {"relevant_episodes": 0}}
    assert refs_in(world.retrieve(**fields)) == [root.ref, beyond.ref]

    world.forget(happened, statistics=False)

    assert refs_in(world.retrieve(**fields)) == [root.ref]


def test_a_pack_that_came_out_short_is_read_again_whole(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened = episode()
    said = [observation(happened, n, salience_score=0.9 - n / 100) for n in range(30)]
    world.store(happened, *said)
    world.forget(*said[1:15], statistics=False)
    world.vectors.script(dense=[(said[0], 0.9)])
    monkeypatch.setattr(reading, "FEW", 0)

    outcome = world.retrieve(
        graph_limits={"max_fanout_per_node": 30}, section_limits={"salient_observations": 6}
    )

    assert refs_in(outcome)[:2] == [said[0].ref, happened.ref]
    assert [item.id for item in outcome.pack.salient_observations] == [
        item.id for item in (said[0], *said[15:20])
    ]
    assert world.graph.names()[-2:] == ["read", "read"]


def test_a_walk_counts_an_edge_once_and_stays_in_its_limits() -> None:
    root, near = thread(), thread()
    edge = Edge(root.ref, RelationType.SUPPORTS, near.ref)
    limits = GraphLimits(max_depth=2)
    around = {item.ref: neighbours_of(item.ref, Neighbourhood((edge,)), limits) for item in (root, near)}
    walk = Walk(root.ref, limits)
    walk.begin(Standing())
    while walk.frontier:
        walk.advance(around, (), lambda _: Standing())

    assert walk.relations == {edge: 1}
    assert walk.visited == {root.ref: 0, near.ref: 1}
    assert walk.links() == [edge]
