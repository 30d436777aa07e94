"""Forgetting: what it reaches, what it leaves, and what it writes (core-89 to core-95)."""

from __future__ import annotations

import pytest

from charactermemory.domain.kinds import RelationType
from charactermemory.domain.lifecycle import Stored
from charactermemory.errors import (
    CascadeTooLarge,
    GraphExpansionRootNotFound,
    LifecycleDraftInvalid,
    VectorDatabaseError,
)
from charactermemory.ids import MemoryObjectRef, ObjectType
from charactermemory.recall.context import RetrievalContext
from charactermemory.remember.drafts import MemoryLinkDraft
from charactermemory.revise import forget as forget_module
from charactermemory.revise.drafts import (
    ForgetCascade,
    ForgetLifecyclePolicy,
    ForgetMemoryDraft,
    SuppressionPolicy,
)
from charactermemory.revise.outcome import LifecycleTrace, LifecycleWarning, LifecycleWarningReason
from tests.revise.drafts import forgetting, lines_naming, lines_of, nothing_written, sourced
from tests.support.plans import (
    belief,
    episode,
    episode_ref,
    link_ref,
    memory_ref,
    notion,
    notion_ref,
    observation,
    observation_ref,
    plan,
    thread,
    thread_ref,
    uid,
)
from tests.support.rig import Rig

NOTION, THREAD = 0xA1, 0xB1
EPISODE, SAID, SAID_2 = 0xE1, 0xD1, 0xD2
APART, APART_SAID = 0xE2, 0xD9
OLD, NEWER, BY_SAID, BY_APART = 0x10, 0x11, 0x12, 0x13

E = episode_ref(EPISODE)
WORDS = (observation_ref(SAID), observation_ref(SAID_2))
MEMBERS = (memory_ref(NEWER), memory_ref(BY_SAID))
EVERYTHING = tuple(sorted((E, *WORDS, *MEMBERS)))


@pytest.fixture
def world(rig: Rig) -> Rig:
    """An episode with two observations, memories from both, one superseded; and another episode beside it."""
    rig.memory.commit(
        plan(
            notion(NOTION),
            thread(THREAD),
            episode(EPISODE, "We spoke of cats."),
            observation(SAID, EPISODE, "Mimi is a cat."),
            observation(SAID_2, EPISODE, "Mimi is grey.", 1),
            sourced(OLD, "Mimi is a dog.", episodes=(EPISODE,)),
            sourced(BY_SAID, "Mimi purrs.", observations=(SAID,), about=(NOTION,)),
            episode(APART, "We met again."),
            observation(APART_SAID, APART, "It rains."),
            sourced(BY_APART, "Rain is wet.", episodes=(APART,)),
        )
    )
    rig.memory.commit(plan(sourced(NEWER, "Mimi is a cat.", episodes=(EPISODE,), supersedes=(uid(OLD),))))
    return rig


def suppressed(rig: Rig, *refs: MemoryObjectRef) -> list[MemoryObjectRef]:
    return [ref for ref in refs if rig.stored(ref).suppressed]


def events(rig: Rig) -> int:
    return len(lines_naming(rig, "urn:charactermemory:event:", "vocab:LifecycleEvent>"))


APART_REFS = (episode_ref(APART), observation_ref(APART_SAID), memory_ref(BY_APART), thread_ref(THREAD))


@pytest.mark.spec("core-89")
@pytest.mark.parametrize("with_words", [True, False])
def test_an_episode_is_forgotten_with_what_came_of_it(world: Rig, with_words: bool) -> None:
    old: Stored = world.stored(memory_ref(OLD))
    assert set(EVERYTHING) < world.points().keys()
    cascade = ForgetCascade(apply_to_observations=with_words)

    outcome = world.memory.forget(forgetting(E, cascade_policy=cascade))

    reached = EVERYTHING if with_words else tuple(sorted((E, *MEMBERS)))
    left = () if with_words else WORDS
    assert outcome.graph_mutated_object_ids == reached
    assert outcome.graph_mutated_link_ids == ()
    assert outcome.vector_maintained_object_ids == reached
    assert suppressed(world, *EVERYTHING) == [ref for ref in EVERYTHING if ref not in left]
    assert not set(reached) & world.points().keys()
    assert {*left, *APART_REFS} == world.points().keys()
    assert events(world) == 1

    assert world.stored(memory_ref(OLD)) == old
    assert not old.suppressed
    assert suppressed(world, *APART_REFS) == []
    assert outcome.complete


