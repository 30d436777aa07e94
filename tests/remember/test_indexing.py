"""The vector half of a commit: what it reports when it fails, and what repairs it (core-48 to core-58)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from charactermemory.domain.kinds import RelationType, RetentionState
from charactermemory.domain.repair import (
    StatsUpdateMarker,
    VectorIndexMarker,
    VectorMaintenanceMarker,
    VectorMaintenanceOperation,
)
from charactermemory.errors import GraphQueryError, VectorDatabaseError
from charactermemory.ids import about_link_id
from charactermemory.ports.stores import Stores
from charactermemory.remember.outcome import CommitOptions, Outcome
from charactermemory.remember.plan import VectorIndexCandidate, VectorIndexRequest
from charactermemory.upkeep import derive
from charactermemory.upkeep.sweep import SweepReport
from tests.support.plans import (
    BY_TEST,
    belief,
    episode,
    episode_ref,
    link,
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

BROKEN_INDEX = VectorDatabaseError(backend="edge", kind="engine", message="broken")
UNREADABLE = GraphQueryError(kind="selection", detail="broken")

PREDECESSOR = plan(notion(1), belief(2, "It rains.", (1,)))
SUCCESSOR = plan(belief(3, "It stopped.", (1,), supersedes=(uid(2),)))
EXPERIENCE = plan(
    notion(1), episode(2, "tea"), observation(3, 2, "hello"), thread(4), belief(5, "It rains.", (1,))
)
INDEXED = (episode_ref(2), observation_ref(3), thread_ref(4), memory_ref(5))
"""What of `EXPERIENCE` has a text: four texts, all different."""

Repair = Callable[[Rig], Outcome | SweepReport]
repairs = pytest.mark.parametrize("repair", ["replay", "sweep"])


def repaired(rig: Rig, repair: str, made=EXPERIENCE) -> Outcome | SweepReport:  # type: ignore[no-untyped-def]
    """Replay the plan, or sweep."""
    return rig.memory.commit(made) if repair == "replay" else rig.memory.upkeep.sweep()


def embeddings(rig: Rig) -> list[str]:
    """Every text that was sent to the embedder so far."""
    return [text for call in rig.embedder.calls if call.args for text in call.args[0]]


def assert_not_passed(rig: Rig, receipt: int) -> None:
    """The receipt stays beyond the index's cursor, also when the mark moves on for a later commit."""
    rig.memory.commit(plan(notion(90)))
    rig.memory.commit(plan(notion(90)))  # a replay moves the mark as far as it may go
    assert rig.contents().vectors_at.applied < receipt


@pytest.mark.spec("core-48")
@repairs
def test_a_failed_delete_is_reported_and_repaired(rig: Rig, repair: str) -> None:
    rig.memory.commit(PREDECESSOR)
    rig.vectors.fail("write", BROKEN_INDEX)  # the delete comes first
    outcome = rig.memory.commit(SUCCESSOR)
    [marker] = outcome.repair_needed
    assert isinstance(marker, VectorMaintenanceMarker)
    [failure] = marker.failures
    assert failure.operation is VectorMaintenanceOperation.DELETE
    assert failure.objects == (memory_ref(2),)
    assert (failure.cause.cause, failure.cause.kind) == ("vector_database", "engine")
    assert outcome.diagnostics.repair_needed == (marker,)
    assert outcome.vector_indexing_failure is None
    assert not outcome.complete
    assert rig.points().keys() == {memory_ref(2), memory_ref(3)}
    assert_not_passed(rig, receipt=2)

    after = repaired(rig, repair, SUCCESSOR)
    assert after.repair_needed == ()
    assert rig.points().keys() == {memory_ref(3)}
    assert rig.contents().vectors_at.applied == rig.head() == 3


@pytest.mark.spec("core-49")
def test_a_predecessors_plan_can_be_replayed_and_indexes_nothing(rig: Rig) -> None:
    first = rig.memory.commit(PREDECESSOR)
    rig.memory.commit(SUCCESSOR)
    triples = rig.triples()
    rig.forget_calls()
    outcome = rig.memory.commit(PREDECESSOR)
    assert outcome.persisted_object_ids == first.persisted_object_ids
    assert outcome.persisted_link_ids == first.persisted_link_ids
    assert outcome.vector_indexed_object_ids == ()
    assert outcome.complete
    assert outcome.stats_update_status.status == "succeeded"
    assert rig.points().keys() == {memory_ref(3)}
    assert embeddings(rig) == []
    assert rig.triples() == triples


