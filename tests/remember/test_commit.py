"""What a commit stores, refuses and leaves alone in the graph (core-36 to core-47)."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest

from charactermemory.domain.beliefs import BeliefAssertion
from charactermemory.domain.kinds import DerivedType, RelationType, RetentionState
from charactermemory.errors import (
    CharacterMemoryError,
    CommitOutcomeUnknown,
    DatabaseError,
    DeterministicIdCollision,
    InvalidInput,
    PlanTooLarge,
    StoreUnavailable,
    UnsupportedSchemaVersion,
    WritePlanValidationRejected,
)
from charactermemory.ids import MemoryObjectRef, ObjectType, about_link_id, supersedes_link_id
from charactermemory.remember import commit as commit_module
from charactermemory.remember.drafts import DerivedMemoryDraft, EpisodeDraft
from charactermemory.remember.outcome import RememberOutcome
from charactermemory.remember.plan import CandidateValidationStatus, RememberWritePlan
from charactermemory.remember.prepare import RememberInput
from charactermemory.revise.drafts import ForgetMemoryDraft
from charactermemory.testing.recording import Fault
from tests.revise.drafts import lines_of
from tests.support.fixtures import OpenRig
from tests.support.plans import (
    belief,
    episode,
    episode_ref,
    link,
    link_ref,
    memory_ref,
    naming,
    notion,
    notion_ref,
    observation,
    plan,
    uid,
)
from tests.support.rig import Rig

VALID = CandidateValidationStatus.VALID
WRITES = {"write", "flush", "apply", "advance", "bulk_generate_embeddings"}
"""The calls of ports that change a derived store or cost an embedding."""


def ids_in_graph(rig: Rig) -> set[MemoryObjectRef]:
    """Return every object and link of the graph, found by its digest triple."""
    stored: set[MemoryObjectRef] = set()
    for line in rig.triples():
        subject, predicate, *_ = line.decode().split(" ")
        if predicate == "<urn:charactermemory:vocab:digest>":
            *_, kind, name = subject.strip("<>").split(":")
            stored.add(MemoryObjectRef.of(ObjectType(kind), UUID(name)))
    return stored


def about(memory: int, of: int) -> MemoryObjectRef:
    return link_ref(about_link_id(uid(memory), uid(of)))


def refuses(rig: Rig, refused: RememberWritePlan, error: type[CharacterMemoryError]) -> CharacterMemoryError:
    """Commit raises `error`, and no store changes: no triple, no receipt, no point, no row, no mark."""
    before = rig.contents()
    with pytest.raises(error) as caught:
        rig.memory.commit(refused)
    assert rig.contents() == before
    return caught.value


def ids(outcome: RememberOutcome) -> tuple[tuple[MemoryObjectRef, ...], tuple[MemoryObjectRef, ...]]:
    return outcome.persisted_object_ids, outcome.persisted_link_ids


@pytest.mark.spec("core-36")
def test_a_notion_and_its_naming_need_no_experience(rig: Rig) -> None:
    outcome = rig.memory.commit(plan(notion(1), naming(2, 1, "Ada")))
    assert ids(outcome) == ((notion_ref(1), memory_ref(2)), (about(2, 1),))
    assert ids_in_graph(rig) == {notion_ref(1), memory_ref(2), about(2, 1)}
    stored = rig.stored(about(2, 1)).object
    assert (stored.source, stored.relation, stored.target) == (
        memory_ref(2),
        RelationType.ABOUT,
        notion_ref(1),
    )
    assert rig.named("Ada") == (uid(1),)


@pytest.mark.spec("core-37")
def test_subjects_are_a_set(rig: Rig) -> None:
    made = plan(notion(1), notion(2), belief(3, "They met.", (2, 1, 1)))
    first = rig.memory.commit(made)
    assert rig.stored(memory_ref(3)).object.entity_ids == (uid(1), uid(2))
    links = tuple(sorted((about(3, 1), about(3, 2))))
    assert ids(first) == ((notion_ref(1), notion_ref(2), memory_ref(3)), links)
    assert ids_in_graph(rig) == {notion_ref(1), notion_ref(2), memory_ref(3), *links}
    assert ids(rig.memory.commit(made)) == ids(first)


@pytest.mark.spec("core-38")
def test_assertions_keep_order_and_repeats(rig: Rig) -> None:
    rig.memory.commit(plan(notion(1), naming(2, 1, "Alice", "Al", "Al")))
    spoken = [BeliefAssertion.known_as(uid(1), name) for name in ("Alice", "Al", "Al")]
    assert list(rig.stored(memory_ref(2)).object.assertions) == spoken


@pytest.mark.spec("core-39")
def test_what_was_valid_and_was_overtaken_is_refused(rig: Rig) -> None:
    rig.memory.commit(plan(episode(1, "tea")))
    taken_id = plan(episode(2, "cake"), notion(9))
    taken_place = plan(observation(3, 1, "mine", 0), notion(9))
    for mine in (taken_id, taken_place):
        assert {row.status for row in rig.memory.validate_plan(mine)} == {VALID}
    rig.memory.commit(plan(episode(2, "biscuits"), observation(4, 1, "theirs", 0)))

    collision = refuses(rig, taken_id, DeterministicIdCollision)
    assert isinstance(collision, DeterministicIdCollision)
    assert collision.object == episode_ref(2)
    rejected = refuses(rig, taken_place, WritePlanValidationRejected)
    assert isinstance(rejected, WritePlanValidationRejected)
    assert [[issue.kind for issue in row.errors] for row in rejected.validations] == [  # type: ignore[attr-defined]
        ["duplicate_position"],
        [],
    ]
    assert rig.stored(notion_ref(9)) is None
    assert rig.head() == 2


@pytest.mark.spec("core-40")
def test_a_replay_adds_nothing(rig: Rig) -> None:
    made = plan(
        notion(1),
        episode(2, "tea"),
        observation(3, 2, "hello"),
        belief(4, "It rains.", (1,)),
        link(uid(5), episode_ref(2), RelationType.INVOLVES, notion_ref(1)),
    )
    first = rig.memory.commit(made)
    before = rig.contents()
    again = rig.memory.commit(made)
    assert ids(again) == ids(first)
    assert again.complete
    after = rig.contents()
    assert after.triples == before.triples
    assert (after.points, after.states, after.edges) == (before.points, before.states, before.edges)
    assert rig.backlog() == (0, 0)


@pytest.mark.spec("core-41")
def test_an_altered_plan_collides(rig: Rig) -> None:
    rig.memory.commit(plan(notion(1), episode(2, "tea")))
    error = refuses(rig, plan(notion(1), episode(2, "coffee")), DeterministicIdCollision)
    assert isinstance(error, DeterministicIdCollision)
    assert error.object == episode_ref(2)


@pytest.mark.spec("core-42")
def test_a_draft_prepared_again_with_a_new_time_collides(rig: Rig) -> None:
    data = RememberInput(episode=EpisodeDraft(id=uid(1), summary="tea"))
    rig.memory.commit(rig.memory.prepare(data))
    error = refuses(rig, rig.memory.prepare(data), DeterministicIdCollision)
    assert isinstance(error, DeterministicIdCollision)
    assert error.object == episode_ref(1)


@pytest.mark.spec("core-43")
def test_a_replay_never_brings_back_what_was_forgotten(rig: Rig) -> None:
    made = plan(notion(1), belief(2, "It rains.", (1,)))
    rig.memory.commit(made)
    rig.memory.forget(ForgetMemoryDraft.suppress(memory_ref(2), "a mistake"))
    error = refuses(rig, made, DeterministicIdCollision)
    assert isinstance(error, DeterministicIdCollision)
    assert error.object == memory_ref(2)
    assert rig.stored(memory_ref(2)).suppressed
    assert memory_ref(2) not in rig.points()


@pytest.mark.spec("core-44")
def test_the_id_of_a_generated_link_cannot_be_authored(rig: Rig) -> None:
    taken = about_link_id(uid(2), uid(1))
    authored = link(taken, notion_ref(1), RelationType.ASSOCIATED_WITH, notion_ref(3))
    in_one_plan = plan(notion(1), notion(3), belief(2, "It rains.", (1,)), authored)
    error = refuses(rig, in_one_plan, DeterministicIdCollision)
    assert isinstance(error, DeterministicIdCollision)
    assert error.object == link_ref(taken)

    rig.memory.commit(plan(notion(1), notion(3), belief(2, "It rains.", (1,))))
    error = refuses(rig, plan(authored), DeterministicIdCollision)
    assert isinstance(error, DeterministicIdCollision)
    assert error.object == link_ref(taken)


@pytest.mark.spec("core-44")
@pytest.mark.parametrize("second", ["the same", "another"])
def test_two_candidates_with_one_typed_id_are_rejected(rig: Rig, second: str) -> None:
    relation = RelationType.ASSOCIATED_WITH
    linked = link(uid(5), notion_ref(1), relation, notion_ref(2))
    twice = linked if second == "the same" else linked.replace(rationale="because")
    named = naming(3, 1, "Ada") if second == "the same" else naming(3, 1, "Bea")
    refused = plan(notion(1), notion(2), naming(3, 1, "Ada"), named, linked, twice)
    error = refuses(rig, refused, WritePlanValidationRejected)
    assert isinstance(error, WritePlanValidationRejected)
    found = [
        [(issue.kind, issue.referenced) for issue in row.errors]  # type: ignore[attr-defined]
        for row in error.validations
    ]
    duplicate = "duplicate_candidate_id"
    assert found == [[], [], [], [(duplicate, memory_ref(3))], [], [(duplicate, link_ref(uid(5)))]]


@pytest.mark.spec("core-45")
def test_another_schema_version_is_valid_and_never_stored(rig: Rig) -> None:
    rig.memory.commit(plan(notion(1)))
    foreign = plan(notion(2), episode(3, "tea").replace(schema_version="test_schema"))
    assert [row.status for row in rig.memory.validate_plan(foreign)] == [VALID, VALID]
    error = refuses(rig, foreign, UnsupportedSchemaVersion)
    assert isinstance(error, UnsupportedSchemaVersion)
    assert (error.context, error.expected, error.actual) == (
        "RDF episode mapping",
        "episodic_memory_initial",
        "test_schema",
    )


# --- core-46 ---------------------------------------------------------------------------------------


def busy_plan() -> RememberWritePlan:
    return plan(notion(1), episode(2, "tea"), observation(3, 2, "hello"), belief(4, "It rains.", (1,)))


BUSY = {notion_ref(1), episode_ref(2), memory_ref(4), about(4, 1)}


def assert_nothing_derived(rig: Rig) -> None:
    """No derived store was written, nor an embedding asked for."""
    called = [*rig.vectors.names(), *rig.statistics.names(), *rig.embedder.names()]
    assert WRITES.isdisjoint(called)


@pytest.mark.spec("core-46")
def test_a_failing_update_leaves_no_trace(rig: Rig) -> None:
    rig.connection.next_faults["update"] = Fault("before", error=DatabaseError(detail="no room"))
    refuses(rig, busy_plan(), DatabaseError)
    assert ids_in_graph(rig) == set()
    assert_nothing_derived(rig)


def overtaken(rig: Rig, update: str) -> Callable[[], None]:
    """Let `update` reach the graph right before the next commit's own; return what undoes the hook."""
    inner, send = rig.connection.inner, rig.connection.inner.update

    def late(text: str) -> None:
        send(update)
        send(text)

    inner.update = late  # type: ignore[method-assign]
    return lambda: inner.__dict__.pop("update", None)


