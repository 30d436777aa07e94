"""How names are compared, on the stored graph (core-6 to core-11)."""

from __future__ import annotations

import json

import pytest

from charactermemory.domain.beliefs import BeliefAssertion
from charactermemory.domain.names import normalize_name
from charactermemory.errors import InvalidInput
from charactermemory.remember.plan import CandidateValidationStatus
from tests.support.plans import memory_ref, naming, notion, plan, uid
from tests.support.rig import Rig


def know(rig: Rig, *names: str) -> None:
    """Let notion 1, 2, … be known as these names, one each."""
    for number, name in enumerate(names, start=1):
        outcome = rig.memory.commit(plan(notion(number), naming(100 + number, number, name)))
        assert outcome.complete


@pytest.mark.spec("core-6")
def test_width_case_and_white_space_are_folded_for_the_lookup_only(rig: Rig) -> None:
    spelled = "  Ａｌｉｃｅ\u00a0  Smith  "
    know(rig, spelled)
    assert rig.named("alice smith") == (uid(1),)
    assert rig.named("ALICE   SMITH") == (uid(1),)
    assert rig.stored(memory_ref(101)).object.assertions[0].name == spelled


@pytest.mark.spec("core-7")
def test_letters_are_lowered_not_case_folded(rig: Rig) -> None:
    know(rig, "Straße")
    assert rig.named("STRAẞE") == (uid(1),)
    assert rig.named("STRASSE") == ()


@pytest.mark.spec("core-8")
def test_accents_scripts_and_punctuation_are_kept(rig: Rig) -> None:
    know(rig, "Éva", "アリス", "A-B", 'A"B\\C')
    assert rig.named("E\u0301VA") == (uid(1),)
    assert rig.named("ｱﾘｽ") == (uid(2),)
    assert rig.named("a-b") == (uid(3),)
    assert rig.named('a"b\\c') == (uid(4),)
    for other in ("Eva", "ありす", "AB", "", " \u00a0\t", "never heard"):
        assert rig.named(other) == ()


@pytest.mark.spec("core-9")
def test_a_name_of_white_space_only_is_invalid(rig: Rig) -> None:
    blank = plan(notion(1), naming(2, 1, "\u00a0\t\n\u00a0"))
    rows = rig.memory.validate_plan(blank)
    assert [row.status for row in rows] == [
        CandidateValidationStatus.VALID,
        CandidateValidationStatus.INVALID,
    ]
    [issue] = rows[1].errors
    assert (issue.kind, issue.reason) == ("invalid_belief", "empty_assertion_name")


@pytest.mark.spec("core-10")
def test_an_information_separator_is_no_white_space(rig: Rig) -> None:
    assert normalize_name("A\u001cB") == "a\u001cb"
    know(rig, "A\u001cB")
    assert rig.named("a\u001cb") == (uid(1),)
    assert rig.named("a b") == ()


@pytest.mark.spec("core-11")
def test_no_predicate_but_known_as_can_be_decoded() -> None:
    wire = {"subject": str(uid(1)), "predicate": "known_as", "name": "Bob"}
    assert BeliefAssertion.from_json(json.dumps(wire)) == BeliefAssertion.known_as(uid(1), "Bob")
    with pytest.raises(InvalidInput) as refused:
        BeliefAssertion.from_json(json.dumps(wire | {"predicate": "same_as"}))
    assert [pointer for pointer, _ in refused.value.problems] == ["/predicate"]
