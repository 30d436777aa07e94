"""What gets past a notion: little, the more it connects (docs/recall-tuning.md)."""

import pytest

from charactermemory.domain.objects import DerivedMemory, Entity, MemoryObject
from charactermemory.recall import RetrievalOutcome, SectionLimits
from charactermemory.recall.passage import CROWD
from charactermemory.recall.ranking import INHERITANCE, DerivedFromRoot, Scores
from charactermemory.recall.sections import OmittedByLimit, Selected
from charactermemory.recall.selectivity import selectivity
from charactermemory.testing.builders import belief, episode, notion, thread
from tests.recall.world import World, assignment_of

ROOM = SectionLimits(derived_memories=100)


def scores_of(outcome: RetrievalOutcome, item: MemoryObject) -> Scores:
    reason = assignment_of(outcome, item).reason
    assert isinstance(reason, Selected | OmittedByLimit)
    return reason.scores


def factor_of(outcome: RetrievalOutcome, item: MemoryObject) -> float:
    source = scores_of(outcome, item).vector_score_source
    assert isinstance(source, DerivedFromRoot)
    return source.factor


def about(person: Entity, count: int) -> list[DerivedMemory]:
    """Return beliefs about one person, each from an experience of its own."""
    return [belief(given_by_application=True, entity_ids=(person.id,)) for _ in range(count)]


def test_a_named_notion_passes_on_as_much_as_it_is_selective(world: World) -> None:
    rare, common = notion(), notion()
    few, many = about(rare, 4), about(common, 45)
    world.store(rare, common, *few, *many)

    outcome = world.retrieve(topic=None, anchors=(rare.id,), section_limits=ROOM)

    # what 4 of 49 pass on
    assert [factor_of(outcome, item) for item in few] == [pytest.approx(INHERITANCE * 0.588592, abs=1e-6)] * 4


def test_a_notion_met_on_the_way_passes_on_less_the_more_it_connects(world: World) -> None:
    pairs = {count: (notion(), count) for count in (2, 5, 20)}
    held = {count: about(person, count) for count, (person, _) in pairs.items()}
    world.store(
        *(person for person, _ in pairs.values()), *(item for items in held.values() for item in items)
    )
    world.vectors.script(dense=[(items[0], 0.9) for items in held.values()])

    outcome = world.retrieve(section_limits=ROOM)

    for count, items in held.items():
        reached = [item for item in items[1:] if item.ref in {row.object for row in outcome.pack.admissions}]
        assert reached
        expected = INHERITANCE**2 * selectivity(count, CROWD, alpha=1.0)
        assert [factor_of(outcome, item) for item in reached] == [pytest.approx(expected)] * len(reached)


def test_a_crowd_passes_nothing_on(world: World) -> None:
    hub = notion()
    held = about(hub, CROWD + 6)
    world.store(hub, *held)
    world.vectors.script(dense=[(held[0], 0.9)])

    outcome = world.retrieve(section_limits=ROOM)

    reached = [row for row in outcome.pack.admissions if row.object != held[0].ref]
    assert len(reached) >= 10
    assert {row.scores.vector_score for row in reached} == {0.0}


def test_without_statistics_what_was_read_tells(world: World) -> None:
    person = notion()
    held = about(person, 5)
    world.store(person, *held)
    world.statistics.inner.mark_unhealthy("drifted")

    outcome = world.retrieve(topic=None, anchors=(person.id,), section_limits=ROOM)

    (only,) = outcome.pack.admissions  # the conservative fan-out
    (item,) = [item for item in held if item.ref == only.object]
    assert factor_of(outcome, item) == pytest.approx(INHERITANCE * selectivity(5, CROWD, alpha=1.0))


def test_two_notions_in_a_row_both_weaken(world: World) -> None:
    first, second = notion(), notion()
    near, between, far = (
        belief(given_by_application=True, entity_ids=ids)
        for ids in ((first.id,), (first.id, second.id), (second.id,))
    )
    world.store(first, second, near, between, far)

    outcome = world.retrieve(topic=None, anchors=(first.id,), graph_limits={"max_depth": 3})

    named, met = selectivity(2, 4, alpha=1.0), selectivity(2, CROWD, alpha=1.0)
    assert factor_of(outcome, between) == pytest.approx(INHERITANCE * named)
    assert factor_of(outcome, far) == pytest.approx(INHERITANCE**3 * named * met)


def test_what_leads_past_no_notion_is_not_weakened(world: World) -> None:
    line, source = thread(), episode(summary="An evening.")
    hit = belief(source, thread_ids=(line.id,), text="Tea.")
    others = [belief(source, thread_ids=(line.id,)) for _ in range(20)]
    world.store(line, source, hit, *others)
    world.vectors.script(dense=[(hit, 0.9)])

    outcome = world.retrieve(section_limits=ROOM)

    reached = [item for item in others if item.ref in {row.object for row in outcome.pack.admissions}]
    assert {factor_of(outcome, item) for item in reached} == {INHERITANCE**2}
