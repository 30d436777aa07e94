"""Cases 18, 19, 22-26, 32-35, 38, 39: how far a root reaches (recall.md §5)."""

import pytest

from charactermemory.domain.kinds import RelationType
from charactermemory.errors import UnsupportedExpansionRoot
from charactermemory.ids import ObjectType
from charactermemory.recall import GraphLimits
from charactermemory.recall.expansion import Walk
from charactermemory.recall.omissions import LifecycleFilterReason, StaleCandidateReason
from charactermemory.recall.trace import TracedBound
from charactermemory.testing.builders import (
    belief,
    episode,
    link,
    notion,
    numbered_id,
    observation,
    thread,
    unknown_ref,
)
from tests.recall.world import (
    World,
    decisions,
    expansion_of,
    proximities,
    ranked_in,
    refs,
    refs_in,
    relations_of,
    stale,
)


@pytest.mark.spec("recall-18")
def test_a_missing_root_is_not_found_before_it_is_bounded(world: World) -> None:
    gone = unknown_ref(ObjectType.EPISODE)
    world.vectors.script(dense=[(gone, 0.9)])

    outcome = world.retrieve(graph_limits=GraphLimits(max_nodes=0))

    assert expansion_of(outcome, gone).outcome == "missing_root"
    assert expansion_of(outcome, gone).bounded_failure is None
    assert stale(outcome) == [(gone, StaleCandidateReason.GRAPH_OBJECT_MISSING)]
    assert decisions(outcome) == [(gone, LifecycleFilterReason.GRAPH_OBJECT_MISSING)]


def test_a_named_notion_that_is_not_stored_is_missing_as_any_root_is(world: World) -> None:
    """Notions on the way are not read at the end; one to start from is, for nothing else tells."""
    gone = unknown_ref(ObjectType.ENTITY)

    outcome = world.retrieve(anchors=(gone.id,))

    assert stale(outcome) == [(gone, StaleCandidateReason.GRAPH_OBJECT_MISSING)]
    assert decisions(outcome) == [(gone, LifecycleFilterReason.GRAPH_OBJECT_MISSING)]


@pytest.mark.spec("recall-19")
def test_a_link_cannot_be_expanded() -> None:
    connection = link(thread(), thread())
    with pytest.raises(UnsupportedExpansionRoot) as caught:
        Walk(connection.ref, GraphLimits())
    assert caught.value.object == connection.ref


@pytest.mark.spec("recall-22")
def test_no_room_for_a_single_node_is_a_bound_and_no_error(world: World) -> None:
    root = thread()
    world.store(root)
    world.vectors.script(dense=[(root, 0.9)])

    outcome = world.retrieve(graph_limits=GraphLimits(max_nodes=0))

    assert expansion_of(outcome, root).bounded_failure == TracedBound(reason="node_limit", at=root.ref)
    assert expansion_of(outcome, root).outcome == "bounded"
    assert stale(outcome) == [(root.ref, StaleCandidateReason.GRAPH_EXPANSION_BOUNDED)]
    assert decisions(outcome) == [(root.ref, LifecycleFilterReason.GRAPH_EXPANSION_BOUNDED)]
    assert refs_in(outcome) == []


@pytest.mark.spec("recall-23")
def test_depth_zero_is_the_root_alone(world: World) -> None:
    root, neighbour = thread(), thread()
    world.store(root, neighbour, link(root, neighbour))
    world.vectors.script(dense=[(root, 0.9)])

    outcome = world.retrieve(graph_limits=GraphLimits(max_depth=0))

    assert ranked_in(outcome) == [root.ref]
    assert outcome.trace
    assert outcome.trace.graph_relations == ()
    assert outcome.trace.fanout_utilization == ()


@pytest.mark.spec("recall-24")
def test_depth_two_reaches_two_hops(world: World) -> None:
    a, b, c, d = chain = [thread() for _ in range(4)]
    world.store(*chain, link(a, b), link(b, c), link(c, d))
    world.vectors.script(dense=[(a, 0.9)])

    outcome = world.retrieve(graph_limits=GraphLimits(max_depth=2))

    assert set(refs_in(outcome)) == {a.ref, b.ref, c.ref}
    assert proximities(outcome, a) == {b.ref: 1, c.ref: 2}
    assert d.ref not in ranked_in(outcome)


@pytest.mark.spec("recall-25")
def test_links_are_traversed_in_either_direction(world: World) -> None:
    root, before, after = thread(), thread(), thread()
    pointing_at, pointing_away = link(before, root), link(root, after)
    world.store(root, before, after, pointing_at, pointing_away)
    world.vectors.script(dense=[(root, 0.9)])

    outcome = world.retrieve()

    assert set(refs_in(outcome)) == {root.ref, before.ref, after.ref}
    assert {(row.link_ids, row.source, row.target) for row in relations_of(outcome, root)} == {
        ((pointing_at.id,), before.ref, root.ref),
        ((pointing_away.id,), root.ref, after.ref),
    }


@pytest.mark.spec("recall-26")
@pytest.mark.parametrize("statistics", [True, False], ids=["statistics", "no-statistics"])
def test_the_node_limit_keeps_the_best_neighbours(world: World, statistics: bool) -> None:
    root = thread()
    best_first = [thread(id=numbered_id(9 - n), salience_score=0.9 - n / 10) for n in range(5)]
    links = [link(root, item) for item in best_first]
    world.store(root, *best_first, *links, statistics=statistics)
    world.vectors.script(dense=[(root, 0.9)])

    outcome = world.retrieve(graph_limits=GraphLimits(max_nodes=3))

    row = expansion_of(outcome, root)
    assert (row.object_count, row.link_count) == (3, 2)
    assert row.bounded_failure == TracedBound(reason="node_limit", at=best_first[2].ref)
    assert set(ranked_in(outcome)) == {root.ref, *refs(best_first[:2])}