GRAPH = "urn:charactermemory:collection:ada"
FENCE = (
    f"INSERT DATA {{ GRAPH <{GRAPH}> {{ <urn:charactermemory:fence:9> a <urn:charactermemory:vocab:Fence> ; "
    "<urn:charactermemory:vocab:token> 9 } }"
)
OTHER_CONTENT = (
    f"INSERT DATA {{ GRAPH <{GRAPH}> {{ <urn:charactermemory:episode:{uid(2)}> "
    '<urn:charactermemory:vocab:digest> "another" } }'
)


@pytest.mark.spec("core-46")
@pytest.mark.parametrize(
    ("meanwhile", "error", "added"),
    [(FENCE, StoreUnavailable, 2), (OTHER_CONTENT, DeterministicIdCollision, 1)],
)
def test_a_failing_guard_leaves_no_trace(
    rig: Rig, meanwhile: str, error: type[CharacterMemoryError], added: int
) -> None:
    before = rig.contents()
    undo = overtaken(rig, meanwhile)
    with pytest.raises(error):
        rig.memory.commit(busy_plan())
    undo()
    after = rig.contents()
    assert len(after.triples) == len(before.triples) + added  # what the other writer wrote, nothing of ours
    assert after.receipts == ()
    assert (after.points, after.states, after.edges) == ({}, (), frozenset())
    assert_nothing_derived(rig)


