"""Cases 59-66 and 68: what is superseded or forgotten has no influence (recall.md §8, §9)."""

import pytest

from charactermemory.domain.kinds import RetentionState
from charactermemory.domain.lifecycle import LifecyclePolicy
from charactermemory.domain.objects import DerivedMemory, Episode
from charactermemory.domain.scene import Participant, Scene
from charactermemory.ids import MemoryObjectRef
from charactermemory.recall.omissions import LifecycleFilterReason, StaleCandidateReason
from charactermemory.revise.drafts import ForgetMemoryDraft
from charactermemory.revise.forget import forget
from charactermemory.testing.builders import NOON, belief, episode, notion, observation, thread
from tests.recall.world import World, decisions, refs_in, stale

SUPPRESSED_TOO = LifecyclePolicy(include_suppressed=True)
SUPERSEDED_TOO = LifecyclePolicy(include_superseded=True)
BOTH = LifecyclePolicy(include_suppressed=True, include_superseded=True)


@pytest.fixture
def forgotten(world: World) -> Episode:
    """A forgotten episode whose vector is still there, at 0.99."""
    happened = episode(summary="Tea.")
    world.store(happened)
    world.forget(happened)
    world.vectors.script(dense=[(happened, 0.99)])
    return happened


@pytest.fixture
def chain(world: World) -> tuple[DerivedMemory, DerivedMemory]:
    """A, superseded by B, and both vectors there."""
    happened = episode()
    a = belief(happened, text="It is green.")
    b = belief(happened, text="It is blue.", supersedes=(a.id,))
    world.store(happened, a)
    world.store(b)
    world.vectors.script(dense=[(a, 0.9), (b, 0.8)])
    return a, b


def reasons(world: World, item: DerivedMemory, policy: LifecyclePolicy) -> set[LifecycleFilterReason]:
    outcome = world.retrieve(lifecycle_policy=policy)
    return {reason for ref, reason in decisions(outcome) if ref == item.ref}


def returned(world: World, policy: LifecyclePolicy = LifecyclePolicy()) -> set[MemoryObjectRef]:  # noqa: B008
    return {entry.object for entry in world.retrieve(lifecycle_policy=policy).pack.admissions}


@pytest.mark.spec("recall-59")
def test_a_stale_vector_brings_nothing_back(world: World, forgotten: Episode) -> None:
    outcome = world.retrieve()

    assert refs_in(outcome) == []
    (omission,) = outcome.rationale.stale_candidate_omissions
    assert (omission.object, omission.reason) == (forgotten.ref, StaleCandidateReason.LIFECYCLE_MISMATCH)
    assert omission.vector_score == omission.similarity == 0.99
    (decision,) = outcome.rationale.lifecycle_filter_decisions
    assert (decision.object, decision.reason) == (forgotten.ref, LifecycleFilterReason.SUPPRESSED_OMITTED)
    assert decision.retention_state is RetentionState.SUPPRESSED


@pytest.mark.spec("recall-60")
def test_who_asks_for_the_suppressed_gets_it(world: World, forgotten: Episode) -> None:
    outcome = world.retrieve(lifecycle_policy=SUPPRESSED_TOO)

    assert refs_in(outcome) == [forgotten.ref]
    assert outcome.pack.relevant_episodes[0].retention_state is RetentionState.SUPPRESSED
    assert outcome.rationale.lifecycle_omission_count == 0


@pytest.mark.spec("recall-61")
def test_the_superseded_gives_way_to_its_successor(
    world: World, chain: tuple[DerivedMemory, DerivedMemory]
) -> None:
    a, b = chain
    outcome = world.retrieve()

    assert a.ref not in refs_in(outcome)
    assert b.ref in refs_in(outcome)
    assert stale(outcome) == [(a.ref, StaleCandidateReason.SUPERSEDED)]
    assert {reason for ref, reason in decisions(outcome) if ref == a.ref} == {
        LifecycleFilterReason.SUPERSEDED_OMITTED
    }
    assert all(
        row.superseded_by == (b.id,)
        for row in outcome.rationale.lifecycle_filter_decisions
        if row.object == a.ref
    )


@pytest.mark.spec("recall-62")
def test_the_superseded_is_reached_from_its_successor_on_request(
    world: World, chain: tuple[DerivedMemory, DerivedMemory]
) -> None:
    a, b = chain
    assert {a.ref, b.ref} <= returned(world, SUPERSEDED_TOO)
    world.vectors.script(dense=[(b, 0.8)])
    assert {a.ref, b.ref} <= returned(world, SUPERSEDED_TOO), "A is reachable from B alone"


@pytest.mark.spec("recall-63")
def test_forgetting_the_successor_brings_nothing_back(
    world: World, chain: tuple[DerivedMemory, DerivedMemory]
) -> None:
    a, b = chain
    world.forget(b)

    outcome = world.retrieve()

    assert not {a.ref, b.ref} & set(refs_in(outcome))
    assert set(stale(outcome)) == {
        (a.ref, StaleCandidateReason.SUPERSEDED),
        (b.ref, StaleCandidateReason.LIFECYCLE_MISMATCH),
    }
    assert reasons(world, a, LifecyclePolicy()) == {LifecycleFilterReason.SUPERSEDED_OMITTED}