@pytest.mark.spec("core-50")
def test_a_combined_replay_indexes_only_the_successor(rig: Rig) -> None:
    rig.memory.commit(PREDECESSOR)
    rig.memory.commit(SUCCESSOR)
    triples = rig.triples()
    rig.memory.stores.vectors.write([], [memory_ref(3)], rig.head())
    outcome = rig.memory.commit(PREDECESSOR.with_candidates(*SUCCESSOR.candidates))
    assert outcome.complete
    assert outcome.persisted_object_ids == (notion_ref(1), memory_ref(2), memory_ref(3))
    assert outcome.vector_indexed_object_ids == (memory_ref(3),)
    assert rig.points().keys() == {memory_ref(3)}
    assert rig.triples() == triples


@pytest.mark.spec("core-51")
def test_vectors_left_for_later_are_pending_until_a_sweep(rig: Rig) -> None:
    rig.memory.commit(PREDECESSOR)
    rig.memory.upkeep.sweep()
    assert rig.backlog() == (0, 0)
    rig.forget_calls()
    outcome = rig.memory.commit(SUCCESSOR, CommitOptions(update_vectors=False))
    assert rig.embedder.names() == []
    assert rig.vectors.names() == []
    assert outcome.repair_needed == ()
    assert outcome.stats_update_status.status == "succeeded"
    assert_not_passed(rig, receipt=2)
    assert rig.backlog()[1] == 0
    assert outcome.pending == (memory_ref(3), memory_ref(2))
    assert not outcome.complete
    assert rig.stored(memory_ref(2)).superseded_by == (uid(3),)
    assert rig.points().keys() == {memory_ref(2)}

    swept = rig.memory.upkeep.sweep()
    assert swept.complete
    assert set(swept.repaired) == {memory_ref(2), memory_ref(3)}
    assert rig.points().keys() == {memory_ref(3)}
    assert rig.backlog() == (0, 0)


@pytest.mark.spec("core-52")
def test_what_can_be_embedded_is_indexed_without_being_asked_for(rig: Rig) -> None:
    assert not [item for item in EXPERIENCE.candidates if isinstance(item, VectorIndexCandidate)]
    outcome = rig.memory.commit(EXPERIENCE)
    assert set(outcome.vector_indexed_object_ids) == rig.points().keys() == set(INDEXED)

    rig.forget_calls()
    linked = link(uid(12), notion_ref(11), RelationType.ASSOCIATED_WITH, notion_ref(1))
    outcome = rig.memory.commit(plan(notion(11), linked))
    assert outcome.persisted_link_ids == (link_ref(uid(12)),)
    assert outcome.vector_indexed_object_ids == ()
    assert rig.embedder.names() == []
    assert outcome.complete


def test_what_was_stored_before_is_neither_embedded_nor_written_again(rig: Rig) -> None:
    """A plan may bring something new beside what is stored; rewriting a point costs, and leaks room in Edge."""
    rig.memory.commit(plan(episode(2, "tea"), observation(3, 2, "hello")))
    rig.forget_calls()
    outcome = rig.memory.commit(
        plan(episode(2, "tea"), observation(3, 2, "hello"), observation(4, 2, "goodbye", 1))
    )
    assert outcome.vector_indexed_object_ids == (episode_ref(2), observation_ref(3), observation_ref(4))
    assert embeddings(rig) == ["goodbye"]
    written = [
        record.surface.ref for call in rig.vectors.calls if call.name == "write" for record in call.args[0]
    ]
    assert written == [observation_ref(4)]


@pytest.mark.spec("core-53")
def test_notions_and_links_get_no_vector_even_when_asked_for(rig: Rig) -> None:
    linked = link(uid(3), notion_ref(1), RelationType.ASSOCIATED_WITH, notion_ref(2))
    asked = plan(notion(1), notion(2), linked).with_candidates(
        *(
            VectorIndexCandidate(candidate=VectorIndexRequest(target=target, provenance=BY_TEST))
            for target in (notion_ref(1), link_ref(uid(3)))
        )
    )
    outcome = rig.memory.commit(asked)
    assert outcome.complete
    assert outcome.vector_indexed_object_ids == ()
    assert outcome.diagnostics.messages == ()
    assert rig.points() == {}
    assert rig.embedder.names() == []