@pytest.mark.spec("core-46")
@pytest.mark.parametrize("mode", ["persistent", "service"])
def test_a_lost_answer_to_an_update_that_landed_is_a_success(open_rig: OpenRig, mode: str) -> None:
    rig = open_rig(mode=mode)
    rig.connection.next_faults["update"] = Fault("after", lose_response=True)
    outcome = rig.memory.commit(busy_plan())
    assert outcome.complete
    assert BUSY <= ids_in_graph(rig)
    assert rig.points().keys() == set(outcome.vector_indexed_object_ids) != set()

    before = rig.contents()
    again = rig.memory.commit(busy_plan())
    assert ids(again) == ids(outcome)
    assert again.complete
    assert rig.contents().triples == before.triples


@pytest.mark.spec("core-46")
@pytest.mark.parametrize("mode", ["persistent", "service"])
def test_a_lost_answer_to_an_update_that_never_landed_is_an_error(open_rig: OpenRig, mode: str) -> None:
    rig = open_rig(mode=mode)
    rig.graph.inner._watch_seconds = 0.2  # the endpoint is watched for 5 s otherwise
    rig.connection.next_faults["update"] = Fault("before", lose_response=True)
    with pytest.raises(StoreUnavailable, match="did not take effect") as caught:
        rig.memory.commit(busy_plan())
    assert caught.value.retryable
    assert ids_in_graph(rig) == set()
    assert rig.contents().receipts == ()
    assert_nothing_derived(rig)

    outcome = rig.memory.commit(busy_plan())
    assert outcome.complete
    assert BUSY <= ids_in_graph(rig)
    assert rig.points().keys() == set(outcome.vector_indexed_object_ids) != set()


