"""What validation says of each candidate (core-20 to core-35); commit refuses the same, with nothing written."""

from __future__ import annotations

from typing import Any

import pytest

from charactermemory.domain.beliefs import BeliefAssertion
from charactermemory.domain.kinds import SCHEMA_VERSION, DerivedType, RelationType
from charactermemory.domain.provenance import (
    CandidateProvenance,
    CandidateRationale,
    CandidateSource,
    ExternalSourceReference,
    ProducerKind,
    RationaleOrigin,
    SourceSpan,
)
from charactermemory.domain.scene import Participant, Scene
from charactermemory.errors import WritePlanValidationRejected
from charactermemory.ids import NIL_ID, MemoryObjectRef
from charactermemory.memory import CharacterMemory
from charactermemory.remember.drafts import (
    DerivedMemoryDraft,
    EntityDraft,
    EpisodeDraft,
    MemoryThreadDraft,
    ObservationDraft,
)
from charactermemory.remember.outcome import RememberOutcome
from charactermemory.remember.plan import (
    CandidateValidation,
    CandidateValidationStatus,
    RememberWritePlan,
    StatsUpdateCandidate,
    StatsUpdateRequest,
    VectorIndexCandidate,
    VectorIndexRequest,
    candidate,
)
from tests.support.plans import (
    AT,
    BY_TEST,
    belief,
    complete,
    episode,
    episode_ref,
    link,
    link_ref,
    memory_ref,
    naming,
    notion,
    notion_ref,
    observation,
    observation_ref,
    plan,
    uid,
)
from tests.support.rig import Rig

VALID, INVALID = CandidateValidationStatus.VALID, CandidateValidationStatus.INVALID

Issue = tuple[str, str | None, MemoryObjectRef | None]


def errors(row: CandidateValidation) -> list[str]:
    return [issue.kind for issue in row.errors]


def references(row: CandidateValidation) -> list[Issue]:
    return [(issue.kind, issue.role, issue.referenced) for issue in row.errors]


def verdicts(memory: CharacterMemory, *drafts: Any) -> list[list[str]]:
    """Validate a plan of these drafts; the kinds of errors, row by row."""
    rows = memory.validate_plan(plan(*drafts))
    assert [row.candidate_index for row in rows] == list(range(len(drafts)))
    assert [row.status for row in rows] == [INVALID if row.errors else VALID for row in rows]
    return [errors(row) for row in rows]


def assert_commit_refuses(rig: Rig, refused: RememberWritePlan) -> None:
    """Commit raises with the same rows as validation, and no store changes."""
    before = rig.contents()
    rows = rig.memory.validate_plan(refused)
    with pytest.raises(WritePlanValidationRejected) as caught:
        rig.memory.commit(refused)
    assert caught.value.validations == rows
    assert rig.contents() == before


@pytest.mark.spec("core-20")
def test_references_may_point_forward_in_the_plan(rig: Rig) -> None:
    sourced = {"given_by_application": False, "derived_from_episode_ids": (uid(2),)}
    forward = plan(belief(1, "It rained.", **sourced), episode(2, "a walk"))
    assert [row.status for row in rig.memory.validate_plan(forward)] == [VALID, VALID]
    assert rig.memory.commit(forward).persisted_object_ids == (memory_ref(1), episode_ref(2))


@pytest.mark.spec("core-21")
def test_an_unknown_source_episode_is_named(rig: Rig) -> None:
    sourced = {"given_by_application": False, "derived_from_episode_ids": (uid(9),)}
    [row] = rig.memory.validate_plan(plan(belief(1, "It rained.", **sourced)))
    assert row.status is INVALID
    assert references(row) == [("unknown_object_ref", "derived_source_episode", episode_ref(9))]


@pytest.mark.spec("core-22")
@pytest.mark.parametrize("asserted", [True, False])
def test_an_unknown_subject_is_named_by_validation_and_by_commit(rig: Rig, asserted: bool) -> None:
    assertions = (BeliefAssertion.known_as(uid(9), "Ada"),) if asserted else ()
    refused = plan(belief(1, "It is kind.", (9,), assertions=assertions))
    [row] = rig.memory.validate_plan(refused)
    assert row.status is INVALID
    assert references(row) == [("unknown_object_ref", "belief_subject", notion_ref(9))]
    assert_commit_refuses(rig, refused)


