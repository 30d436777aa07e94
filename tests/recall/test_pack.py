"""Cases 49-58: which section, how many, in which order (recall.md §7)."""

import pytest

from charactermemory.domain.kinds import DerivedType, RelationType, ThreadStatus
from charactermemory.ids import ObjectType
from charactermemory.recall import SectionLimits
from charactermemory.recall.omissions import StaleCandidateReason
from charactermemory.recall.sections import (
    OmittedByLimit,
    OmittedNonActiveThread,
    OmittedNoPromptSection,
    Section,
)
from charactermemory.testing.builders import belief, episode, link, notion, observation, thread
from tests.recall.world import World, assignment_of, ranked_in, refs, refs_in, stale


@pytest.mark.spec("recall-49")
def test_each_kind_of_derived_memory_has_its_section(world: World) -> None:
    happened = episode()
    held = {kind: belief(happened, derived_type=kind) for kind in DerivedType}
    world.store(happened, *held.values())
    world.vectors.script(dense=[(item, 0.5) for item in held.values()])

    pack = world.retrieve().pack

    def kinds(section: Section) -> set[DerivedType]:
        return {entry.memory.derived_type for entry in getattr(pack, section.value)}

    assert kinds(Section.DERIVED_MEMORIES) == {
        DerivedType.REFLECTION,
        DerivedType.PROJECT_NOTE,
        DerivedType.CLAIM,
        DerivedType.CORRECTION,
    }
    assert kinds(Section.PREFERENCES) == {DerivedType.USER_PREFERENCE, DerivedType.ASSISTANT_PREFERENCE}
    assert kinds(Section.RELATIONSHIP_NOTES) == {DerivedType.RELATIONSHIP_NOTE}
    assert kinds(Section.OPEN_LOOPS) == {DerivedType.OPEN_LOOP}
    assert kinds(Section.COMMITMENTS) == {DerivedType.COMMITMENT}
    assert kinds(Section.CHARACTER_SIGNALS) == {DerivedType.CHARACTER_SIGNAL}


@pytest.mark.spec("recall-50")
@pytest.mark.parametrize("status", [ThreadStatus.DORMANT, ThreadStatus.RESOLVED])
def test_a_thread_that_is_not_active_stands_in_no_section(world: World, status: ThreadStatus) -> None:
    past, active = thread(status=status), thread()
    world.store(past, active)
    world.vectors.script(dense=[(past, 0.9), (active, 0.8)])

    outcome = world.retrieve()

    assert refs_in(outcome) == [active.ref]
    assert assignment_of(outcome, past).reason == OmittedNonActiveThread(thread_status=status)
    assert assignment_of(outcome, past).section is None
    assert stale(outcome) == []


@pytest.mark.spec("recall-51")
def test_a_notion_stands_in_no_section_but_leads_on(world: World) -> None:
    met, happened = notion(), episode()
    held, other = (belief(happened, entity_ids=(met.id,)) for _ in range(2))
    world.store(met, happened, held, other)
    world.vectors.script(dense=[(held, 0.9)])

    outcome = world.retrieve(graph_limits={"allowed_relation_types": [RelationType.ABOUT]})

    assert assignment_of(outcome, met).reason == OmittedNoPromptSection(object_type=ObjectType.ENTITY)
    assert set(refs_in(outcome)) == {held.ref, other.ref}, "the other is reached through the notion"


@pytest.mark.spec("recall-52")
def test_a_full_section_leaves_out_the_lowest_ranks(world: World) -> None:
    happened = [episode(summary=f"Tea {n}.") for n in range(10)]
    world.store(*happened)
    world.vectors.script(dense=[(item, 0.9 - n / 100) for n, item in enumerate(happened)])

    outcome = world.retrieve(section_limits=SectionLimits(relevant_episodes=8))

    assert [item.id for item in outcome.pack.relevant_episodes] == [item.id for item in happened[:8]]
    assert stale(outcome) == [(item.ref, StaleCandidateReason.SECTION_LIMIT) for item in happened[8:]]
    (pressure,) = [
        row
        for row in outcome.rationale.telemetry.section_pressure
        if row.section is Section.RELEVANT_EPISODES
    ]
    assert (pressure.limit, pressure.included_count, pressure.omitted_by_limit_count) == (8, 8, 2)


