"""`remember`: prepare and commit in one call (core-62)."""

from __future__ import annotations

import pytest

from charactermemory.errors import InvalidInput, WritePlanValidationRejected
from charactermemory.ids import ObjectType
from charactermemory.memory import RememberOptions
from charactermemory.remember.outcome import CommitOptions
from charactermemory.remember.plan import CandidateValidation, CandidateValidationStatus
from charactermemory.remember.prepare import RememberInput
from tests.support.plans import notion, notion_ref, plan, uid
from tests.support.rig import Rig

BLANK = "the text is blank; give it words, or leave out what says nothing"


@pytest.mark.spec("core-62")
def test_an_unknown_hint_rejects_the_whole_input(rig: Rig) -> None:
    rig.memory.commit(plan(notion(1)))
    before = rig.contents()
    with pytest.raises(WritePlanValidationRejected) as caught:
        rig.memory.remember(RememberInput(content="hello", entity_ids=(uid(1), uid(9))))
    rows = caught.value.validations
    assert all(isinstance(row, CandidateValidation) for row in rows)
    invalid = [row for row in rows if row.status is CandidateValidationStatus.INVALID]  # type: ignore[attr-defined]
    [row] = invalid
    assert row.candidate_kind == "memory_link"  # type: ignore[attr-defined]
    assert row.candidate_index == 3  # type: ignore[attr-defined]
    [issue] = row.errors  # type: ignore[attr-defined]
    assert (issue.kind, issue.role, issue.referenced) == (
        "unknown_object_ref",
        "memory_link_to",
        notion_ref(9),
    )
    assert rig.contents() == before


# --- beyond the numbered cases ---------------------------------------------------------------------


def test_a_text_is_remembered_in_one_call(rig: Rig) -> None:
    outcome = rig.memory.remember("Ada planted beans.")
    made, noticed = outcome.persisted_object_ids
    assert (made.object_type, noticed.object_type) == (ObjectType.EPISODE, ObjectType.OBSERVATION)
    assert outcome.persisted_link_ids == ()
    assert outcome.complete
    assert rig.stored(made).object.summary is None
    assert rig.stored(noticed).object.text == "Ada planted beans."
    assert rig.points() == {noticed: "Ada planted beans."}


def test_options_reach_both_halves(rig: Rig) -> None:
    options = RememberOptions(commit=CommitOptions(update_vectors=False, update_stats=False))
    outcome = rig.memory.remember("Ada planted beans.", options)
    assert rig.points() == {}
    assert rig.backlog() == (1, 1)
    assert set(outcome.pending) == set(outcome.persisted_object_ids)


def test_an_outcome_can_be_kept_as_json(rig: Rig) -> None:
    rig.embedder.fail("bulk_generate_embeddings", RuntimeError("gone"))
    outcome = rig.memory.remember("Ada planted beans.")
    assert outcome.repair_needed
    read_back = type(outcome).from_json(outcome.to_json())
    assert read_back == outcome
    assert "Ada" not in outcome.to_json()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("be\0ans", "NUL at character 2 cannot be stored"),
        ("be\ud800ans", "a lone surrogate at character 2 cannot be stored"),
        ("", BLANK),
        (" \t\r\n\u3000", BLANK),
        ("\u200b\u200d\u2060\ufeff", BLANK),
        ("b" * 50_001, "String should have at most 50000 characters"),
    ],
)
def test_a_text_that_cannot_be_kept_is_refused_before_anything_is_written(
    rig: Rig, text: str, problem: str
) -> None:
    before = rig.contents()
    with pytest.raises(InvalidInput) as caught:
        rig.memory.remember(text)
    assert caught.value.problems == (("/content", problem),)
    assert rig.contents() == before
