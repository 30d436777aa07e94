"""Correcting a belief: what is stored beside it, and what is refused (core-71 to core-78, 86 to 88)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from charactermemory.domain.beliefs import BeliefAssertion
from charactermemory.domain.kinds import DerivedType, RelationType
from charactermemory.domain.lifecycle import LifecyclePolicy
from charactermemory.domain.objects import DerivedMemory
from charactermemory.domain.provenance import ExternalSourceReference, SourceProvenanceReference
from charactermemory.errors import (
    CascadeTooLarge,
    GivenWithSources,
    GraphExpansionRootNotFound,
    InvalidScore,
    LifecycleDraftInvalid,
)
from charactermemory.ids import ObjectType, about_link_id, supersedes_link_id
from charactermemory.revise import correct as correct_module
from charactermemory.revise.drafts import CorrectionTarget, CorrectMemoryDraft
from charactermemory.revise.outcome import LifecycleTrace, SupersededBy
from tests.revise.drafts import (
    ORIGIN,
    correction,
    forgetting,
    lines_naming,
    lines_of,
    nothing_written,
    replacement,
    sourced,
)
from tests.support.plans import (
    episode,
    link_ref,
    memory_ref,
    naming,
    notion,
    observation,
    plan,
    thread,
    uid,
)
from tests.support.rig import Rig

NOTION, NOTION_2, THREAD, THREAD_2 = 0xA1, 0xA2, 0xB1, 0xB2
EPISODE, SAID, EPISODE_2 = 0xE1, 0xD1, 0xE2
SOURCED, GIVEN, OTHER = 0x10, 0x11, 0x12
NEW = 0x20


@pytest.fixture
def world(rig: Rig) -> Rig:
    """Two episodes, two notions, two threads; a sourced belief, a given one with a name, another sourced one."""
    rig.memory.commit(
        plan(
            notion(NOTION),
            notion(NOTION_2),
            thread(THREAD),
            thread(THREAD_2, "Weather"),
            episode(EPISODE, "We spoke of cats."),
            observation(SAID, EPISODE, "Mimi is a cat."),
            episode(EPISODE_2, "We met again."),
            sourced(
                SOURCED,
                "Mimi is a cat.",
                episodes=(EPISODE,),
                about=(NOTION,),
                thread_ids=(uid(THREAD),),
                salience_score=0.4,
            ),
            naming(GIVEN, NOTION_2, "Mimi", salience_score=0.8),
            sourced(
                OTHER,
                "Mimi is grey.",
                observations=(SAID,),
                about=(NOTION_2,),
                thread_ids=(uid(THREAD_2),),
                salience_score=0.7,
            ),
        )
    )
    return rig


def stored(rig: Rig, number: int) -> DerivedMemory:
    found = rig.stored(memory_ref(number)).object
    assert isinstance(found, DerivedMemory)
    return found


@pytest.mark.spec("core-71")
@pytest.mark.parametrize("trace", [False, True])
def test_a_replacement_is_stored_beside_what_it_supersedes(world: Rig, trace: bool) -> None:
    before, lines = world.stored(memory_ref(SOURCED)), lines_of(world, memory_ref(SOURCED))
    new = replacement("Mimi is a dog.", id=uid(NEW), derived_from_episode_ids=(uid(EPISODE_2),))

    outcome = world.memory.correct(correction(SOURCED, replacements=(new,), include_trace=trace))

    made = stored(world, NEW)
    assert (made.text, made.derived_type) == ("Mimi is a dog.", DerivedType.CLAIM)
    assert made.derived_from_episode_ids == (uid(EPISODE_2),)
    assert made.supersedes == (uid(SOURCED),)
    assert made.entity_ids == (uid(NOTION),), "taken over, for the draft names none"
    assert made.thread_ids == (uid(THREAD),)
    assert world.stored(memory_ref(NEW)).current

    link = world.stored(link_ref(supersedes_link_id(uid(NEW), uid(SOURCED)))).object
    assert (link.source, link.relation, link.target) == (
        memory_ref(NEW),
        RelationType.SUPERSEDES,
        memory_ref(SOURCED),
    )

    after = world.stored(memory_ref(SOURCED))
    assert after.object == before.object
    assert not after.suppressed
    assert after.superseded_by == (uid(NEW),)
    assert lines_of(world, memory_ref(SOURCED)) == lines
    assert memory_ref(SOURCED) not in world.points()
    assert memory_ref(NEW) in world.points()

    links = (supersedes_link_id(uid(NEW), uid(SOURCED)), about_link_id(uid(NEW), uid(NOTION)))
    assert outcome.graph_mutated_object_ids == (memory_ref(NEW),)
    assert outcome.graph_mutated_link_ids == tuple(sorted(map(link_ref, links)))
    assert outcome.vector_maintained_object_ids == (memory_ref(SOURCED), memory_ref(NEW))
    assert outcome.complete
    expected = LifecycleTrace(
        requested_targets=(memory_ref(SOURCED),),
        superseded_by=(SupersededBy(superseded_id=uid(SOURCED), successor_id=uid(NEW)),),
    )
    assert outcome.trace == (expected if trace else None)


BLANK = SourceProvenanceReference(external_refs=(ExternalSourceReference.raw(" \t"),))
NOWHERE = SourceProvenanceReference()
GROUNDED = {"derived_from_episode_ids": (uid(EPISODE),)}


UNSOUND: list[tuple[CorrectMemoryDraft, str, str]] = [
    (correction(SOURCED, rationale=" \n"), "empty_rationale", "rationale"),
    (correction(), "missing_correction_target", "targets"),
    (correction(SOURCED, correction_origin=NOWHERE), "empty_correction_origin", "correction_origin"),
    (correction(SOURCED, correction_origin=BLANK), "empty_correction_origin", "correction_origin"),
    (
        correction(
            SOURCED,
            replacements=(replacement("x", correction_origin_provenance=NOWHERE, **GROUNDED),),
        ),
        "empty_correction_origin",
        "replacement_derived_memories[0]",
    ),
    (
        correction(
            SOURCED,
            replacements=(
                replacement("x", **GROUNDED),
                replacement("x", correction_origin_provenance=BLANK, **GROUNDED),
            ),
        ),
        "empty_correction_origin",
        "replacement_derived_memories[1]",
    ),
    (
        correction(SOURCED, replacements=(replacement(" ", **GROUNDED),)),
        "empty_replacement_text",
        "replacement_derived_memories[0]",
    ),
    (
        correction(SOURCED, replacements=(replacement("It rests on nothing."),)),
        "missing_replacement_source",
        "replacement_derived_memories[0]",
    ),
]


@pytest.mark.spec("core-72")
def test_an_unsound_draft_is_refused_before_anything_is_read(world: Rig) -> None:
    ports = (world.graph, world.vectors, world.statistics, world.embedder)
    calls = (world.memory.correct, world.memory.plan_correction)
    for (draft, kind, named), call in itertools.product(UNSOUND, calls):
        with nothing_written(world):
            for port in ports:
                port.calls.clear()
            with pytest.raises(LifecycleDraftInvalid) as caught:
                call(draft)
            assert [port.names() for port in ports] == [[], [], [], []]
            assert world.connection.names() == []
        assert caught.value.kind == kind
        assert named in str(caught.value)


ABSENT: list[tuple[CorrectMemoryDraft, tuple[ObjectType, Any]]] = [
    (correction(0x99), (ObjectType.DERIVED_MEMORY, uid(0x99))),
    (correction(SOURCED, 0x99), (ObjectType.DERIVED_MEMORY, uid(0x99))),
    (
        correction(SOURCED, superseded_derived_memory_ids=(uid(0x98),)),
        (ObjectType.DERIVED_MEMORY, uid(0x98)),
    ),
    (
        correction(targets=(CorrectionTarget.episode(uid(0x97), raw_ref="raw:1"),)),
        (ObjectType.EPISODE, uid(0x97)),
    ),
    (
        correction(targets=(CorrectionTarget.observation(uid(0x96), source_ref="chat:1"),)),
        (ObjectType.OBSERVATION, uid(0x96)),
    ),
    (correction(EPISODE), (ObjectType.DERIVED_MEMORY, uid(EPISODE))),
]


@pytest.mark.spec("core-73")
def test_an_absent_target_stops_everything(world: Rig) -> None:
    for (draft, missing), call in itertools.product(
        ABSENT, (world.memory.correct, world.memory.plan_correction)
    ):
        with nothing_written(world), pytest.raises(GraphExpansionRootNotFound) as caught:
            call(draft)
        assert (caught.value.object_type, caught.value.object_id) == missing


@pytest.mark.spec("core-74")
def test_without_a_replacement_a_default_one_says_the_rationale(world: Rig) -> None:
    outcome = world.memory.correct(correction(SOURCED, OTHER, GIVEN, rationale="There is no Mimi."))

    (ref,) = outcome.graph_mutated_object_ids
    made = world.stored(ref).object
    assert made.derived_type is DerivedType.CORRECTION
    assert made.text == "There is no Mimi."
    assert made.thread_ids == (uid(THREAD), uid(THREAD_2))
    assert made.entity_ids == (uid(NOTION), uid(NOTION_2))
    assert made.salience_score == 0.8
    assert made.assertions == ()
    assert made.given_by_application is False
    assert made.derived_from_episode_ids == (uid(EPISODE),)
    assert made.derived_from_observation_ids == (uid(SAID),)
    assert made.supersedes == (uid(SOURCED), uid(GIVEN), uid(OTHER))
    assert stored(world, GIVEN).assertions, "the corrected belief had an assertion to inherit"
    assert [world.stored(memory_ref(n)).superseded_by for n in (SOURCED, GIVEN, OTHER)] == [(ref.id,)] * 3


@pytest.mark.spec("core-75")
def test_a_given_belief_needs_a_replacement_that_is_given(world: Rig) -> None:
    with nothing_written(world), pytest.raises(LifecycleDraftInvalid) as caught:
        world.memory.correct(correction(GIVEN))
    assert caught.value.kind == "missing_given_replacement"

    given = replacement("It is called Momo.", given_by_application=True, entity_ids=(uid(NOTION_2),))
    draft = correction(GIVEN, replacements=(given,))
    outcome = world.memory.correct(draft)
    (ref,) = outcome.graph_mutated_object_ids
    assert world.stored(ref).object.given_by_application
    assert world.stored(memory_ref(GIVEN)).superseded_by == (ref.id,)

    triples = world.triples()
    replayed = world.memory.correct(draft)
    assert replayed.graph_mutated_object_ids == ()
    assert replayed.graph_mutated_link_ids == ()
    assert world.triples() == triples


def test_a_given_belief_beside_a_sourced_one_is_answered_by_a_default(world: Rig) -> None:
    outcome = world.memory.correct(correction(GIVEN, SOURCED))
    (ref,) = outcome.graph_mutated_object_ids
    assert world.stored(ref).object.derived_from_episode_ids == (uid(EPISODE),)


@pytest.mark.spec("core-76")
def test_a_given_replacement_cannot_rest_on_an_episode(world: Rig) -> None:
    given = replacement("It is called Momo.", given_by_application=True, entity_ids=(uid(NOTION_2),))
    origin = ORIGIN.replace(episode_ids=(uid(EPISODE),))
    with nothing_written(world), pytest.raises(LifecycleDraftInvalid) as caught:
        world.memory.correct(correction(GIVEN, replacements=(given,), correction_origin=origin))
    assert caught.value.kind == "invalid_belief"
    assert isinstance(caught.value.belief, GivenWithSources)


@pytest.mark.spec("core-77")
def test_a_given_replacement_inherits_no_sources(world: Rig) -> None:
    given = replacement("Mimi is a dog.", id=uid(NEW), given_by_application=True, entity_ids=(uid(NOTION),))
    world.memory.correct(correction(SOURCED, replacements=(given,)))
    made = stored(world, NEW)
    assert stored(world, SOURCED).derived_from_episode_ids == (uid(EPISODE),)
    assert made.given_by_application
    assert made.derived_from_episode_ids == ()
    assert made.derived_from_observation_ids == ()


@pytest.mark.spec("core-78")
def test_an_episode_is_no_subject(world: Rig) -> None:
    wrong = replacement("x", derived_from_episode_ids=(uid(EPISODE),), entity_ids=(uid(EPISODE),))
    with nothing_written(world), pytest.raises(GraphExpansionRootNotFound) as caught:
        world.memory.correct(correction(SOURCED, replacements=(wrong,)))
    assert (caught.value.object_type, caught.value.object_id) == (ObjectType.ENTITY, uid(EPISODE))


def test_a_score_out_of_range_is_refused(world: Rig) -> None:
    wrong = replacement("x", derived_from_episode_ids=(uid(EPISODE),), salience_score=1.01)
    with nothing_written(world), pytest.raises(InvalidScore, match="1.01"):
        world.memory.correct(correction(SOURCED, replacements=(wrong,)))


@pytest.mark.spec("core-86")
def test_repeated_ids_are_stored_once_and_sorted(world: Rig) -> None:
    new = replacement(
        "Mimi is many things.",
        id=uid(NEW),
        derived_from_episode_ids=(uid(EPISODE_2), uid(EPISODE), uid(EPISODE_2)),
        derived_from_observation_ids=(uid(SAID), uid(SAID)),
        thread_ids=(uid(THREAD_2), uid(THREAD), uid(THREAD_2)),
        entity_ids=(uid(NOTION_2), uid(NOTION), uid(NOTION_2)),
        supersedes=(uid(OTHER), uid(OTHER), uid(SOURCED)),
    )
    draft = correction(SOURCED, replacements=(new,), superseded_derived_memory_ids=(uid(OTHER), uid(OTHER)))
    world.memory.correct(draft)

    made = stored(world, NEW)
    assert made.derived_from_episode_ids == (uid(EPISODE), uid(EPISODE_2))
    assert made.derived_from_observation_ids == (uid(SAID),)
    assert made.thread_ids == (uid(THREAD), uid(THREAD_2))
    assert made.entity_ids == (uid(NOTION), uid(NOTION_2))
    assert made.supersedes == (uid(SOURCED), uid(OTHER))

    triples = world.triples()
    replayed = world.memory.correct(draft)
    assert (replayed.graph_mutated_object_ids, replayed.graph_mutated_link_ids) == ((), ())
    assert world.triples() == triples
    assert stored(world, NEW) == made


@pytest.mark.spec("core-87")
def test_a_superseded_memory_may_be_corrected_again(world: Rig) -> None:
    for number, text in ((NEW, "Mimi is a dog."), (NEW + 1, "Mimi is a bird.")):
        new = replacement(text, id=uid(number), derived_from_episode_ids=(uid(EPISODE),))
        outcome = world.memory.correct(correction(SOURCED, replacements=(new,)))
        assert outcome.graph_mutated_object_ids == (memory_ref(number),)
        assert outcome.diagnostics.warnings == ()
    assert stored(world, NEW).text == "Mimi is a dog."
    assert stored(world, NEW + 1).text == "Mimi is a bird."
    assert world.stored(memory_ref(NEW)).current
    assert world.stored(memory_ref(NEW + 1)).current
    assert world.stored(memory_ref(SOURCED)).superseded_by == (uid(NEW), uid(NEW + 1))


def recalled_as(rig: Rig, number: int) -> set[str]:
    """Why recall leaves a memory out that it meets beside others; it must not return it."""
    outcome = rig.memory.retrieve("We spoke of cats.")
    assert memory_ref(number) not in [item.object for item in outcome.pack.admissions]
    decided = outcome.rationale.lifecycle_filter_decisions
    return {row.reason.value for row in decided if row.object == memory_ref(number)}


@pytest.mark.spec("core-88")
def test_forgetting_the_successor_leaves_the_predecessor_superseded(world: Rig) -> None:
    new = replacement("Mimi is a dog.", id=uid(NEW), derived_from_episode_ids=(uid(EPISODE),))
    world.memory.correct(correction(SOURCED, replacements=(new,)))
    world.memory.forget(forgetting(memory_ref(NEW)))

    policy = LifecyclePolicy()
    assert recalled_as(world, SOURCED) == {"superseded_omitted"}
    before = world.stored(memory_ref(SOURCED))
    assert before.superseded
    assert before.superseded_by == (uid(NEW),)
    assert not before.suppressed
    assert before.omitted_as(policy) == "superseded"

    world.memory.forget(forgetting(memory_ref(SOURCED)))
    after = world.stored(memory_ref(SOURCED))
    assert after.superseded_by == (uid(NEW),)
    assert after.omitted_as(policy) == "suppressed"
    assert recalled_as(world, SOURCED) == {"suppressed_omitted"}


def test_the_plan_of_a_correction_says_what_it_does_and_writes_nothing(world: Rig) -> None:
    new = replacement("Mimi is a dog.", derived_from_episode_ids=(uid(EPISODE),))
    draft = correction(SOURCED, OTHER, replacements=(new,), include_trace=True)
    for _ in ("first", "retry"):
        with nothing_written(world):
            planned = world.memory.plan_correction(draft)
        assert planned == world.memory.correct(draft)
    assert planned.graph_mutated_object_ids == ()
    assert planned.trace is not None
    assert planned.trace.superseded_by == ()


def test_a_correction_that_reaches_too_far_is_refused_and_its_plan_lists_it(
    world: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One replacement, two notions, three predecessors: six objects."""
    draft = correction(SOURCED, OTHER, GIVEN)
    monkeypatch.setattr(correct_module, "MAX_OBJECTS", 5)
    with nothing_written(world), pytest.raises(CascadeTooLarge) as caught:
        world.memory.correct(draft)
    assert (caught.value.count, caught.value.limit) == (3, 2)
    with nothing_written(world):
        planned = world.memory.plan_correction(draft)
    assert {memory_ref(n) for n in (SOURCED, OTHER, GIVEN)} < {*planned.vector_maintained_object_ids}

    monkeypatch.setattr(correct_module, "MAX_OBJECTS", 6)
    assert world.memory.correct(draft) == planned


def test_the_correction_leaves_one_event_that_says_who_asked_and_why(world: Rig) -> None:
    draft = correction(SOURCED, rationale="There is no Mimi.", requested_by="user:7")
    world.memory.correct(draft)
    events = [line for line in world.triples() if line.startswith(b"<urn:charactermemory:event:")]
    assert len(lines_naming(world, "urn:charactermemory:event:", "vocab:LifecycleEvent>")) == 1
    text = b"".join(events).decode()
    for word in ("There is no Mimi.", "user:7", "app:settings", f"derived_memory:{uid(SOURCED)}"):
        assert word in text
    assert "suppresses" not in text


def test_a_belief_that_replaces_a_name_names_anew(world: Rig) -> None:
    renamed = replacement(
        "It is called Momo.",
        given_by_application=True,
        entity_ids=(uid(NOTION_2),),
        assertions=(BeliefAssertion.known_as(uid(NOTION_2), "Momo"),),
    )
    world.memory.correct(correction(GIVEN, replacements=(renamed,)))
    assert world.named("Momo") == (uid(NOTION_2),)
    assert world.named("Mimi") == ()
