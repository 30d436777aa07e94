"""Cases 12-15 and 17: which candidates become roots (recall.md §4, §9)."""

import pytest

from charactermemory.ids import ObjectType
from charactermemory.ports.vectors import VectorSurface
from charactermemory.recall import CandidateLimits
from charactermemory.recall.omissions import LifecycleFilterReason, StaleCandidateReason
from charactermemory.testing.builders import episode, link, numbered_id, observation, thread, unknown_ref
from tests.recall.world import World, decisions, expansion_of, ranked_in, refs, refs_in, stale


@pytest.mark.spec("recall-12")
def test_one_object_under_two_surfaces_is_one_root_with_the_higher_score(world: World) -> None:
    found = thread()
    world.store(found)
    world.vectors.script(dense=[(found, 0.4, VectorSurface.TEXT), (found, 0.7, VectorSurface.SUMMARY)])

    outcome = world.retrieve()

    telemetry = outcome.rationale.telemetry
    assert telemetry.unique_graph_root_candidate_count == telemetry.selected_graph_root_count == 1
    assert outcome.pack.admissions[0].scores.vector_score == pytest.approx(0.7)
    assert outcome.trace
    assert [(row.object, row.score) for row in outcome.trace.vector_candidates] == [
        (found.ref, 0.7),
        (found.ref, 0.4),
    ]


@pytest.mark.spec("recall-12")
def test_one_object_under_two_legs_is_one_root(world: World) -> None:
    found = thread()
    world.store(found)
    world.vectors.script(dense=[(found, 0.4)], lexical=[(found, 0.7)])

    outcome = world.retrieve()

    assert outcome.rationale.telemetry.unique_graph_root_candidate_count == 1
    (admission,) = outcome.pack.admissions
    assert (admission.scores.similarity, admission.scores.lexical) == (0.4, 0.7)
    assert outcome.trace
    assert [row.root for row in outcome.trace.graph_expansions] == [found.ref]
    assert [(row.leg, row.score) for row in outcome.trace.vector_candidates] == [
        ("dense", 0.4),
        ("lexical", 0.7),
    ]


@pytest.mark.spec("recall-13")
def test_the_best_twelve_become_roots_and_others_come_only_by_expansion(world: World) -> None:
    found = [thread(id=numbered_id(n)) for n in range(1, 15)]
    world.store(*found, link(found[0], found[12]))
    world.vectors.script(dense=[(item, 0.9 - n / 100) for n, item in enumerate(found)])

    outcome = world.retrieve(section_limits={"active_threads": 20})

    telemetry = outcome.rationale.telemetry
    assert telemetry.unique_graph_root_candidate_count == 14
    assert telemetry.selected_graph_root_count == 12
    assert telemetry.graph_root_omission_count == 2
    assert outcome.trace
    assert [row.root for row in outcome.trace.graph_expansions] == refs(found[:12])
    assert set(refs_in(outcome)) == set(refs(found[:13])), "the 13th is linked to a root, the 14th is not"
    assert stale(outcome) == []


@pytest.mark.spec("recall-14")
def test_equal_scores_are_ordered_by_type(world: World) -> None:
    happened = episode(id=numbered_id(9), summary="Tea.")
    noticed = observation(episode(id=numbered_id(7)), id=numbered_id(1))
    elsewhere = episode(id=numbered_id(7))
    world.store(happened, elsewhere, noticed)
    world.vectors.script(dense=[(noticed, 0.5), (happened, 0.5)])

    outcome = world.retrieve(candidate_limits=CandidateLimits(max_graph_roots=1))

    assert outcome.trace
    assert [row.root for row in outcome.trace.graph_expansions] == [happened.ref]
    assert ranked_in(outcome) == [happened.ref]


@pytest.mark.spec("recall-15")
def test_equal_scores_of_one_type_are_ordered_by_id(world: World) -> None:
    high, low = (episode(id=numbered_id(n), summary="Tea.") for n in (9, 2))
    world.store(high, low)
    world.vectors.script(dense=[(high, 0.5), (low, 0.5)])

    outcome = world.retrieve(candidate_limits=CandidateLimits(max_graph_roots=1))

    assert outcome.trace
    assert [row.root for row in outcome.trace.graph_expansions] == [low.ref]
    assert ranked_in(outcome) == [low.ref]


@pytest.mark.spec("recall-17")
def test_a_root_that_is_missing_from_the_graph_is_reported_and_harms_no_other(world: World) -> None:
    there, gone = thread(), unknown_ref(ObjectType.EPISODE)
    world.store(there)
    world.vectors.script(dense=[(there, 0.8)])
    undisturbed = world.retrieve()
    world.vectors.script(dense=[(gone, 0.9), (there, 0.8)])

    outcome = world.retrieve()

    assert outcome.rationale.telemetry.graph_expansion.missing_root_count == 1
    (omission,) = outcome.rationale.stale_candidate_omissions
    assert (omission.object, omission.reason) == (gone, StaleCandidateReason.GRAPH_OBJECT_MISSING)
    assert omission.vector_score == pytest.approx(0.9)
    assert omission.similarity == 0.9
    assert decisions(outcome) == [(gone, LifecycleFilterReason.GRAPH_OBJECT_MISSING)]
    assert expansion_of(outcome, gone).outcome == "missing_root"
    assert outcome.pack == undisturbed.pack
    assert expansion_of(outcome, there) == expansion_of(undisturbed, there)


def test_what_is_noise_beside_the_strongest_is_no_root(world: World) -> None:
    loud, weak, noise = (thread() for _ in range(3))
    world.store(loud, weak, noise)
    world.vectors.script(dense=[(loud, 0.9), (weak, 0.1), (noise, 0.001)])

    outcome = world.retrieve()

    telemetry = outcome.rationale.telemetry
    assert refs_in(outcome) == refs([loud, weak])
    assert telemetry.faint_root_candidate_count == telemetry.graph_root_omission_count == 1
    world.vectors.script(dense=[(noise, 0.001)])
    assert refs_in(world.retrieve()) == [noise.ref], "alone, it is the best there is"
