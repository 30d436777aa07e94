"""From an input to a plan (core-15 to core-19)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from charactermemory.domain.kinds import DerivedType, RelationType
from charactermemory.domain.provenance import ProducerKind
from charactermemory.domain.scene import Scene
from charactermemory.errors import InvalidInput
from charactermemory.ids import ObjectType
from charactermemory.memory import CharacterMemory
from charactermemory.remember.drafts import (
    DerivedMemoryDraft,
    EntityDraft,
    EpisodeDraft,
    MemoryLinkDraft,
    MemoryThreadDraft,
    ObservationDraft,
)
from charactermemory.remember.plan import CandidateValidationStatus, EpisodeCandidate, ObservationCandidate
from charactermemory.remember.prepare import (
    PrepareOptions,
    RememberInput,
    RememberPlanDefaults,
    prepare,
)
from tests.support.plans import (
    AT,
    belief,
    episode,
    episode_ref,
    memory_ref,
    notion,
    observation,
    observation_ref,
    plan,
    uid,
)
from tests.support.rig import Rig

BARE = PrepareOptions(include_vector_index_candidates=False, include_stats_update_candidates=False)
FIXED = RememberPlanDefaults.fixed("fixed-operation", AT)
VALID, INVALID = CandidateValidationStatus.VALID, CandidateValidationStatus.INVALID


@pytest.mark.spec("core-15")
def test_content_alone_becomes_one_observation_in_an_episode_of_its_own(memory: CharacterMemory) -> None:
    text = "  Alice promised Bob\u00a0 \n"
    made, noticed = memory.prepare(RememberInput.new(text), BARE).candidates
    assert isinstance(made, EpisodeCandidate)
    assert made.candidate.draft.summary is None
    assert isinstance(noticed, ObservationCandidate)
    assert noticed.candidate.draft.text == text
    assert noticed.candidate.draft.position == 0
    assert noticed.candidate.draft.episode_id == made.candidate.draft.id


@pytest.mark.spec("core-16")
def test_preparing_and_validating_change_no_store(rig: Rig) -> None:
    rig.memory.commit(
        plan(notion(1), episode(2, "tea"), observation(3, 2, "hello"), belief(4, "It rains.", (1,)))
    )
    rig.memory.upkeep.sweep()
    before = rig.contents()
    assert before.points and before.states and before.edges

    prepared = rig.memory.prepare(RememberInput.new("again").replace(entity_ids=(uid(1),)))
    rig.memory.validate_plan(prepared)
    rig.memory.validate_plan(plan(belief(5, "It no longer rains.", (1,), supersedes=(uid(4),))))
    assert rig.contents() == before


@pytest.mark.spec("core-17")
def test_content_alone_is_valid_without_warning(memory: CharacterMemory) -> None:
    rows = memory.validate_plan(memory.prepare(RememberInput.new("hello")))
    assert [(row.status, row.errors, row.warnings) for row in rows] == [(VALID, (), ())] * len(rows)
    assert len(rows) == 6


@pytest.mark.spec("core-17")
def test_an_observation_that_repeats_the_summary_gets_one_warning(memory: CharacterMemory) -> None:
    data = RememberInput(
        episode=EpisodeDraft(id=uid(1), summary="hello"), observations=(ObservationDraft.new("hello"),)
    )
    rows = memory.validate_plan(memory.prepare(data))
    assert {row.status for row in rows} == {VALID}
    [(kind, warning)] = [(row.candidate_kind, issue) for row in rows for issue in row.warnings]
    assert (kind, warning.kind) == ("observation", "duplicate_observation_echo")
    assert warning.matching_episode_ids == (uid(1),)
    assert warning.echo_surface == "text"

    spaced = data.replace(observations=(ObservationDraft.new("hello "),))
    assert [issue for row in memory.validate_plan(memory.prepare(spaced)) for issue in row.warnings] == []


@pytest.mark.spec("core-18")
def test_derived_drafts_without_sources_take_all_the_plans_experiences() -> None:
    data = RememberInput(
        observations=(ObservationDraft.new("a"), ObservationDraft.new("b")),
        derived_memory_drafts=(
            DerivedMemoryDraft.new(DerivedType.CLAIM, "concluded"),
            DerivedMemoryDraft(
                derived_type=DerivedType.CLAIM, text="given", given_by_application=True, entity_ids=(uid(1),)
            ),
            DerivedMemoryDraft.new(DerivedType.CLAIM, "from elsewhere").with_source_episode(uid(2)),
        ),
    )
    made, first, second, concluded, given, elsewhere = (
        item.candidate.draft for _, item in prepare(data, BARE, FIXED).object_candidates
    )
    assert concluded.derived_from_episode_ids == (made.id,)
    assert set(concluded.derived_from_observation_ids) == {first.id, second.id}
    assert (given.derived_from_episode_ids, given.derived_from_observation_ids) == ((), ())
    assert (elsewhere.derived_from_episode_ids, elsewhere.derived_from_observation_ids) == ((uid(2),), ())


@pytest.mark.spec("core-19")
def test_an_observation_takes_the_plans_episode_or_keeps_its_own(rig: Rig) -> None:
    rig.memory.commit(plan(episode(1, "earlier")))
    data = RememberInput(
        observations=(
            ObservationDraft.new("mine"),
            ObservationDraft(id=uid(5), text="theirs", episode_id=uid(1), position=0),
            ObservationDraft(text="lost", episode_id=uid(99), position=0),
        )
    )
    prepared = rig.memory.prepare(data, BARE)
    made, mine, theirs, lost = (item.candidate.draft for _, item in prepared.object_candidates)
    assert mine.episode_id == made.id
    assert theirs.episode_id == uid(1)
    assert lost.episode_id == uid(99)

    rows = rig.memory.validate_plan(prepared)
    assert [row.status for row in rows] == [VALID, VALID, VALID, INVALID]
    [issue] = rows[3].errors
    assert (issue.kind, issue.role, issue.referenced) == (
        "unknown_object_ref",
        "observation_episode",
        episode_ref(99),
    )


# --- beyond the numbered cases ---------------------------------------------------------------------


def test_of_several_observations_none_is_said_to_be_what_the_whole_refers_to() -> None:
    said = (ObservationDraft(text="hello"), ObservationDraft(text="again", raw_ref="raw://2"))
    made, *noticed = prepare(RememberInput(observations=said, raw_refs=("raw://1",)), BARE, FIXED).candidates
    assert made.candidate.draft.raw_ref == "raw://1"  # type: ignore[union-attr]
    assert [item.candidate.draft.raw_ref for item in noticed] == [None, "raw://2"]  # type: ignore[union-attr]


def test_candidates_stand_in_the_documented_order_with_their_provenance() -> None:
    data = RememberInput(
        content="hello",
        entity_ids=(uid(1),),
        thread_ids=(uid(2),),
        raw_refs=("raw://1", "raw://2"),
        entity_drafts=(EntityDraft(),),
        memory_thread_drafts=(MemoryThreadDraft.new("t", "s"),),
        derived_memory_drafts=(DerivedMemoryDraft.new(DerivedType.CLAIM, "d"),),
        memory_link_drafts=(
            MemoryLinkDraft.new(
                ObjectType.ENTITY, uid(1), RelationType.ASSOCIATED_WITH, ObjectType.ENTITY, uid(3)
            ),
        ),
    )
    prepared = prepare(data, PrepareOptions(), FIXED)
    objects = ["episode", "observation", "entity", "memory_thread", "derived_memory", "memory_link"]
    kinds = [item.candidate_type for item in prepared.candidates]
    assert kinds == [*objects, "memory_link", "memory_link", *["vector_index"] * 6, *["stats_update"] * 6]

    helper, caller = ProducerKind.DETERMINISTIC_HELPER, ProducerKind.CALLER
    producers = [item.candidate.provenance.producer_kind for item in prepared.candidates]
    assert producers == [helper, helper, caller, caller, caller, caller, *[helper] * 14]
    made, noticed = (item.candidate for item in prepared.candidates[:2])
    externals = made.provenance.source.external_refs
    assert [reference.raw_ref for reference in externals] == ["raw://1", "raw://2"]
    assert made.draft.raw_ref == noticed.draft.raw_ref == "raw://1"
    assert noticed.provenance.source.episode_ids == (made.draft.id,)

    hints = [item.candidate.draft for item in prepared.candidates[6:8]]
    assert [(hint.from_id, hint.relation, hint.to_id) for hint in hints] == [
        (made.draft.id, RelationType.INVOLVES, uid(1)),
        (made.draft.id, RelationType.PART_OF_THREAD, uid(2)),
    ]


def test_times_default_to_one_another_and_given_ones_stay() -> None:
    later, latest = AT + timedelta(hours=1), AT + timedelta(hours=2)
    scene = Scene(time=AT - timedelta(days=1))
    data = RememberInput(
        content="hello",
        scene=scene,
        memory_thread_drafts=(
            MemoryThreadDraft.new("a", "a"),
            MemoryThreadDraft(title="b", summary="b", created_at=later),
            MemoryThreadDraft(title="c", summary="c", updated_at=latest),
        ),
    )
    made, noticed, first, second, third = (
        item.candidate.draft for _, item in prepare(data, BARE, FIXED).object_candidates
    )
    assert (made.scene, made.created_at) == (scene, AT)
    assert (noticed.observed_at, noticed.created_at) == (scene.time, AT)
    assert (first.created_at, first.updated_at, first.last_touched_at) == (AT, AT, AT)
    assert (second.created_at, second.updated_at, second.last_touched_at) == (later, later, later)
    assert (third.created_at, third.updated_at, third.last_touched_at) == (AT, latest, latest)


def test_observations_for_a_stored_episode_bring_no_episode_of_their_own(rig: Rig) -> None:
    rig.memory.commit(plan(episode(1, "earlier")))
    data = RememberInput(
        observations=(ObservationDraft(id=uid(2), text="later", episode_id=uid(1), position=3),),
        derived_memory_drafts=(
            DerivedMemoryDraft(id=uid(3), derived_type=DerivedType.CLAIM, text="concluded"),
        ),
    )
    outcome = rig.memory.commit(rig.memory.prepare(data))
    assert outcome.persisted_object_ids == (observation_ref(2), memory_ref(3))
    assert rig.stored(memory_ref(3)).object.derived_from_observation_ids == (uid(2),)


def test_an_observation_that_names_the_inputs_own_episode_is_placed_in_it() -> None:
    data = RememberInput(
        episode=EpisodeDraft(id=uid(1)),
        observations=(ObservationDraft.new("a"), ObservationDraft.new("b", uid(1))),
    )
    _, first, second = (item.candidate.draft for _, item in prepare(data, BARE, FIXED).object_candidates)
    assert [(item.episode_id, item.position) for item in (first, second)] == [(uid(1), 0), (uid(1), 1)]
    assert second.observed_at == AT


@pytest.mark.parametrize(
    ("data", "pointer"),
    [
        (RememberInput(), "/content"),
        (RememberInput(entity_ids=(uid(1),)), "/content"),
        (RememberInput(content="a", observations=(ObservationDraft.new("b"),)), "/content"),
        (
            RememberInput(observations=(ObservationDraft.new("a", uid(1)),), entity_ids=(uid(2),)),
            "/entity_ids",
        ),
        (
            RememberInput(observations=(ObservationDraft.new("a", uid(1)),), thread_ids=(uid(2),)),
            "/thread_ids",
        ),
        (
            RememberInput(observations=(ObservationDraft.new("a", uid(1)),), scene=Scene(time=AT)),
            "/scene",
        ),
    ],
)
def test_an_input_that_cannot_be_kept_whole_is_refused_by_field(data: RememberInput, pointer: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        prepare(data, BARE, FIXED)
    assert [where for where, _ in refused.value.problems] == [pointer]
