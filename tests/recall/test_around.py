"""What stands around a match speaks for it: neighbours, episode, sources, thread (docs/recall-tuning.md)."""

import pytest

from charactermemory.domain.kinds import RelationType
from charactermemory.recall import GraphLimits, SectionLimits
from charactermemory.recall.bearings import EPISODE_BEST, EPISODE_SHARE
from charactermemory.recall.omissions import LifecycleFilterReason, StaleCandidateReason
from charactermemory.recall.ranking import DerivedFromRoot
from charactermemory.recall.sections import OmittedAsRepetition
from charactermemory.recall.support import SHARED_SHARE, SOURCE_SHARE
from charactermemory.testing.builders import belief, episode, observation, thread
from tests.recall.test_ranking import scores_of
from tests.recall.world import World, assignment_of, decisions, refs_in, stale


def test_neighbour_turns_come_with_a_match_by_their_distance(world: World) -> None:
    happened = episode()
    said = [observation(happened, n, salience_score=n / 100) for n in range(80)]
    world.store(happened, *said)
    world.vectors.script(dense=[(said[40], 0.8)])

    outcome = world.retrieve(graph_limits=GraphLimits(max_fanout_per_node=4, max_hub_edges=8))

    places = [item.position for item in outcome.pack.salient_observations]
    assert places == [40, 41, 39, 42, 38], "nearest first, though far ones have more salience"
    assert scores_of(outcome, said[41]).neighbour_score == pytest.approx(0.5 * 0.8)
    assert scores_of(outcome, said[38]).neighbour_score == pytest.approx(0.2 * 0.8)
    (admission,) = [row for row in outcome.pack.admissions if row.object == said[41].ref]
    assert admission.admitted_by == ("topic",)
    assert [(step.source, step.relation, step.target) for step in admission.path.steps] == [
        (said[40].ref, RelationType.OBSERVED_IN, happened.ref),
        (said[41].ref, RelationType.OBSERVED_IN, happened.ref),
    ]


def test_a_turn_beside_matches_outranks_a_lone_one(world: World) -> None:
    together, apart = episode(), episode()
    pair = [observation(together, n) for n in (3, 4)]
    lone = observation(apart, 0)
    world.store(together, apart, *pair, lone)
    world.vectors.script(dense=[(lone, 0.62), (pair[0], 0.6), (pair[1], 0.6)])

    outcome = world.retrieve()

    assert [item.id for item in outcome.pack.salient_observations][2] == lone.id
    scores = scores_of(outcome, pair[0])
    assert scores.neighbour_score == pytest.approx(0.3)
    assert scores.episode_score == pytest.approx(EPISODE_SHARE * 2 * 0.9 / EPISODE_BEST)
    assert scores_of(outcome, together).episode_score == scores.episode_score
    assert scores_of(outcome, lone).episode_score is None
    assert refs_in(outcome).index(together.ref) < refs_in(outcome).index(apart.ref)


def test_turns_of_another_episode_are_no_neighbours(world: World) -> None:
    one, other = episode(), episode()
    first, second = observation(one, 1), observation(other, 2)
    world.store(one, other, first, second)
    world.vectors.script(dense=[(first, 0.8)])

    assert refs_in(world.retrieve()) == [first.ref, one.ref]


@pytest.mark.parametrize("statistics", [True, False])
def test_a_forgotten_match_speaks_for_nothing(world: World, statistics: bool) -> None:
    happened = episode()
    said = [observation(happened, n) for n in range(3)]
    other = observation(elsewhere := episode(), 0)
    world.store(happened, elsewhere, *said, other)
    world.vectors.script(dense=[(other, 0.5)], lexical=[(other, 2.0)])
    undisturbed = scores_of(world.retrieve(), other)
    world.forget(said[1], statistics=statistics)
    world.vectors.script(dense=[(said[1], 0.9), (other, 0.5)], lexical=[(said[1], 9.0), (other, 2.0)])

    outcome = world.retrieve()

    assert refs_in(outcome) == [other.ref, elsewhere.ref]
    assert scores_of(outcome, other) == undisturbed
    assert (said[1].ref, StaleCandidateReason.LIFECYCLE_MISMATCH) in stale(outcome)