@pytest.mark.spec("core-46")
def test_where_even_the_receipt_cannot_be_read_a_replay_completes_the_commit(rig: Rig) -> None:
    rig.connection.next_faults["update"] = Fault("after", lose_response=True)
    rig.connection.next_faults["ask"] = Fault("before", error=StoreUnavailable(store="graph", detail="gone"))
    with pytest.raises(CommitOutcomeUnknown) as caught:
        rig.memory.commit(busy_plan())
    assert caught.value.retryable
    assert_nothing_derived(rig)

    before = rig.triples()
    outcome = rig.memory.commit(busy_plan())
    assert outcome.complete
    assert rig.triples() == before
    assert rig.points().keys() == set(outcome.vector_indexed_object_ids) != set()
    rig.memory.upkeep.sweep()
    assert rig.backlog() == (0, 0)


@pytest.mark.spec("core-47")
def test_a_successor_supersedes_a_stored_predecessor(rig: Rig) -> None:
    rig.memory.commit(plan(notion(1), belief(2, "It rains.", (1,))))
    predecessor = rig.stored(memory_ref(2))
    lines = lines_of(rig, memory_ref(2))
    assert lines
    assert rig.points().keys() == {memory_ref(2)}

    outcome = rig.memory.commit(plan(belief(3, "It stopped.", (1,), supersedes=(uid(2),))))
    made = link_ref(supersedes_link_id(uid(3), uid(2)))
    assert outcome.persisted_object_ids == (memory_ref(3),)
    assert set(outcome.persisted_link_ids) == {made, about(3, 1)}
    stored = rig.stored(made).object
    assert (stored.source, stored.relation, stored.target) == (
        memory_ref(3),
        RelationType.SUPERSEDES,
        memory_ref(2),
    )
    after = rig.stored(memory_ref(2))
    assert (after.object, after.digest) == (predecessor.object, predecessor.digest)
    assert after.object.retention_state is RetentionState.ACTIVE
    assert after.superseded_by == (uid(3),)
    assert lines_of(rig, memory_ref(2)) == lines
    assert outcome.vector_indexed_object_ids == (memory_ref(3),)
    assert rig.points() == {memory_ref(3): "It stopped."}
    assert outcome.complete


