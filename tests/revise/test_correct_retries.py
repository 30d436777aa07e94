"""Corrections that are repeated, that start from a source, or whose ids meet (core-79 to core-85)."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest

from charactermemory.domain.kinds import DerivedType
from charactermemory.domain.objects import DerivedMemory
from charactermemory.errors import (
    MissingOriginalSourceReference,
    OriginalSourceReferenceMismatch,
    ReplacementIdentityConflict,
    VectorDatabaseError,
)
from charactermemory.ids import MemoryId, MemoryObjectRef, replacement_id
from charactermemory.revise.drafts import (
    CorrectionCascade,
    CorrectionTarget,
    CorrectMemoryDraft,
    ReplacementDerivedMemoryDraft,
)
from charactermemory.revise.grounding import seed_of
from charactermemory.revise.outcome import LifecycleMutationOutcome
from tests.revise.drafts import (
    correction,
    forgetting,
    lines_of,
    nothing_written,
    replacement,
    sourced,
)
from tests.support.plans import (
    belief,
    episode,
    episode_ref,
    memory_ref,
    notion,
    observation,
    observation_ref,
    plan,
    thread,
    uid,
)
from tests.support.rig import Rig

NOTION, NOTION_2, THREAD = 0xA1, 0xA2, 0xB1
EPISODE, SAID, ELSEWHERE = 0xE1, 0xD1, 0xE2
HELD, BY_OBSERVATION, APART, APART_2 = 0x10, 0x11, 0x12, 0x13
NEW = 0x20


@pytest.fixture
def world(rig: Rig) -> Rig:
    """An episode with its source named, a memory from it, one from its observation, and two from elsewhere."""
    rig.memory.commit(
        plan(
            notion(NOTION),
            notion(NOTION_2),
            thread(THREAD),
            episode(EPISODE, "We spoke of cats.", raw_ref="raw:1", source_conversation_id="chat:1"),
            observation(SAID, EPISODE, "Mimi is a cat.", raw_ref="raw:1#0"),
            episode(ELSEWHERE, "We met again."),
            sourced(
                HELD,
                "Mimi is a cat.",
                episodes=(EPISODE,),
                about=(NOTION,),
                thread_ids=(uid(THREAD),),
                salience_score=0.9,
            ),
            sourced(BY_OBSERVATION, "Mimi is grey.", observations=(SAID,)),
            sourced(APART, "Momo is a dog.", episodes=(ELSEWHERE,)),
            sourced(APART_2, "Momo barks.", episodes=(ELSEWHERE,)),
        )
    )
    return rig


def source_correction(**fields: Any) -> CorrectMemoryDraft:
    """A correction of the episode, and so of what was taken from it."""
    target = CorrectionTarget.episode(uid(EPISODE), raw_ref="raw:1")
    return correction(**({"targets": (target,), "rationale": "None of it was so."} | fields))


def grounded(text: str, **fields: Any) -> ReplacementDerivedMemoryDraft:
    return replacement(text, **({"derived_from_episode_ids": (uid(EPISODE),)} | fields))


def stored(rig: Rig, id: MemoryId) -> DerivedMemory:
    found = rig.stored(MemoryObjectRef.of(memory_ref(0).object_type, id)).object
    assert isinstance(found, DerivedMemory)
    return found


def new_ids(outcome: LifecycleMutationOutcome) -> list[UUID]:
    return [ref.id for ref in outcome.graph_mutated_object_ids]


def nothing_mutated(outcome: LifecycleMutationOutcome) -> bool:
    return (outcome.graph_mutated_object_ids, outcome.graph_mutated_link_ids) == ((), ())


@pytest.mark.spec("core-79")
def test_the_id_of_a_replacement_follows_from_what_is_corrected(world: Rig) -> None:
    draft = correction(HELD, replacements=(grounded("one"), grounded("two")))

    def planned(other: CorrectMemoryDraft) -> set[UUID]:
        return set(new_ids(world.memory.plan_correction(other)))

    ids = planned(draft)
    assert len(ids) == 2
    first, second = (replacement_id(seed_of(draft), index) for index in (0, 1))
    assert ids == {first, second}
    equal = CorrectMemoryDraft.model_validate_json(draft.model_dump_json())
    assert equal is not draft
    assert planned(equal) == ids

    assert not planned(draft.replace(replacement_derived_memories=(grounded("one"), grounded("2")))) & ids
    assert not planned(draft.replace(rationale="for another reason")) & ids

    for same in (
        draft.replace(include_trace=True),
        draft.replace(cascade_policy=CorrectionCascade(apply_to_provenanced_derived_memories=False)),
        draft.replace(requested_by="user:7"),
    ):
        assert planned(same) == ids
    supplied = draft.replace(
        replacement_derived_memories=(grounded("one", id=uid(NEW)), grounded("two")),
    )
    assert planned(supplied) == {uid(NEW), second}, "the other one's id is as it was"

    assert set(new_ids(world.memory.correct(draft))) == ids
    assert nothing_mutated(world.memory.correct(equal)), "equal drafts, equal ids"
    assert stored(world, first).text == "one"
    assert stored(world, second).text == "two"


def test_the_seed_is_made_of_the_canonical_form() -> None:
    """The minimal case."""
    origin = {"external_refs": [{"source_ref": "app:x"}]}
    draft = CorrectMemoryDraft.model_validate_json(
        json.dumps(
            {
                "targets": [{"kind": "derived_memory", "id": str(uid(1))}],
                "rationale": "r",
                "correction_origin": origin,
            }
        )
    )
    assert seed_of(draft) == UUID("5e29e419-6e56-57af-b03d-adbef17ae557")
    assert replacement_id(seed_of(draft), 0) == UUID("01d2ce46-7ebc-59a6-b654-04c11d1e8c0a")


@pytest.mark.spec("core-80")
def test_an_id_is_given_once_and_kept_for_one_content(world: Rig) -> None:
    twice = correction(HELD, replacements=(grounded("one", id=uid(NEW)), grounded("two", id=uid(NEW))))
    with nothing_written(world), pytest.raises(ReplacementIdentityConflict) as caught:
        world.memory.correct(twice)
    assert (caught.value.replacement_id, caught.value.reason) == (uid(NEW), "duplicate_in_plan")

    draft = correction(HELD, replacements=(grounded("one"),))
    deterministic = replacement_id(seed_of(draft), 0)
    taken = sourced(0, "another text", episodes=(EPISODE,)).replace(id=deterministic)
    world.memory.commit(plan(taken))
    with nothing_written(world), pytest.raises(ReplacementIdentityConflict) as caught:
        world.memory.correct(draft)
    assert (caught.value.replacement_id, caught.value.reason) == (deterministic, "divergent_existing")
    assert stored(world, deterministic).text == "another text"


def test_a_replacement_that_was_forgotten_is_not_brought_back(world: Rig) -> None:
    draft = correction(HELD, replacements=(grounded("one", id=uid(NEW)),))
    world.memory.correct(draft)
    world.memory.forget(forgetting(memory_ref(NEW)))
    with nothing_written(world), pytest.raises(ReplacementIdentityConflict) as caught:
        world.memory.correct(draft)
    assert caught.value.reason == "divergent_existing"
    assert "forgotten" in str(caught.value)
    assert world.stored(memory_ref(NEW)).suppressed


@pytest.mark.spec("core-81")
def test_a_retry_deletes_the_vector_that_the_first_run_could_not(world: Rig) -> None:
    draft = correction(HELD, replacements=(grounded("one", id=uid(NEW)),))
    world.vectors.fail("write", VectorDatabaseError("edge", "engine", "full"))
    first = world.memory.correct(draft)

    assert first.vector_maintenance_failure is not None
    (failure,) = first.vector_maintenance_failure.failures
    assert (failure.operation, failure.objects) == ("delete", (memory_ref(HELD),))
    assert failure.cause.cause == "vector_database"
    assert first.repair_needed == (first.vector_maintenance_failure,)
    assert first.vector_maintained_object_ids == (memory_ref(NEW),), "the upsert went on"
    assert {memory_ref(HELD), memory_ref(NEW)} <= world.points().keys()

    triples = world.triples()
    world.connection.calls.clear()
    retried = world.memory.correct(draft)
    assert "update" not in world.connection.names()
    assert world.triples() == triples
    assert nothing_mutated(retried)
    assert retried.vector_maintained_object_ids == (memory_ref(HELD), memory_ref(NEW))
    assert retried.complete
    assert memory_ref(HELD) not in world.points()
    assert memory_ref(NEW) in world.points()


@pytest.mark.spec("core-82")
def test_a_source_correction_retried_finds_its_own_work_done(world: Rig) -> None:
    draft = source_correction(include_trace=True)
    (made,) = new_ids(world.memory.correct(draft))
    replaced = stored(world, made)
    assert replaced.supersedes == (uid(HELD), uid(BY_OBSERVATION))
    assert world.graph.memories_from([uid(EPISODE)], [uid(SAID)]) == (uid(HELD), uid(BY_OBSERVATION), made)
    assert world.stored(MemoryObjectRef.of(memory_ref(0).object_type, made)).current

    triples = world.triples()
    retried = world.memory.correct(draft)
    assert nothing_mutated(retried)
    assert world.triples() == triples
    assert stored(world, made) == replaced
    assert retried.trace is not None
    assert retried.trace.superseded_by == ()
    maintained = (
        memory_ref(HELD),
        memory_ref(BY_OBSERVATION),
        MemoryObjectRef.of(memory_ref(0).object_type, made),
    )
    assert retried.vector_maintained_object_ids == tuple(sorted(maintained))


@pytest.mark.spec("core-82")
def test_two_replacements_of_a_source_correction_keep_their_ancestors_apart(world: Rig) -> None:
    draft = source_correction(
        replacement_derived_memories=(
            grounded("one", id=uid(NEW), supersedes=(uid(APART),), entity_ids=(uid(NOTION_2),)),
            grounded("two", id=uid(NEW + 1), supersedes=(uid(APART_2),)),
        )
    )
    world.memory.correct(draft)
    one, two = stored(world, uid(NEW)), stored(world, uid(NEW + 1))
    assert one.supersedes == (uid(HELD), uid(BY_OBSERVATION), uid(APART))
    assert two.supersedes == (uid(HELD), uid(BY_OBSERVATION), uid(APART_2))
    assert (one.entity_ids, two.entity_ids) == ((uid(NOTION_2),), (uid(NOTION),))

    triples = world.triples()
    assert nothing_mutated(world.memory.correct(draft))
    assert world.triples() == triples
    assert [stored(world, uid(NEW)), stored(world, uid(NEW + 1))] == [one, two]


@pytest.mark.spec("core-83")
def test_a_source_is_named_as_it_is_stored(world: Rig) -> None:
    for target in (
        CorrectionTarget.episode(uid(EPISODE)),
        CorrectionTarget.observation(uid(SAID), raw_ref=" ", source_ref="\t"),
    ):
        unnamed = correction(targets=(CorrectionTarget.derived_memory(uid(HELD)), target))
        ports = (world.graph, world.vectors, world.statistics, world.connection)
        with nothing_written(world):
            for port in ports:
                port.calls.clear()
            with pytest.raises(MissingOriginalSourceReference) as missing:
                world.memory.correct(unnamed)
            assert [port.names() for port in ports] == [[], [], [], []], "nothing was read"
        assert missing.value.target == target.ref

    for target, ref, kind, provided, kept in (
        (
            CorrectionTarget.episode(uid(EPISODE), raw_ref="raw:2"),
            episode_ref(EPISODE),
            "raw",
            "raw:2",
            "raw:1",
        ),
        (
            CorrectionTarget.episode(uid(EPISODE), raw_ref="raw:1", source_ref="chat:2"),
            episode_ref(EPISODE),
            "source",
            "chat:2",
            "chat:1",
        ),
        (
            CorrectionTarget.observation(uid(SAID), source_ref="chat:2"),
            observation_ref(SAID),
            "source",
            "chat:2",
            "chat:1",
        ),
        (
            CorrectionTarget.episode(uid(ELSEWHERE), raw_ref="raw:2"),
            episode_ref(ELSEWHERE),
            "raw",
            "raw:2",
            None,
        ),
    ):
        with nothing_written(world), pytest.raises(OriginalSourceReferenceMismatch) as caught:
            world.memory.correct(correction(targets=(target,)))
        error = caught.value
        assert (error.target, error.kind, error.provided, error.stored) == (ref, kind, provided, kept)

    right = CorrectionTarget.observation(uid(SAID), raw_ref="raw:1#0", source_ref="chat:1")
    (made,) = new_ids(world.memory.correct(correction(targets=(right,))))
    assert stored(world, made).derived_from_observation_ids == (uid(SAID),)


@pytest.mark.spec("core-84")
def test_correcting_an_episode_supersedes_what_rests_on_its_words(world: Rig) -> None:
    world.memory.commit(
        plan(
            sourced(0x14, "Mimi purrs.", observations=(SAID,)),
            sourced(0x15, "Mimi sleeps.", episodes=(EPISODE,)),
        )
    )
    world.memory.forget(forgetting(memory_ref(0x15)))
    world.memory.commit(plan(belief(0x16, "Mimi hums.", (NOTION,), supersedes=(uid(0x14),))))
    lines = lines_of(world, episode_ref(EPISODE))
    old = {number: world.stored(memory_ref(number)) for number in (0x14, 0x15)}

    (made,) = new_ids(world.memory.correct(source_correction()))

    assert stored(world, made).supersedes == (uid(HELD), uid(BY_OBSERVATION))
    assert world.stored(memory_ref(BY_OBSERVATION)).superseded_by == (made,)
    assert memory_ref(BY_OBSERVATION) not in world.points()
    assert lines_of(world, episode_ref(EPISODE)) == lines
    assert episode_ref(EPISODE) in world.points()
    assert {number: world.stored(memory_ref(number)) for number in (0x14, 0x15)} == old


def test_without_the_cascade_only_the_source_is_named(world: Rig) -> None:
    cascade = CorrectionCascade(apply_to_provenanced_derived_memories=False)
    (made,) = new_ids(world.memory.correct(source_correction(cascade_policy=cascade)))
    correcting = stored(world, made)
    assert correcting.supersedes == ()
    assert correcting.derived_type is DerivedType.CORRECTION
    assert correcting.derived_from_episode_ids == (uid(EPISODE),)
    assert world.stored(memory_ref(HELD)).current


@pytest.mark.spec("core-85")
def test_an_old_correction_replayed_after_a_newer_one_changes_nothing(world: Rig) -> None:
    first = correction(HELD, replacements=(grounded("B", id=uid(NEW)),))
    world.memory.correct(first)
    world.memory.correct(correction(NEW, replacements=(grounded("C", id=uid(NEW + 1)),)))
    assert memory_ref(NEW) not in world.points()

    triples = world.triples()
    replayed = world.memory.correct(first)
    assert nothing_mutated(replayed)
    assert world.triples() == triples
    assert memory_ref(NEW) not in world.points()
    assert memory_ref(HELD) not in world.points()
    assert memory_ref(NEW + 1) in world.points()
    assert replayed.complete