def assert_nothing_indexed(rig: Rig, outcome: Outcome, cause: str) -> VectorIndexMarker:
    """The batch is reported whole, the index was not written, and the graph holds everything."""
    [marker] = outcome.repair_needed
    assert isinstance(marker, VectorIndexMarker)
    assert marker.cause.cause == cause
    assert marker.objects == INDEXED
    assert outcome.vector_indexing_failure == marker  # type: ignore[attr-defined]
    assert outcome.diagnostics.repair_needed == (marker,)  # type: ignore[attr-defined]
    [message] = outcome.diagnostics.messages  # type: ignore[attr-defined]
    assert message.code == "vector_indexing_failed"
    assert message.text == f"4 objects stored and not indexed: {cause}"
    assert outcome.vector_indexed_object_ids == ()  # type: ignore[attr-defined]
    assert outcome.persisted_object_ids == (notion_ref(1), *INDEXED)  # type: ignore[attr-defined]
    assert not outcome.complete
    assert all(rig.stored(ref) is not None for ref in (notion_ref(1), *INDEXED))
    assert rig.points() == {}
    return marker


@pytest.mark.spec("core-54")
def test_too_few_embeddings_fail_the_whole_batch(rig: Rig) -> None:
    rig.embedder.alter("bulk_generate_embeddings", lambda vectors: vectors[:3])
    marker = assert_nothing_indexed(rig, rig.memory.commit(EXPERIENCE), "cardinality_mismatch")
    assert (marker.cause.expected, marker.cause.actual) == (4, 3)
    assert "write" not in rig.vectors.names()
    assert "flush" not in rig.vectors.names()


@pytest.mark.spec("core-55")
def test_one_embedding_of_zeros_fails_the_whole_batch(rig: Rig) -> None:
    def with_zeros(vectors: list[list[float]]) -> list[list[float]]:
        return [*vectors[:2], [0.0] * len(vectors[2]), *vectors[3:]]

    rig.embedder.alter("bulk_generate_embeddings", with_zeros)
    marker = assert_nothing_indexed(rig, rig.memory.commit(EXPERIENCE), "zero_norm_embedding")
    assert marker.cause.object == INDEXED[2]
    assert "write" not in rig.vectors.names()
    assert "flush" not in rig.vectors.names()


@pytest.mark.spec("recall-78")
def test_the_one_of_three_that_is_all_zeros_is_named(rig: Rig) -> None:
    rig.embedder.alter(
        "bulk_generate_embeddings", lambda vectors: [vectors[0], [0.0] * len(vectors[1]), vectors[2]]
    )
    three = plan(episode(2, "tea"), observation(3, 2, "hello"), thread(4))
    refs = (episode_ref(2), observation_ref(3), thread_ref(4))
    [marker] = rig.memory.commit(three).repair_needed
    assert isinstance(marker, VectorIndexMarker)
    assert marker.objects == refs
    assert (marker.cause.cause, marker.cause.object) == ("zero_norm_embedding", refs[1])
    assert "write" not in rig.vectors.names()
    assert rig.points() == {}


@pytest.mark.spec("core-56")
def test_without_the_currency_nothing_is_derived(rig: Rig) -> None:
    rig.graph.fail("read", UNREADABLE, times=9)
    outcome = rig.memory.commit(EXPERIENCE)
    index, statistics = outcome.repair_needed
    assert isinstance(index, VectorIndexMarker)
    assert index.cause.cause == "graph_query"
    assert index.objects == INDEXED
    assert outcome.vector_indexing_failure == index
    assert isinstance(statistics, StatsUpdateMarker)
    assert [cause.cause for cause in statistics.causes] == ["graph_read"]
    assert outcome.stats_update_status.status == "failed"
    assert outcome.stats_update_status.causes == statistics.causes
    assert all(rig.stored(ref) is not None for ref in (notion_ref(1), *INDEXED))
    assert rig.points() == {}
    contents = rig.contents()
    assert (contents.states, contents.edges) == ((), frozenset())
    assert rig.backlog() == (1, 1)

    rig.graph.recover()
    again = rig.memory.commit(EXPERIENCE)
    assert again.complete
    assert again.vector_indexed_object_ids == INDEXED
    assert rig.points().keys() == set(INDEXED)
    assert {state.ref for state in rig.contents().states} == set(INDEXED)
    assert rig.backlog() == (0, 0)