@pytest.mark.spec("recall-53")
def test_a_section_without_room_reports_everything_meant_for_it(world: World) -> None:
    happened = episode()
    promises = [belief(happened, derived_type=DerivedType.COMMITMENT) for _ in range(2)]
    world.store(happened, *promises)
    world.vectors.script(dense=[(item, 0.9) for item in promises])

    outcome = world.retrieve(section_limits=SectionLimits(commitments=0))

    assert outcome.pack.commitments == ()
    for item in promises:
        reason = assignment_of(outcome, item).reason
        assert isinstance(reason, OmittedByLimit)
        assert reason.intended_section is Section.COMMITMENTS
    assert not set(refs_in(outcome)) & set(refs(promises))


@pytest.mark.spec("recall-54")
def test_a_full_section_takes_no_room_from_another(world: World) -> None:
    happened = episode()
    likes = [belief(happened, derived_type=DerivedType.USER_PREFERENCE) for _ in range(3)]
    loops = [belief(happened, derived_type=DerivedType.OPEN_LOOP) for _ in range(2)]
    world.store(happened, *likes, *loops)
    world.vectors.script(dense=[*((item, 0.9) for item in likes), *((item, 0.5) for item in loops)])

    outcome = world.retrieve(section_limits=SectionLimits(preferences=1, open_loops=2))

    assert len(outcome.pack.preferences) == 1
    assert {entry.memory.id for entry in outcome.pack.open_loops} == {item.id for item in loops}


@pytest.mark.spec("recall-55")
def test_preferences_of_both_sides_share_one_list_by_rank(world: World) -> None:
    happened = episode()
    theirs = belief(happened, derived_type=DerivedType.USER_PREFERENCE)
    own = belief(happened, derived_type=DerivedType.ASSISTANT_PREFERENCE)
    world.store(happened, theirs, own)
    world.vectors.script(dense=[(own, 0.9), (theirs, 0.8)])

    outcome = world.retrieve()

    assert [entry.memory.id for entry in outcome.pack.preferences] == [own.id, theirs.id]
    assert (assignment_of(outcome, own).rank, assignment_of(outcome, theirs).rank) == (1, 2)


@pytest.mark.spec("recall-56")
def test_a_derived_memory_brings_its_sources(world: World) -> None:
    first, second = episode(), episode()
    noticed = observation(first)
    held = belief(first, second, noticed)
    world.store(first, second, noticed, held)
    world.vectors.script(dense=[(held, 0.9)])

    (entry,) = world.retrieve().pack.derived_memories

    assert entry.memory == held
    assert set(entry.source_episode_ids) == {first.id, second.id}
    assert len(entry.source_episode_ids) == 2
    assert entry.source_observation_ids == (noticed.id,)


@pytest.mark.spec("recall-57")
def test_a_raw_reference_is_handed_back_untouched(world: World) -> None:
    happened = episode()
    noticed = observation(happened, raw_ref="s3://bucket/transcript#12")
    world.store(happened, noticed)
    world.vectors.script(dense=[(noticed, 0.9)])

    outcome = world.retrieve()

    assert outcome.pack.salient_observations == (noticed,)
    assert outcome.pack.salient_observations[0].raw_ref == "s3://bucket/transcript#12"
    assert outcome.to_json().count("s3://bucket/transcript#12") == 1


@pytest.mark.spec("recall-58")
def test_every_ranked_object_is_assigned_once(world: World) -> None:
    met, past, line = notion(), thread(status=ThreadStatus.DORMANT), thread()
    happened = [episode(summary=f"Tea {n}.") for n in range(4)]
    noticed = [observation(item) for item in happened]
    held = [belief(happened[0], entity_ids=(met.id,), thread_ids=(line.id,)) for _ in range(3)]
    everything = [met, past, line, *happened, *noticed, *held]
    world.store(*everything, link(past, line))
    world.vectors.script(dense=[(held[0], 0.9), *((item, 0.5) for item in noticed)])

    outcome = world.retrieve(section_limits=SectionLimits(derived_memories=1))

    assert outcome.trace
    assigned = outcome.trace.section_assignments
    assert sorted(row.object for row in assigned) == sorted(refs(everything)), "all are within two hops"
    selected = [row for row in assigned if row.section is not None]
    assert len(selected) < len(assigned)
    assert outcome.rationale.graph_verified_count == len(selected) == len(refs_in(outcome))
    assert [row.object for row in selected] == refs_in(outcome)
    assert ranked_in(outcome)[0] == held[0].ref