@pytest.mark.spec("core-23")
def test_a_predecessor_of_the_same_plan_is_unknown(rig: Rig) -> None:
    refused = plan(
        notion(1), belief(2, "It rains.", (1,)), belief(3, "No longer.", (1,), supersedes=(uid(2),))
    )
    rows = rig.memory.validate_plan(refused)
    assert [row.status for row in rows] == [VALID, VALID, INVALID]
    assert references(rows[2]) == [("unknown_object_ref", "superseded_memory", memory_ref(2))]
    assert_commit_refuses(rig, refused)


@pytest.mark.spec("core-24")
def test_a_memory_that_supersedes_itself_is_a_self_link(memory: CharacterMemory) -> None:
    own = belief(2, "It rains.", (1,), supersedes=(uid(2),))
    [_, row] = memory.validate_plan(plan(notion(1), own))
    assert row.status is INVALID
    assert references(row) == [("self_link", None, memory_ref(2))]


@pytest.mark.spec("core-25")
def test_a_memory_without_any_ground_has_exactly_one_error(memory: CharacterMemory) -> None:
    assert verdicts(memory, belief(1, "It rains.", given_by_application=False)) == [
        ["missing_derived_source"]
    ]


@pytest.mark.spec("core-26")
@pytest.mark.parametrize(
    ("reason", "fields"),
    [
        ("given_with_sources", {"entity_ids": (uid(1),), "derived_from_episode_ids": (uid(2),)}),
        ("given_with_sources", {"entity_ids": (uid(1),), "derived_from_observation_ids": (uid(3),)}),
        ("given_without_subject", {}),
        (
            "assertion_subject_not_in_memory",
            {"entity_ids": (uid(1),), "assertions": (BeliefAssertion.known_as(uid(4), "Ada"),)},
        ),
    ],
)
def test_given_beliefs_keep_their_rules(memory: CharacterMemory, reason: str, fields: dict[str, Any]) -> None:
    drafts = (notion(1), episode(2, "tea"), observation(3, 2, "hello"), notion(4), belief(5, "x", **fields))
    *others, row = memory.validate_plan(plan(*drafts))
    assert {other.status for other in others} == {VALID}
    assert row.status is INVALID
    assert [(issue.kind, issue.reason) for issue in row.errors] == [("invalid_belief", reason)]
    named = notion_ref(4) if reason == "assertion_subject_not_in_memory" else None
    assert row.errors[0].referenced == named


@pytest.mark.spec("core-27")
@pytest.mark.parametrize("id", [None, NIL_ID])
def test_what_a_candidate_lacks_is_reported_together(memory: CharacterMemory, id: Any) -> None:
    [row] = memory.validate_plan(plan(EntityDraft(id=id)))
    assert row.status is INVALID
    assert [(issue.kind, issue.field) for issue in row.errors] == [
        ("missing_candidate_id", None),
        ("missing_candidate_schema_version", None),
        ("missing_timestamp", "created_at"),
    ]


@pytest.mark.spec("core-28")
def test_a_missing_time_is_reported_for_the_times_a_kind_has(memory: CharacterMemory) -> None:
    bare = {"schema_version": SCHEMA_VERSION}
    drafts = (
        EntityDraft(id=uid(1), **bare),
        MemoryThreadDraft(id=uid(2), title="t", summary="s", **bare),
        DerivedMemoryDraft(
            id=uid(3),
            derived_type=DerivedType.CLAIM,
            text="d",
            given_by_application=True,
            entity_ids=(uid(1),),
            **bare,
        ),
    )
    rows = memory.validate_plan(plan(*drafts))
    assert {row.status for row in rows} == {INVALID}
    assert {issue.kind for row in rows for issue in row.errors} == {"missing_timestamp"}
    assert [[issue.field for issue in row.errors] for row in rows] == [
        ["created_at"],
        ["created_at", "updated_at", "last_touched_at"],
        ["created_at", "updated_at"],
    ]


def vector_candidate(ref: MemoryObjectRef) -> VectorIndexCandidate:
    return VectorIndexCandidate(candidate=VectorIndexRequest(target=ref, provenance=BY_TEST))


def statistics_candidate(
    subject: MemoryObjectRef,
    relation: RelationType | None = None,
    object: MemoryObjectRef | None = None,
) -> StatsUpdateCandidate:
    request = StatsUpdateRequest(subject=subject, relation=relation, object=object, provenance=BY_TEST)
    return StatsUpdateCandidate(candidate=request)