@pytest.mark.spec("core-90")
def test_a_cascade_that_leaves_a_chain_with_nothing_current_warns(world: Rig) -> None:
    world.memory.commit(
        plan(
            sourced(0x15, "Momo barks.", episodes=(APART,)),
            sourced(0x16, "Momo hums.", episodes=(APART,)),
        )
    )
    world.memory.commit(plan(sourced(0x09, "Momo sings.", observations=(SAID,), supersedes=(uid(0x15),))))

    direct = world.memory.plan_forget(forgetting(memory_ref(NEWER)))
    assert direct.diagnostics.warnings == ()
    both = world.memory.plan_forget(forgetting(E, memory_ref(NEWER)))
    assert [warning.affected_memory_ids for warning in both.diagnostics.warnings] == [(uid(0x09),)]

    outcome = world.memory.forget(forgetting(E))
    assert outcome.diagnostics.warnings == (
        LifecycleWarning(
            reason=LifecycleWarningReason("cascade-suppresses-current-replacement"),
            affected_memory_ids=(uid(0x09), uid(NEWER)),
        ),
    )

    direct = world.memory.forget(forgetting(memory_ref(NEWER)))
    assert direct.diagnostics.warnings == ()


@pytest.mark.spec("core-90")
def test_forgetting_a_replacement_itself_warns_of_nothing(world: Rig) -> None:
    outcome = world.memory.forget(forgetting(memory_ref(NEWER)))
    assert outcome.graph_mutated_object_ids == (memory_ref(NEWER),)
    assert outcome.diagnostics.warnings == ()


@pytest.mark.spec("core-91")
def test_the_switches_say_how_far_a_forget_goes(world: Rig) -> None:
    def policy(**switches: bool) -> ForgetLifecyclePolicy:
        return ForgetLifecyclePolicy(suppression=SuppressionPolicy(**switches))

    off = policy(suppress_target=False, suppress_derived_from_target=False)
    nowhere = ForgetCascade(apply_to_derived_from_target=False, apply_to_observations=False)
    with nothing_written(world):
        nothing = world.memory.forget(forgetting(E, lifecycle_policy=off, cascade_policy=nowhere))
    assert nothing.graph_mutated_object_ids == ()
    assert nothing.graph_mutated_link_ids == ()
    assert nothing.vector_maintained_object_ids == ()
    assert events(world) == 0
    assert suppressed(world, *EVERYTHING) == []

    outcome = world.memory.forget(forgetting(E, lifecycle_policy=policy(suppress_derived_from_target=False)))
    reached = tuple(sorted((E, *WORDS)))
    assert outcome.graph_mutated_object_ids == reached
    assert suppressed(world, *EVERYTHING) == list(reached)
    assert not set(reached) & world.points().keys()
    assert set(MEMBERS) <= world.points().keys()
    assert events(world) == 1


def test_what_came_of_an_episode_is_forgotten_alone_where_the_episode_stays(world: Rig) -> None:
    policy = ForgetLifecyclePolicy(suppression=SuppressionPolicy(suppress_target=False))
    outcome = world.memory.forget(forgetting(E, lifecycle_policy=policy))
    assert outcome.graph_mutated_object_ids == tuple(sorted(MEMBERS))
    assert suppressed(world, *EVERYTHING) == sorted(MEMBERS), "its words stay with it"


