"""Cases 40-48: the score and the order (recall.md §6)."""

import pytest

from charactermemory.domain.objects import MemoryObject
from charactermemory.recall import CandidateLimits, GraphLimits, RetrievalOutcome, SectionLimits
from charactermemory.recall.omissions import StaleCandidateReason
from charactermemory.recall.ranking import (
    CUE_WEIGHT,
    GRAPH_WEIGHT,
    INHERITANCE,
    SALIENCE_WEIGHT,
    DerivedFromRoot,
    DirectMatch,
    Scores,
)
from charactermemory.recall.sections import OmittedByLimit, Selected
from charactermemory.testing.builders import at, belief, episode, link, numbered_id, observation, thread
from tests.recall.test_reads import life
from tests.recall.world import World, assignment_of, refs_in


def scores_of(outcome: RetrievalOutcome, item: MemoryObject) -> Scores:
    reason = assignment_of(outcome, item).reason
    assert isinstance(reason, Selected | OmittedByLimit)
    return reason.scores


def recomputed(scores: Scores) -> float:
    around = (
        scores.neighbour_score,
        scores.named_score,
        scores.present_score,
        scores.dated_score,
        scores.episode_score,
        scores.support_score,
        scores.asking_score,
    )
    return (
        CUE_WEIGHT * (scores.vector_score + sum(part or 0.0 for part in around))
        + GRAPH_WEIGHT * (scores.graph_score or 0.0)
        + SALIENCE_WEIGHT * (scores.salience_score or 0.0)
    )


@pytest.mark.spec("recall-40")
def test_a_direct_hit(world: World) -> None:
    hit = thread(salience_score=0.8)
    world.store(hit)
    world.vectors.script(dense=[(hit, 0.92)])

    scores = scores_of(world.retrieve(), hit)

    assert scores.vector_score == scores.similarity == 0.92
    assert scores.vector_score_source == DirectMatch()
    assert scores.graph_score == 1.0
    assert scores.salience_score == 0.8
    assert scores.final_score == pytest.approx(recomputed(scores), abs=1e-9)


@pytest.mark.spec("recall-41")
def test_one_hop_from_a_root(world: World) -> None:
    root, near = thread(), thread(salience_score=0.8)
    world.store(root, near, link(root, near))
    world.vectors.script(dense=[(root, 0.92)])

    scores = scores_of(world.retrieve(), near)

    assert scores.vector_score == INHERITANCE * 0.92
    assert scores.vector_score_source == DerivedFromRoot(root_score=0.92)
    assert scores.final_score == pytest.approx(recomputed(scores), abs=1e-9)


@pytest.mark.spec("recall-42")
def test_the_graph_component_falls_with_distance(world: World) -> None:
    root, near, far = (thread(salience_score=0.0) for _ in range(3))
    world.store(root, near, far, link(root, near), link(far, near))
    world.vectors.script(dense=[(root, 1.0)])

    outcome = world.retrieve()

    assert scores_of(outcome, root).graph_score == 1.0
    assert scores_of(outcome, near).graph_score == pytest.approx(1 / 2)
    assert scores_of(outcome, far).graph_score == pytest.approx(1 / 3)


@pytest.mark.spec("recall-43")
def test_each_component_takes_its_best_over_the_roots(world: World) -> None:
    strong, weak = thread(salience_score=0.0), episode(summary="Tea.", salience_score=0.0)
    world.store(strong, weak, link(strong, weak))
    world.vectors.script(dense=[(strong, 1.0), (weak, 0.3)])

    outcome = world.retrieve(section_limits=SectionLimits(relevant_episodes=0))

    scores = scores_of(outcome, weak)
    assert scores.vector_score == 0.75
    assert scores.vector_score_source == DerivedFromRoot(root_score=1.0)
    assert scores.graph_score == 1.0
    (omission,) = outcome.rationale.stale_candidate_omissions
    assert (omission.object, omission.reason) == (weak.ref, StaleCandidateReason.SECTION_LIMIT)
    assert omission.vector_score == omission.similarity == 0.3