@pytest.mark.spec("recall-32")
def test_relations_that_are_not_allowed_count_toward_no_limit(world: World) -> None:
    about, others = thread(), [thread() for _ in range(5)]
    root = thread()
    world.store(root, about, *others, *(link(root, item) for item in others))
    world.store(link(root, about, RelationType.ABOUT))
    world.vectors.script(dense=[(root, 0.9)])

    outcome = world.retrieve(
        graph_limits=GraphLimits(
            allowed_relation_types=(RelationType.ABOUT,), max_fanout_per_node=1, max_hub_edges=1
        )
    )

    assert set(ranked_in(outcome)) == {root.ref, about.ref}
    assert {row.relation for row in relations_of(outcome, root)} == {RelationType.ABOUT}
    assert expansion_of(outcome, root).outcome == "expanded"
    assert outcome.trace
    assert all(row.omitted_by_fanout_count == 0 for row in outcome.trace.fanout_utilization)


@pytest.mark.spec("recall-33")
def test_without_notions_in_scope_a_notion_still_opens_what_is_about_it(world: World) -> None:
    known, other, happened = notion(), notion(), episode()
    held = belief(happened, entity_ids=(known.id, other.id))
    elsewhere = [belief(happened, entity_ids=(other.id,)) for _ in range(8)]
    world.store(known, other, happened, held, *elsewhere, link(known, other))

    outcome = world.retrieve(
        topic=None,
        anchors=(known.id,),
        graph_limits=GraphLimits(allowed_object_types=(ObjectType.DERIVED_MEMORY,)),
    )

    assert outcome.trace
    decided = {(row.root, row.relation): row for row in outcome.trace.selectivity_decisions}
    about = decided[known.ref, RelationType.ABOUT]
    assert not about.fallback
    assert about.chosen_fanout > 0
    assert refs_in(outcome) == [held.ref]
    assert other.ref not in ranked_in(outcome)
    assert other.ref not in {end for row in relations_of(outcome, known) for end in (row.source, row.target)}


@pytest.mark.spec("recall-34")
def test_a_node_reached_from_two_sides_is_visited_once_at_its_nearest(world: World) -> None:
    root, near, between = thread(), thread(), thread()
    world.store(root, near, between, link(root, near), link(root, between), link(between, near))
    world.vectors.script(dense=[(root, 0.9)])

    outcome = world.retrieve()

    assert ranked_in(outcome).count(near.ref) == 1
    assert expansion_of(outcome, root).object_count == 3
    assert proximities(outcome, root)[near.ref] == 1
    (entry,) = [entry for entry in outcome.pack.admissions if entry.object == near.ref]
    assert entry.scores.graph_score == 0.5
    assert [(step.source, step.target) for step in entry.path.steps] == [(root.ref, near.ref)]


@pytest.mark.spec("recall-35")
def test_the_first_bound_is_the_one_reported(world: World) -> None:
    root = thread()
    neighbours = [thread() for _ in range(5)]
    world.store(root, *neighbours, *(link(root, item) for item in neighbours))
    world.vectors.script(dense=[(root, 0.9)])

    outcome = world.retrieve(graph_limits=GraphLimits(max_hub_edges=4, max_nodes=2))

    assert expansion_of(outcome, root).object_count == 2, "the node limit did bite"
    assert expansion_of(outcome, root).bounded_failure == TracedBound(reason="hub_limit", at=root.ref)
    report = outcome.rationale.telemetry.graph_expansion
    assert [(row.reason, row.count) for row in report.bounded_failure_reasons] == [("hub_limit", 1)]


@pytest.mark.spec("recall-38")
def test_what_supersedes_a_neighbour_is_evidence_and_no_relation(world: World) -> None:
    root = thread()
    first = belief(episode_ := episode(), thread_ids=(root.id,))
    world.store(root, episode_, first)
    world.vectors.script(dense=[(root, 0.9)])
    scope = GraphLimits(allowed_relation_types=(RelationType.PART_OF_THREAD,))
    without = world.retrieve(graph_limits=scope)
    second = belief(episode_, supersedes=(first.id,))
    world.store(second)

    outcome = world.retrieve(graph_limits=scope)

    assert refs_in(without) == [root.ref, first.ref]
    assert refs_in(outcome) == [root.ref]
    (decision,) = outcome.rationale.lifecycle_filter_decisions
    assert (decision.object, decision.reason) == (first.ref, LifecycleFilterReason.SUPERSEDED_OMITTED)
    assert decision.superseded_by == (second.id,)
    assert expansion_of(outcome, root).relation_count == expansion_of(without, root).relation_count == 1


@pytest.mark.spec("recall-39")
def test_a_shared_neighbour_is_counted_for_each_root_and_packed_once(world: World) -> None:
    shared = episode()
    roots = [observation(shared, position) for position in range(3)]
    world.store(shared, *roots)
    world.vectors.script(dense=[(item, 0.9) for item in roots])

    outcome = world.retrieve(graph_limits=GraphLimits(max_depth=1))

    assert outcome.rationale.telemetry.graph_expansion.expanded_object_count == 6
    assert [item.id for item in outcome.pack.relevant_episodes] == [shared.id]