def test_a_forgotten_neighbour_is_left_out_and_reported(world: World) -> None:
    happened = episode()
    said = [observation(happened, n) for n in range(3)]
    world.store(happened, *said)
    world.forget(said[1])
    world.vectors.script(dense=[(said[0], 0.9)])

    outcome = world.retrieve()

    assert [item.id for item in outcome.pack.salient_observations] == [said[0].id, said[2].id]
    assert decisions(outcome) == [(said[1].ref, LifecycleFilterReason.SUPPRESSED_OMITTED)]


def test_a_conclusion_and_its_source_speak_for_each_other(world: World) -> None:
    happened = episode()
    noticed, other = observation(happened, 0), observation(happened, 50)
    held, idle = belief(noticed), belief(other)
    world.store(happened, noticed, other, held, idle)
    world.vectors.script(dense=[(held, 0.6), (idle, 0.6), (noticed, 0.5)])

    outcome = world.retrieve()

    assert scores_of(outcome, held).support_score == pytest.approx(SOURCE_SHARE * 0.5)
    assert scores_of(outcome, noticed).support_score == pytest.approx(SOURCE_SHARE * 0.6)
    assert [entry.memory.id for entry in outcome.pack.derived_memories] == [held.id, idle.id]


def test_matches_of_one_thread_lift_each_other_a_little(world: World) -> None:
    line, happened = thread(), episode()
    held = [belief(happened, thread_ids=(line.id,)) for _ in range(2)]
    alone = belief(happened)
    world.store(line, happened, *held, alone)
    world.vectors.script(dense=[(alone, 0.6), *((item, 0.6) for item in held)])

    outcome = world.retrieve()

    share = SHARED_SHARE * 1.2 / EPISODE_BEST
    assert scores_of(outcome, held[0]).support_score == pytest.approx(share)
    assert scores_of(outcome, alone).support_score is None
    assert outcome.pack.derived_memories[-1].memory.id == alone.id


def test_what_is_said_an_hour_later_inherits_little(world: World) -> None:
    happened = episode()
    hit, far = observation(happened, 0), observation(happened, 30)
    world.store(happened, hit, far)
    world.vectors.script(dense=[(hit, 0.9)])

    source = scores_of(world.retrieve(), far).vector_score_source

    assert isinstance(source, DerivedFromRoot)
    assert source.factor < 0.75


def test_an_episode_and_a_belief_that_echo_a_turn_do_not_crowd_the_pack(world: World) -> None:
    happened = episode(summary="Anna planted the red roses behind the old house today.")
    said = observation(happened, text="anna planted the RED roses behind the old house, today")
    held = belief(said, text="Anna planted the red roses behind the old house today")
    like = observation(elsewhere := episode(), text=said.text)
    world.store(happened, said, held, elsewhere, like)
    world.vectors.script(dense=[(said, 0.9), (held, 0.8), (happened, 0.7), (like, 0.6)])

    outcome = world.retrieve()

    best = refs_in(outcome)[0]
    assert set(refs_in(outcome)) & {said.ref, held.ref, happened.ref} == {best}
    assert like.ref in refs_in(outcome), "another occasion is no repetition"
    repeated = {said.ref, held.ref, happened.ref} - {best}
    assert set(stale(outcome)) == {(ref, StaleCandidateReason.NEAR_DUPLICATE) for ref in repeated}
    for item in (said, held, happened):
        reason = assignment_of(outcome, item).reason
        assert item.ref == best or (isinstance(reason, OmittedAsRepetition) and reason.repeats == best)


def test_a_repetition_takes_no_room(world: World) -> None:
    happened = episode(summary="Tea.")
    echo, other = observation(happened, 0, text="tea"), observation(happened, 1, text="Scones as well.")
    world.store(happened, echo, other)
    world.vectors.script(dense=[(happened, 0.9), (echo, 0.8), (other, 0.1)])

    outcome = world.retrieve(section_limits=SectionLimits(salient_observations=1))

    assert [item.id for item in outcome.pack.salient_observations] in ([other.id], [echo.id])
    assert len(refs_in(outcome)) == 2 or echo.ref in refs_in(outcome)