@pytest.mark.spec("recall-44")
def test_a_tie_goes_to_the_direct_match(world: World) -> None:
    strong, even = thread(), thread()
    world.store(strong, even, link(strong, even))
    world.vectors.script(dense=[(strong, 0.92), (even, INHERITANCE * 0.92)])

    scores = scores_of(world.retrieve(), even)

    assert scores.vector_score == INHERITANCE * 0.92
    assert scores.vector_score_source == DirectMatch()


@pytest.mark.spec("recall-45")
def test_published_parts_make_up_the_score(world: World) -> None:
    items = life()
    world.store(*items)
    dull = thread(salience_score=0.0)
    world.store(dull)
    world.vectors.script(
        dense=[(item, 0.9 - n / 50) for n, item in enumerate((dull, *items[5:20]))],
        lexical=[(item, 9.0 - n) for n, item in enumerate(items[9:15])],
    )

    outcome = world.retrieve(
        anchors=(items[1].id,),
        candidate_limits=CandidateLimits(max_graph_roots=20),
        section_limits=SectionLimits(salient_observations=3),
    )

    assert scores_of(outcome, dull).salience_score is None
    assert outcome.trace
    found = [
        row.reason.scores
        for row in outcome.trace.section_assignments
        if isinstance(row.reason, Selected | OmittedByLimit)
    ]
    assert len(found) > 50
    for scores in found:
        assert scores.final_score == pytest.approx(recomputed(scores), abs=1e-6)
        if isinstance(scores.vector_score_source, DerivedFromRoot):
            inherited = scores.vector_score_source.factor * scores.vector_score_source.root_score
            assert scores.vector_score == pytest.approx(inherited, abs=1e-6)


@pytest.mark.spec("recall-46")
def test_equal_scores_are_ordered_by_type_then_id(world: World) -> None:
    line = thread(id=numbered_id(1))
    happened = [episode(id=numbered_id(n), summary="Tea.") for n in (9, 3)]
    world.store(line, *happened)
    world.vectors.script(dense=[(item, 0.5) for item in (line, *happened)])

    outcome = world.retrieve()

    assert len({entry.scores.final_score for entry in outcome.pack.admissions}) == 1
    assert refs_in(outcome) == [happened[1].ref, happened[0].ref, line.ref]


@pytest.mark.spec("recall-47")
def test_components_may_come_from_different_roots(world: World) -> None:
    strong, between, near, item = (thread(salience_score=0.0) for _ in range(4))
    world.store(strong, between, near, item)
    world.store(link(strong, between), link(between, item), link(near, item))
    world.vectors.script(dense=[(strong, 0.9), (near, 0.2)])

    scores = scores_of(world.retrieve(), item)

    assert scores.vector_score == pytest.approx(INHERITANCE**2 * 0.9)
    assert scores.vector_score_source == DerivedFromRoot(root_score=0.9, factor=INHERITANCE**2)
    assert scores.graph_score == 0.5


@pytest.mark.spec("recall-48")
def test_when_something_was_stored_does_not_matter() -> None:
    def order(later: int) -> list[object]:
        world = World()
        happened = [episode(id=numbered_id(n), created_at=at(later * n), summary="Tea.") for n in range(1, 9)]
        said = [
            observation(item, id=numbered_id(20 + n), created_at=at(-later * n))
            for n, item in enumerate(happened)
        ]
        held = [
            belief(item, id=numbered_id(40 + n), created_at=at(later * n), updated_at=at(later * n))
            for n, item in enumerate(happened)
        ]
        world.store(*happened, *said, *held)
        world.vectors.script(dense=[(item, 0.5 + n % 3 / 10) for n, item in enumerate(happened)])
        outcome = world.retrieve(
            candidate_limits=CandidateLimits(max_graph_roots=5), graph_limits=GraphLimits(max_depth=1)
        )
        return [(entry.object, entry.scores) for entry in outcome.pack.admissions]

    assert order(later=0) == order(later=60) == order(later=-60)