@pytest.mark.spec("core-92")
def test_a_thread_is_forgotten_by_its_own_members_only(world: Rig) -> None:
    world.memory.commit(
        plan(
            belief(0x31, "Cats sleep.", (NOTION,), thread_ids=(uid(THREAD),)),
            belief(0x32, "Dogs run.", (NOTION,), thread_ids=(uid(THREAD),)),
            belief(0x33, "Birds fly.", (NOTION,)),
        )
    )
    world.memory.commit(plan(belief(0x34, "Dogs walk.", (NOTION,), supersedes=(uid(0x32),))))
    for end in (memory_ref(0x33), observation_ref(SAID)):
        world.memory.link(
            MemoryLinkDraft.new(
                end.object_type, end.id, RelationType.PART_OF_THREAD, ObjectType.MEMORY_THREAD, uid(THREAD)
            )
        )
    held = world.stored(thread_ref(THREAD)), lines_of(world, thread_ref(THREAD))

    with nothing_written(world):
        without = world.memory.forget(forgetting(thread_ref(THREAD)))
    assert without.graph_mutated_object_ids == ()
    assert (world.stored(thread_ref(THREAD)), lines_of(world, thread_ref(THREAD))) == held
    assert world.points()[thread_ref(THREAD)] == "Garden what grows"

    cascade = ForgetCascade(apply_to_thread_members=True)
    outcome = world.memory.forget(forgetting(thread_ref(THREAD), cascade_policy=cascade))
    assert outcome.graph_mutated_object_ids == (memory_ref(0x31),)
    assert world.stored(memory_ref(0x31)).suppressed
    assert memory_ref(0x31) not in world.points()
    joined = (memory_ref(0x33), observation_ref(SAID))
    assert suppressed(world, *joined, memory_ref(0x32), memory_ref(0x34)) == []
    assert {*joined, thread_ref(THREAD)} <= world.points().keys()
    assert (world.stored(thread_ref(THREAD)), lines_of(world, thread_ref(THREAD))) == held


@pytest.mark.spec("core-93")
def test_what_cannot_be_forgotten_and_what_is_not_there(world: Rig) -> None:
    made = MemoryLinkDraft.new(
        ObjectType.ENTITY, uid(NOTION), RelationType.ASSOCIATED_WITH, ObjectType.EPISODE, uid(EPISODE)
    )
    link = world.memory.link(made).link
    for target in (notion_ref(NOTION), link.ref):
        with nothing_written(world), pytest.raises(LifecycleDraftInvalid) as caught:
            world.memory.forget(forgetting(E, target))
        assert caught.value.kind == "unsupported_lifecycle_target"
        assert str(target) in str(caught.value)

    for missing in (memory_ref(0x99), episode_ref(0x99), observation_ref(EPISODE), thread_ref(0x99)):
        with nothing_written(world), pytest.raises(GraphExpansionRootNotFound) as absent:
            world.memory.forget(forgetting(E, missing, memory_ref(BY_APART)))
        assert (absent.value.object_type, absent.value.object_id) == (missing.object_type, missing.id)
    assert suppressed(world, *EVERYTHING, memory_ref(BY_APART)) == []


def test_a_forget_names_a_target_and_a_reason_before_anything_is_read(world: Rig) -> None:
    for draft, kind in (
        (ForgetMemoryDraft(targets=(), rationale="asked to"), "missing_forget_target"),
        (forgetting(E, rationale=" \t"), "empty_rationale"),
        (forgetting(link_ref(uid(1))), "unsupported_lifecycle_target"),
    ):
        for call in (world.memory.forget, world.memory.plan_forget):
            world.connection.calls.clear()
            with pytest.raises(LifecycleDraftInvalid) as caught:
                call(draft)
            assert caught.value.kind == kind
            assert world.connection.names() == []


@pytest.mark.spec("core-94")
def test_a_forget_whose_deletes_fail_still_hides_everything_and_one_sweep_cleans_up(world: Rig) -> None:
    world.memory.upkeep.sweep()
    world.vectors.fail("write", VectorDatabaseError("edge", "engine", "full"), times=20)

    outcome = world.memory.forget(forgetting(E))

    assert outcome.vector_maintenance_failure is not None
    assert outcome.vector_maintenance_failure.objects == EVERYTHING
    assert {item.operation for item in outcome.vector_maintenance_failure.failures} == {"delete"}
    assert outcome.graph_mutated_object_ids == EVERYTHING
    assert outcome.repair_needed == (outcome.vector_maintenance_failure,)
    assert set(EVERYTHING) <= world.points().keys()
    assert world.backlog()[0] == 1

    for topic in ("We spoke of cats.", "Mimi is a cat.", "Mimi is grey.", "Mimi purrs."):
        recalled = world.memory.retrieve(RetrievalContext.new(topic))
        text = recalled.pack.model_dump_json()
        assert not [ref for ref in EVERYTHING if str(ref.id) in text]
    assert str(uid(BY_APART)) in world.memory.retrieve("Rain is wet.").pack.model_dump_json()

    world.vectors.recover()
    swept = world.memory.upkeep.sweep()
    assert swept.complete
    assert swept.repaired == EVERYTHING
    assert not set(EVERYTHING) & world.points().keys()
    assert world.backlog() == (0, 0)