@pytest.mark.spec("core-57")
@repairs
@pytest.mark.parametrize("raised", [RuntimeError("model gone"), ValueError("hello"), MemoryError()])
def test_any_exception_of_the_embedder_is_a_repair(rig: Rig, raised: Exception, repair: str) -> None:
    rig.embedder.fail("bulk_generate_embeddings", raised)
    marker = assert_nothing_indexed(rig, rig.memory.commit(EXPERIENCE), "embedding")
    assert (marker.cause.code, marker.cause.kind) == ("embedding", "unrecognized")
    assert "hello" not in marker.cause.detail  # the provider quoted a text
    assert_not_passed(rig, receipt=1)

    assert repaired(rig, repair).repair_needed == ()
    assert rig.points().keys() == set(INDEXED)
    assert rig.backlog() == (0, 0)


@pytest.mark.spec("core-57")
@repairs
def test_an_interrupt_propagates_and_leaves_the_receipt_to_a_repair(rig: Rig, repair: str) -> None:
    rig.embedder.fail("bulk_generate_embeddings", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        rig.memory.commit(EXPERIENCE)
    assert all(rig.stored(ref) is not None for ref in (notion_ref(1), *INDEXED))
    assert rig.points() == {}
    assert rig.backlog() == (1, 1)
    assert_not_passed(rig, receipt=1)
    assert rig.contents().statistics_at.applied < 1

    assert repaired(rig, repair).repair_needed == ()
    assert rig.points().keys() == set(INDEXED)
    assert {state.ref for state in rig.contents().states} == set(INDEXED)
    assert rig.backlog() == (0, 0)


@pytest.mark.spec("core-57")
def test_a_sweep_of_the_next_process_repairs_an_interrupted_commit(rig: Rig) -> None:
    rig.embedder.fail("bulk_generate_embeddings", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        rig.memory.commit(EXPERIENCE)
    rig.reopen()
    assert rig.backlog() == (1, 1)
    assert rig.memory.upkeep.sweep().complete
    assert rig.points().keys() == set(INDEXED)
    assert rig.backlog() == (0, 0)


@pytest.mark.spec("core-58")
def test_a_failing_upsert_is_reported_by_each_run_and_stores_nothing_twice(rig: Rig) -> None:
    rig.vectors.fail("write", BROKEN_INDEX, times=2)
    first = assert_nothing_indexed(rig, rig.memory.commit(EXPERIENCE), "vector_database")
    triples = rig.triples()
    second = assert_nothing_indexed(rig, rig.memory.commit(EXPERIENCE), "vector_database")
    assert first == second
    assert rig.triples() == triples
    assert rig.head() == 1
    refs, _ = rig.graph.inner.scan(None, 100)
    assert sorted(refs) == sorted([notion_ref(1), *INDEXED, link_ref(about_link_id(uid(5), uid(1)))])
    assert sum(b"vocab:digest>" in line for line in triples) == len(refs)

    assert rig.memory.commit(EXPERIENCE).complete
    assert rig.points().keys() == set(INDEXED)


# --- beyond the numbered cases ---------------------------------------------------------------------


def test_an_index_that_cannot_be_read_loses_no_debt(rig: Rig) -> None:
    rig.memory.commit(PREDECESSOR)
    rig.vectors.fail("present", BROKEN_INDEX, times=2)
    outcome = rig.memory.commit(SUCCESSOR)
    index, maintenance = outcome.repair_needed
    assert isinstance(index, VectorIndexMarker)
    assert index.objects == (memory_ref(3),)
    assert isinstance(maintenance, VectorMaintenanceMarker)
    assert maintenance.objects == (memory_ref(2),)
    assert_not_passed(rig, receipt=2)
    assert rig.memory.commit(SUCCESSOR).complete
    assert rig.points().keys() == {memory_ref(3)}


def test_an_index_that_cannot_be_reached_at_all_holds_up_no_commit(rig: Rig) -> None:
    for call in ("cursor", "present", "write"):
        rig.vectors.fail(call, BROKEN_INDEX, times=99)
    outcome = rig.memory.commit(EXPERIENCE)
    assert_nothing_indexed(rig, outcome, "vector_database")
    assert outcome.stats_update_status.status == "succeeded"
    rig.vectors.recover()
    assert rig.memory.upkeep.sweep().complete
    assert rig.points().keys() == set(INDEXED)


def test_a_text_already_indexed_is_not_embedded_again(rig: Rig) -> None:
    rig.memory.commit(EXPERIENCE)
    rig.forget_calls()
    outcome = rig.memory.commit(EXPERIENCE)
    assert outcome.vector_indexed_object_ids == INDEXED
    assert rig.embedder.names() == []
    assert "write" not in rig.vectors.names()


def test_what_has_no_text_and_no_point_costs_no_write(rig: Rig) -> None:
    outcome = rig.memory.remember("hello")
    _, noticed = outcome.persisted_object_ids
    [upserts, deletes, _] = [call.args for call in rig.vectors.calls if call.name == "write"][0]
    assert rig.vectors.names().count("write") == 1
    assert ([record.surface.ref for record in upserts], list(deletes)) == ([noticed], [])

    rig.forget_calls()
    assert rig.memory.commit(plan(episode(1), notion(2))).complete
    assert "write" not in rig.vectors.names()


def test_equal_texts_are_embedded_once(rig: Rig) -> None:
    rig.memory.commit(plan(episode(1, "tea"), observation(2, 1, "hello"), observation(3, 1, "hello", 1)))
    assert sorted(embeddings(rig)) == ["hello", "tea"]
    assert rig.points().keys() == {episode_ref(1), observation_ref(2), observation_ref(3)}


def test_an_object_born_suppressed_gets_no_vector(rig: Rig) -> None:
    outcome = rig.memory.commit(plan(episode(1, "tea", retention_state=RetentionState.SUPPRESSED)))
    assert outcome.complete
    assert rig.points() == {}
    assert rig.embedder.names() == []


def test_one_poison_text_holds_up_no_other_in_a_sweep(rig: Rig) -> None:
    """The commit reports its batch whole; the sweep goes on object by object."""

    class Poisoned:
        """An embedder that refuses every batch with "hello" in it."""

        def __init__(self, inner: object) -> None:
            self.inner = inner

        def __getattr__(self, name: str) -> object:
            return getattr(self.inner, name)

        def bulk_generate_embeddings(self, texts: list[str]) -> object:
            if "hello" in texts:
                raise RuntimeError("refused")
            return self.inner.bulk_generate_embeddings(texts)  # type: ignore[attr-defined]

    sound = rig.embedder.inner
    rig.embedder.inner = Poisoned(sound)
    assert_nothing_indexed(rig, rig.memory.commit(EXPERIENCE), "embedding")
    swept = rig.memory.upkeep.sweep()
    [marker] = swept.repair_needed
    assert isinstance(marker, VectorMaintenanceMarker)
    assert marker.objects == (observation_ref(3),)
    assert set(swept.repaired) == set(INDEXED) - {observation_ref(3)} == rig.points().keys()
    assert rig.backlog() == (1, 0)

    rig.embedder.inner = sound
    assert rig.memory.upkeep.sweep().complete
    assert rig.points().keys() == set(INDEXED)
    assert rig.backlog() == (0, 0)


def test_an_index_that_cannot_move_its_mark_fails_no_commit(rig: Rig) -> None:
    rig.memory.commit(EXPERIENCE)
    rig.vectors.fail("flush", BROKEN_INDEX)
    assert rig.memory.commit(EXPERIENCE).complete
    assert rig.backlog() == (1, 0)
    assert rig.memory.commit(EXPERIENCE).complete
    assert rig.backlog() == (0, 0)


def test_the_index_moves_its_mark_every_so_many_commits(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the mark speaks of is flushed before, so that a commit need not be (consistency.md R5)."""
    assert derive.FLUSH_COMMITS == 32
    monkeypatch.setattr(derive, "FLUSH_COMMITS", 3)
    marks = []
    for number in range(1, 8):
        rig.memory.commit(plan(episode(number, "tea")))
        marks.append(rig.contents().vectors_at.applied)
    assert marks == [0, 0, 3, 3, 3, 6, 6]
    assert rig.vectors.names().count("flush") == 2


def test_the_index_moves_its_mark_every_so_many_seconds(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(derive, "FLUSH_SECONDS", 1_000.0)
    ledger = rig.memory.stores.vector_ledger
    marks = []
    for number, seconds in enumerate((0, 500, 1_001, 0, 1_001), start=1):
        ledger._marked_at -= seconds
        rig.memory.commit(plan(episode(number, "tea")))
        marks.append(rig.contents().vectors_at.applied)
    assert marks == [0, 0, 3, 3, 5]


def test_a_commit_cut_short_before_its_debt_was_noted_is_swept(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*args: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Stores, "owe", interrupted)
        with pytest.raises(KeyboardInterrupt):
            rig.memory.commit(EXPERIENCE)
    assert_not_passed(rig, receipt=1)
    assert rig.contents().statistics_at.applied < 1
    assert rig.memory.upkeep.sweep().complete
    assert rig.points().keys() == set(INDEXED)
    assert rig.backlog() == (0, 0)
    rig.memory.commit(plan(notion(10)))
    rig.memory.commit(plan(notion(10)))
    assert rig.backlog() == (0, 0)