# --- beyond the numbered cases ---------------------------------------------------------------------


def test_a_plan_too_large_for_one_commit_is_refused_whole(rig: Rig) -> None:
    error = refuses(rig, plan(*(notion(number) for number in range(1, 502))), PlanTooLarge)
    assert isinstance(error, PlanTooLarge)
    assert (error.what, error.count, error.limit) == ("objects", 501, 500)


def test_the_size_of_a_plan_is_counted_in_bytes(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    made = plan(episode(1, "お茶" * 100))
    size = len(made.to_json().encode())
    assert size > len(made.to_json())
    monkeypatch.setattr(commit_module, "PLAN_BYTES", size - 1)
    error = refuses(rig, made, InvalidInput)
    assert isinstance(error, InvalidInput)
    assert [pointer for pointer, _ in error.problems] == ["/candidates"]
    monkeypatch.setattr(commit_module, "PLAN_BYTES", size)
    assert rig.memory.commit(made).complete


def test_authored_links_are_reported_before_derived_ones(rig: Rig) -> None:
    last = uid(2**128 - 1)
    authored = link(last, notion_ref(1), RelationType.ASSOCIATED_WITH, notion_ref(2))
    outcome = rig.memory.commit(plan(authored, belief(3, "They met.", (1, 2)), notion(1), notion(2)))
    assert outcome.persisted_object_ids == (memory_ref(3), notion_ref(1), notion_ref(2))
    assert outcome.persisted_link_ids == (link_ref(last), *sorted((about(3, 1), about(3, 2))))


def test_a_plan_may_add_to_what_is_stored(rig: Rig) -> None:
    first = rig.memory.commit(plan(notion(1), episode(2, "tea")))
    both = rig.memory.commit(plan(notion(1), episode(2, "tea"), observation(3, 2, "hello")))
    assert both.persisted_object_ids[:2] == first.persisted_object_ids
    assert rig.contents().receipts[-1].objects == (both.persisted_object_ids[2],)


def test_warnings_and_the_plans_own_messages_stand_in_the_outcome(rig: Rig) -> None:
    data = RememberInput(
        episode=EpisodeDraft(id=uid(1), summary="hello"),
        derived_memory_drafts=(DerivedMemoryDraft.new(DerivedType.CLAIM, "hello"),),
    )
    diagnostics = rig.memory.commit(rig.memory.prepare(data)).diagnostics
    [row] = diagnostics.validations
    assert [issue.kind for issue in row.warnings] == ["duplicate_observation_echo"]
    assert row.warnings[0].echo_surface == "derived_text"
    [message] = diagnostics.messages
    assert (message.code, message.severity) == ("write_plan_validation_warning", "warning")
    assert message.text == f"its text repeats the summary of episode {uid(1)}"