@pytest.mark.spec("core-95")
def test_a_forget_only_adds_one_event(world: Rig) -> None:
    before, own = set(world.triples()), lines_of(world, E)
    assert len(own) > 10
    world.memory.forget(forgetting(E, rationale="I was asked to.", requested_by="user:7"))

    assert lines_of(world, E) == own
    after = set(world.triples())
    assert before <= after
    added = b"".join(sorted(after - before)).decode()
    owners = {line.split(":")[2] for line in added.splitlines()}
    assert owners - {"receipt", "volume"} == {"event"}, "the receipt numbers the commit"
    subjects = {line.split()[0] for line in added.splitlines() if "charactermemory:event:" in line.split()[0]}
    assert len(subjects) == 1
    assert events(world) == 1
    for word in ("I was asked to.", "user:7"):
        assert word in added


def test_an_observation_can_be_forgotten_by_itself(world: Rig) -> None:
    outcome = world.memory.forget(forgetting(WORDS[0]))
    assert outcome.graph_mutated_object_ids == tuple(sorted((WORDS[0], memory_ref(BY_SAID))))
    assert suppressed(world, *EVERYTHING) == sorted((WORDS[0], memory_ref(BY_SAID)))


def test_forgetting_twice_writes_nothing_and_deletes_the_vector_once_more(world: Rig) -> None:
    world.vectors.fail("write", VectorDatabaseError("edge", "engine", "full"), times=20)
    assert not world.memory.forget(forgetting(memory_ref(BY_SAID))).complete
    world.vectors.recover()
    assert memory_ref(BY_SAID) in world.points()

    head, triples = world.head(), world.triples()
    repeated = world.memory.forget(forgetting(memory_ref(BY_SAID), rationale="once more"))
    assert (world.head(), world.triples()) == (head, triples)
    assert repeated.graph_mutated_object_ids == ()
    assert repeated.vector_maintained_object_ids == (memory_ref(BY_SAID),)
    assert repeated.complete
    assert memory_ref(BY_SAID) not in world.points()
    assert world.backlog()[1] == 0


def test_the_plan_of_a_forget_says_what_it_does_and_writes_nothing(world: Rig) -> None:
    draft = forgetting(E, memory_ref(BY_APART), include_trace=True)
    for _ in ("first", "again"):
        with nothing_written(world):
            planned = world.memory.plan_forget(draft)
        assert planned == world.memory.forget(draft)
    assert planned.graph_mutated_object_ids == ()
    assert planned.vector_maintained_object_ids == tuple(sorted((E, memory_ref(BY_APART))))
    assert planned.trace == LifecycleTrace(requested_targets=draft.targets)


def test_a_forget_that_reaches_too_far_is_refused_and_its_plan_lists_it(
    world: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forget_module, "MAX_CASCADE", 4)
    with nothing_written(world), pytest.raises(CascadeTooLarge) as caught:
        world.memory.forget(forgetting(E))
    assert (caught.value.count, caught.value.limit) == (5, 4)
    with nothing_written(world):
        assert world.memory.plan_forget(forgetting(E)).graph_mutated_object_ids == EVERYTHING

    monkeypatch.setattr(forget_module, "MAX_CASCADE", 5)
    assert world.memory.forget(forgetting(E)).graph_mutated_object_ids == EVERYTHING


def test_a_belief_that_was_forgotten_was_changed_then(world: Rig) -> None:
    before = world.stored(memory_ref(BY_SAID)).object.updated_at
    world.memory.forget(forgetting(memory_ref(BY_SAID)))
    assert world.stored(memory_ref(BY_SAID)).object.updated_at > before