@pytest.mark.spec("core-29")
def test_a_vector_candidate_must_name_an_object_of_the_plan(rig: Rig) -> None:
    rig.memory.commit(plan(episode(1, "tea")))
    asked = plan(episode(2, "cake")).with_candidates(
        vector_candidate(episode_ref(2)), vector_candidate(episode_ref(1)), vector_candidate(episode_ref(9))
    )
    rows = rig.memory.validate_plan(asked)
    assert [row.status for row in rows] == [VALID, VALID, INVALID, INVALID]
    assert references(rows[2]) == [("reference_not_in_plan", "vector_index_target", episode_ref(1))]
    assert references(rows[3]) == [
        ("unknown_object_ref", "vector_index_target", episode_ref(9)),
        ("reference_not_in_plan", "vector_index_target", episode_ref(9)),
    ]


@pytest.mark.spec("core-30")
def test_a_statistics_candidate_names_relation_and_object_or_neither(memory: CharacterMemory) -> None:
    made = plan(notion(1), episode(2, "tea"))
    asked = made.with_candidates(
        statistics_candidate(episode_ref(2), RelationType.INVOLVES),
        statistics_candidate(episode_ref(2), None, notion_ref(1)),
        statistics_candidate(episode_ref(2), RelationType.INVOLVES, notion_ref(1)),
        statistics_candidate(episode_ref(2)),
    )
    rows = memory.validate_plan(asked)[2:]
    incomplete = ["incomplete_stats_relation_object_pair"]
    assert [errors(row) for row in rows] == [incomplete, incomplete, [], []]
    assert [row.status for row in rows] == [INVALID, INVALID, VALID, VALID]


@pytest.mark.spec("core-31")
def test_each_flaw_of_the_provenance_is_an_issue_of_its_own(memory: CharacterMemory) -> None:
    flawed = CandidateProvenance(
        producer_kind=ProducerKind.MODEL_PROCESSOR,
        rationale=CandidateRationale(origin=RationaleOrigin.PROVIDED_BY_CALLER, text=" \u00a0"),
        source=CandidateSource(
            external_refs=(ExternalSourceReference(source_ref=" "),),
            source_spans=(SourceSpan(char_range=(9, 3)), SourceSpan(char_range=(3, 3))),
        ),
    )
    [row] = memory.validate_plan(RememberWritePlan(candidates=(candidate(episode(1, "tea"), flawed),)))
    assert row.status is INVALID
    assert [(issue.kind, issue.reason) for issue in row.errors] == [
        ("invalid_provenance", "non_caller_claimed_caller_rationale"),
        ("invalid_provenance", "empty_rationale_text"),
        ("invalid_source_span", "invalid_char_range"),
        ("invalid_provenance", "empty_external_reference"),
    ]


@pytest.mark.spec("core-32")
def test_raw_references_are_opaque(rig: Rig) -> None:
    nowhere = "raw://does/not/exist"
    drafts = plan(episode(1, "tea", raw_ref=nowhere), observation(2, 1, "hello", raw_ref=nowhere))
    assert [(row.status, row.warnings) for row in rig.memory.validate_plan(drafts)] == [(VALID, ())] * 2
    rig.memory.commit(drafts)
    assert rig.stored(episode_ref(1)).object.raw_ref == nowhere
    assert rig.stored(observation_ref(2)).object.raw_ref == nowhere


@pytest.mark.spec("core-33")
def test_an_empty_plan_is_accepted_and_writes_nothing(rig: Rig) -> None:
    before = rig.contents()
    empty = RememberWritePlan.new()
    assert rig.memory.validate_plan(empty) == ()
    outcome = rig.memory.commit(empty)
    assert outcome == RememberOutcome()
    assert outcome.complete
    assert rig.contents() == before
    assert rig.contents().receipts == ()
    assert rig.backlog() == (0, 0)


@pytest.mark.spec("core-34")
def test_links_that_the_memory_derives_may_not_be_authored(rig: Rig) -> None:
    rig.memory.commit(
        plan(
            notion(1),
            notion(2),
            episode(3, "tea"),
            observation(4, 3, "hello"),
            belief(5, "It rains.", (1,)),
            belief(6, "It pours.", (1,)),
        )
    )
    supersedes, about = RelationType.SUPERSEDES, RelationType.ABOUT
    forbidden_about = ["authored_belief_about_link"]
    assert verdicts(
        rig.memory,
        link(uid(101), memory_ref(6), supersedes, memory_ref(5)),
        link(uid(102), memory_ref(5), about, notion_ref(1)),
        link(uid(103), notion_ref(1), about, memory_ref(5)),
        link(uid(104), memory_ref(5), about, notion_ref(2)),
        link(uid(105), notion_ref(2), about, memory_ref(5)),
    ) == [["authored_supersedes_link"], *[forbidden_about] * 4]

    accepted = plan(
        link(uid(106), memory_ref(5), about, observation_ref(4)),
        link(uid(107), episode_ref(3), about, notion_ref(1)),
    )
    assert [row.status for row in rig.memory.validate_plan(accepted)] == [VALID, VALID]
    assert rig.memory.commit(accepted).persisted_link_ids == (link_ref(uid(106)), link_ref(uid(107)))


