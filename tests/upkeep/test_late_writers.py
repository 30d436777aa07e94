"""A memory that lost its place while its vector was under way (core-105)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from charactermemory.adapters.embedding import HashingEmbedding
from charactermemory.ports.vectors import VectorSurface
from charactermemory.remember.outcome import CommitOptions, RememberOutcome
from charactermemory.upkeep import indexing
from tests.revise.drafts import correction, forgetting, replacement
from tests.support.fixtures import OpenRig
from tests.support.plans import belief, memory_ref, notion, plan, uid
from tests.support.rig import DIMENSION, Rig
from tests.upkeep.support import put_point

NOTION = 0xA1
LOST = memory_ref(1)
LATER = CommitOptions(update_vectors=False)


def superseded(rig: Rig) -> None:
    """Supersede the memory and leave the index alone."""
    rig.memory.commit(plan(belief(2, "It snows.", (NOTION,), supersedes=(uid(1),))), LATER)


def forgotten(rig: Rig) -> None:
    """Forget the memory."""
    rig.memory.forget(forgetting(LOST))


Loss = Callable[[Rig], None]
LOSSES = pytest.mark.parametrize("lose", [superseded, forgotten])


def remains(rig: Rig, lose: Loss) -> dict[Any, str]:
    return {memory_ref(2): "It snows."} if lose is superseded else {}


@pytest.mark.spec("core-105")
@LOSSES
@pytest.mark.parametrize("by", ["sweep", "reconcile"])
def test_what_lost_its_place_before_it_was_indexed_is_not_indexed(rig: Rig, lose: Loss, by: str) -> None:
    rig.memory.commit(plan(notion(NOTION), belief(1, "It rains.", (NOTION,))), LATER)
    lose(rig)
    assert rig.backlog()[0] > 0
    assert LOST not in rig.points()
    rig.embedder.calls.clear()

    if by == "reconcile":
        report = rig.memory.upkeep.reconcile(LOST)
        assert LOST in report.deleted
        assert LOST not in report.indexed
        assert LOST not in rig.points()
    rig.memory.upkeep.sweep()

    embedded = [text for call in rig.embedder.calls for text in call.args[0:1]]
    assert "It rains." not in str(embedded)
    assert rig.points() == remains(rig, lose)
    assert rig.backlog() == (0, 0)


def test_nothing_is_written_that_rests_on_a_reading_grown_old(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(indexing, "READ_IS_FRESH_SECONDS", -1.0)
        outcome = rig.memory.commit(plan(notion(NOTION), belief(1, "It rains.", (NOTION,))))
    assert not outcome.complete
    (marker,) = outcome.repair_needed
    assert (marker.objects, marker.cause.cause) == ((LOST,), "graph_query")  # type: ignore[union-attr]
    assert rig.points() == {}
    rig.memory.upkeep.sweep()
    assert rig.points() == {LOST: "It rains."}


class Held(HashingEmbedding):
    """Keeps the batch with `word` waiting until it is let go."""

    def __init__(self, dimension: int, word: str) -> None:
        super().__init__(dimension)
        self.word = word
        self.reached, self.go = threading.Event(), threading.Event()

    def bulk_generate_embeddings(self, texts: Sequence[str]) -> list[list[float]]:
        if self.word in texts:
            self.reached.set()
            assert self.go.wait(30)
        return super().bulk_generate_embeddings(texts)


@pytest.mark.spec("core-105")
@LOSSES
def test_a_slow_writer_that_embedded_before_the_loss_writes_nothing(rig: Rig, lose: Loss) -> None:
    rig.memory.commit(plan(notion(NOTION)))
    held = rig.embedder.inner = Held(DIMENSION, "It rains.")
    outcomes: list[RememberOutcome] = []
    slow = threading.Thread(
        target=lambda: outcomes.append(rig.memory.commit(plan(belief(1, "It rains.", (NOTION,)))))
    )
    slow.start()
    assert held.reached.wait(30)
    lose(rig)
    held.go.set()
    slow.join(30)

    (outcome,) = outcomes
    assert outcome.persisted_object_ids == (LOST,)
    assert outcome.vector_indexed_object_ids == ()
    assert LOST not in rig.points()
    rig.memory.upkeep.sweep()
    assert rig.points() == remains(rig, lose)
    assert rig.backlog() == (0, 0)


@pytest.mark.spec("core-105")
def test_an_upsert_between_the_forgets_commit_and_its_delete_does_not_stay(rig: Rig) -> None:
    """The slow writer has read the graph before the forget, and writes after it was committed."""
    rig.memory.commit(plan(notion(NOTION)))
    forgetter = threading.Thread(target=forgotten, args=(rig,))

    def meanwhile(present: Any) -> Any:
        before = rig.head()
        forgetter.start()
        while rig.head() == before:
            time.sleep(0.005)
        return present

    # The second look at the index is the one between reading the graph and writing.
    rig.vectors.alter("present", lambda present: present)
    rig.vectors.alter("present", meanwhile)
    outcome = rig.memory.commit(plan(belief(1, "It rains.", (NOTION,))))
    forgetter.join(30)

    assert outcome.vector_indexed_object_ids == (LOST,), "it was written after the forget's commit"
    assert rig.stored(LOST).suppressed
    assert rig.points() == {}
    rig.memory.upkeep.sweep()
    assert rig.points() == {}
    assert rig.backlog() == (0, 0)


@pytest.mark.spec("core-105")
@LOSSES
def test_an_upsert_of_another_process_after_the_delete_is_undone_before_the_mark_passes(
    open_rig: OpenRig, lose: Loss
) -> None:
    rig = open_rig(mode="service")
    rig.memory.commit(plan(notion(NOTION), belief(1, "It rains.", (NOTION,))))
    if lose is superseded:
        new = replacement("It snows.", id=uid(2), given_by_application=True, entity_ids=(uid(NOTION),))
        rig.memory.correct(correction(1, replacements=(new,)))
    else:
        forgotten(rig)
    assert rig.points() == remains(rig, lose)
    put_point(rig, LOST, "It rains.", VectorSurface.DERIVED_TEXT)

    rig.clock.forward(minutes=2)
    assert rig.memory.upkeep.sweep().repaired == (LOST,)
    assert rig.points() == remains(rig, lose)
    assert rig.backlog()[0] > 0, "whoever was late once may be so again"
    rig.memory.upkeep.sweep()
    assert rig.points() == remains(rig, lose)
    assert rig.backlog() == (0, 0)