@pytest.mark.spec("recall-64")
def test_suppression_takes_precedence_over_supersession(
    world: World, chain: tuple[DerivedMemory, DerivedMemory]
) -> None:
    a, _ = chain
    world.forget(a)

    assert reasons(world, a, LifecyclePolicy()) == {LifecycleFilterReason.SUPPRESSED_OMITTED}
    assert a.ref not in returned(world)
    assert a.ref not in returned(world, SUPERSEDED_TOO)
    assert reasons(world, a, SUPERSEDED_TOO) == {LifecycleFilterReason.SUPPRESSED_OMITTED}
    assert a.ref not in returned(world, SUPPRESSED_TOO)
    assert reasons(world, a, SUPPRESSED_TOO) == {LifecycleFilterReason.SUPERSEDED_OMITTED}
    assert a.ref in returned(world, BOTH)


@pytest.mark.spec("recall-65")
def test_a_superseded_neighbour_is_decided_on_but_no_stale_candidate(
    world: World, chain: tuple[DerivedMemory, DerivedMemory]
) -> None:
    a, b = chain
    world.vectors.script(dense=[(b, 0.8)])

    outcome = world.retrieve()

    assert decisions(outcome) == [(a.ref, LifecycleFilterReason.SUPERSEDED_OMITTED)]
    assert stale(outcome) == []
    assert a.ref not in refs_in(outcome)


@pytest.mark.spec("recall-66")
def test_one_suppressed_neighbour_under_three_roots_counts_three_times(world: World) -> None:
    happened = episode()
    roots = [observation(happened, position) for position in range(3)]
    world.store(happened, *roots)
    world.forget(happened)
    world.vectors.script(dense=[(item, 0.9) for item in roots])

    outcome = world.retrieve()

    assert outcome.rationale.lifecycle_omission_count == 3
    assert decisions(outcome) == [(happened.ref, LifecycleFilterReason.SUPPRESSED_OMITTED)] * 3
    (count,) = outcome.rationale.lifecycle_omission_reasons
    assert (count.reason, count.count) == (LifecycleFilterReason.SUPPRESSED_OMITTED, 3)


@pytest.mark.spec("recall-68")
def test_a_forgotten_thread_is_still_recalled(world: World) -> None:
    line, happened = thread(), episode()
    member = belief(happened, thread_ids=(line.id,))
    world.store(line, happened, member)
    forget(world.stores, ForgetMemoryDraft(targets=(line.ref,), rationale="enough of it"))
    world.vectors.script(dense=[(line, 0.9)])

    outcome = world.retrieve()

    assert outcome.pack.active_threads == (line,)
    assert member.ref in refs_in(outcome)
    assert decisions(outcome) == []


def test_what_was_reached_only_through_the_forgotten_is_not_reached(world: World) -> None:
    happened = episode()
    root, beyond = observation(happened, 0), observation(happened, 1)
    world.store(happened, root, beyond)
    world.forget(happened)
    world.vectors.script(dense=[(root, 0.9)])

    assert refs_in(world.retrieve()) == [root.ref]


@pytest.mark.parametrize("lifecycle", ["forgotten", "superseded"])
def test_what_changes_between_the_reads_is_judged_by_the_last_one(world: World, lifecycle: str) -> None:
    happened = episode()
    root, held = observation(happened), belief(happened)
    world.store(happened, root, held)
    world.vectors.script(dense=[(root, 0.9)])

    def meanwhile(answer: object) -> object:
        if lifecycle == "forgotten":
            world.forget(held)
        else:
            world.store(belief(happened, supersedes=(held.id,)))
        return answer

    assert held.ref in refs_in(world.retrieve())
    world.graph.alter("neighbours", lambda answer: answer)
    world.graph.alter("neighbours", meanwhile)
    outcome = world.retrieve()

    assert held.ref not in refs_in(outcome)
    assert held.ref in {ref for ref, _ in decisions(outcome)}


@pytest.mark.parametrize("forget", [True, False])
def test_what_is_denied_only_on_second_sight_was_never_admitted(world: World, forget: bool) -> None:
    subject = notion()
    happened = episode(scene=Scene.at(NOON, Participant(key=subject.id)))
    old = belief(happened, entity_ids=(subject.id,), text="It is green.")
    crowd = [belief(episode(), entity_ids=(subject.id,), text=f"Thing {n}.") for n in range(20)]
    world.store(subject, happened, old, *crowd)
    if forget:
        world.forget(old)
    else:
        world.store(belief(happened, supersedes=(old.id,), text="It is blue."))
    world.vectors.script(dense=[(happened, 0.9)])

    # The episode comes to it at once; only the crowd at the notion, a layer later, makes recall ask about it.
    outcome = world.retrieve(graph_limits={"max_fanout_per_node": 16})

    assert old.ref not in refs_in(outcome)
    assert old.ref in {ref for ref, _ in decisions(outcome)}