@pytest.mark.spec("core-35")
def test_link_ends_are_stored_objects_that_are_no_links_and_differ(memory: CharacterMemory) -> None:
    known = (episode(1, "tea"), notion(2))
    a_link = link_ref(uid(9))
    relation = RelationType.ASSOCIATED_WITH
    *_, from_link, to_link, self_link, unknown = memory.validate_plan(
        plan(
            *known,
            link(uid(101), a_link, relation, notion_ref(2)),
            link(uid(102), notion_ref(2), relation, a_link),
            link(uid(103), notion_ref(2), relation, notion_ref(2)),
            link(uid(104), episode_ref(8), relation, notion_ref(8)),
        )
    )
    assert {row.status for row in (from_link, to_link, self_link, unknown)} == {INVALID}
    for row, end in ((from_link, "MemoryLink.from_type"), (to_link, "MemoryLink.to_type")):
        assert [(issue.kind, issue.field) for issue in row.errors] == [
            ("unsupported_memory_link_endpoint", end)
        ]
    assert references(self_link) == [("self_link", None, notion_ref(2))]
    assert references(unknown) == [
        ("unknown_object_ref", "memory_link_from", episode_ref(8)),
        ("unknown_object_ref", "memory_link_to", notion_ref(8)),
    ]


# --- beyond the numbered cases ---------------------------------------------------------------------


def test_every_other_reference_is_checked_with_its_role(memory: CharacterMemory) -> None:

    scene = Scene(time=AT, participants=(Participant(key=uid(91)),))
    rows = memory.validate_plan(
        plan(
            episode(1, "tea", scene=scene),
            observation(2, 1, "hello", speaker_entity_id=uid(92)),
            belief(
                3,
                "so",
                given_by_application=False,
                derived_from_observation_ids=(uid(93),),
                thread_ids=(uid(94),),
            ),
        )
    )
    roles = [[issue.role for issue in row.errors] for row in rows]
    assert roles == [
        ["scene_participant"],
        ["observation_speaker"],
        ["derived_source_observation", "derived_thread"],
    ]


def test_positions_are_unique_within_an_episode(rig: Rig) -> None:
    rig.memory.commit(plan(episode(1, "tea"), observation(2, 1, "first", 0)))
    rows = rig.memory.validate_plan(
        plan(
            observation(2, 1, "first", 0),
            observation(3, 1, "taken", 0),
            observation(4, 1, "free", 1),
            observation(5, 1, "taken too", 1),
        )
    )
    assert [errors(row) for row in rows] == [[], ["duplicate_position"], [], ["duplicate_position"]]


def test_a_typed_id_is_planned_once_and_another_type_may_share_it(memory: CharacterMemory) -> None:
    assert verdicts(memory, notion(1), notion(1), episode(1, "tea"), notion(1)) == [
        [],
        ["duplicate_candidate_id"],
        [],
        ["duplicate_candidate_id"],
    ]


def test_a_hand_made_candidate_must_bring_scene_position_and_episode(memory: CharacterMemory) -> None:
    sceneless = complete(EpisodeDraft(id=uid(1), summary="tea"))
    placeless = complete(ObservationDraft(id=uid(2), text="hello"))
    assert verdicts(memory, sceneless, placeless) == [
        ["missing_scene"],
        ["missing_observation_position", "missing_episode_reference"],
    ]


def test_a_present_but_blank_schema_version_is_reported_twice(memory: CharacterMemory) -> None:
    blank = notion(1).replace(schema_version=" ")
    assert verdicts(memory, blank) == [["missing_candidate_schema_version", "missing_object_schema_version"]]


def test_every_error_reads_as_a_sentence_that_names_the_candidate(rig: Rig) -> None:
    refused = plan(
        naming(1, 9, " "),
        belief(2, "x", (8,)),
        link(uid(3), notion_ref(7), RelationType.ABOUT, notion_ref(7)),
    )
    with pytest.raises(WritePlanValidationRejected) as caught:
        rig.memory.commit(refused)
    assert str(caught.value) == (
        "the plan was rejected, nothing was written: "
        f"candidate 0: the name asserted of {uid(9)} is blank; "
        f"candidate 1: belief_subject: entity {uid(8)} is neither stored nor planned; "
        f"candidate 2: entity {uid(7)} refers to itself"
    )
