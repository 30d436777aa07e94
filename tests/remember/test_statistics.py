"""The statistics half of a commit (core-59 to core-61)."""

from __future__ import annotations

import pytest

from charactermemory.domain.kinds import RelationType
from charactermemory.domain.repair import StatsUpdateMarker
from charactermemory.errors import RetrievalStatsStoreError
from charactermemory.ids import ObjectType, about_link_id, supersedes_link_id
from charactermemory.ports.statistics import Count
from charactermemory.remember.outcome import CommitOptions
from charactermemory.revise.drafts import ForgetMemoryDraft
from charactermemory.testing.statistics_model import counts_of, overall_of
from tests.support.plans import (
    belief,
    episode,
    episode_ref,
    link_ref,
    memory_ref,
    notion,
    notion_ref,
    plan,
    uid,
)
from tests.support.rig import Rig

BROKEN = RetrievalStatsStoreError("sqlite", "disk I/O error")


def about(rig: Rig, of: int) -> Count | None:
    """The counter of derived memories about notion `of`."""
    hub = notion_ref(of)
    found = counts_of(rig.statistics.inner, [hub], RelationType.ABOUT, ObjectType.DERIVED_MEMORY)
    return found.get(hub)


def about_anything(rig: Rig) -> Count | None:
    """The counter of derived memories about any notion."""
    return overall_of(rig.statistics.inner, RelationType.ABOUT, ObjectType.DERIVED_MEMORY)


def health(rig: Rig) -> str:
    state: str = rig.statistics.inner.health(rig.head()).state
    return state


@pytest.mark.spec("core-59")
@pytest.mark.parametrize("repair", ["replay", "sweep"])
def test_a_failed_write_is_reported_lags_and_is_healed(rig: Rig, repair: str) -> None:
    rig.memory.commit(plan(notion(1), belief(2, "It rains.", (1,))))
    made = plan(episode(4, "tea"), belief(3, "It stopped.", (1,), supersedes=(uid(2),)))
    rig.statistics.fail("apply", BROKEN)
    outcome = rig.memory.commit(made)
    [marker] = outcome.repair_needed
    assert isinstance(marker, StatsUpdateMarker)
    [cause] = marker.causes
    assert (cause.cause, cause.code, cause.kind) == ("stats_write", "retrieval_stats_store", "sqlite")
    attempted = {
        episode_ref(4),
        memory_ref(3),
        memory_ref(2),
        link_ref(about_link_id(uid(3), uid(1))),
        link_ref(supersedes_link_id(uid(3), uid(2))),
    }
    assert set(marker.objects) == attempted
    assert outcome.stats_update_status.status == "failed"
    assert outcome.stats_update_status.updated_object_ids == ()
    assert set(outcome.stats_update_status.failed_object_ids) == attempted
    assert outcome.stats_update_status.causes == marker.causes
    [message] = outcome.diagnostics.messages
    assert message.code == "stats_update_failed"
    assert message.text == "the statistics of 5 objects are not up to date: stats_write"
    assert not outcome.complete
    assert health(rig) == "lagging"
    assert about(rig, 1) == Count(total=1, active=1, current=1)

    rig.memory.commit(plan(notion(1), belief(2, "It rains.", (1,))))  # an older replay heals nothing
    rig.memory.commit(plan(notion(9)))  # nor does a later commit
    assert health(rig) == "lagging"

    after = rig.memory.commit(made) if repair == "replay" else rig.memory.upkeep.sweep()
    assert after.repair_needed == ()
    assert health(rig) == "healthy"
    assert about(rig, 1) == Count(total=2, active=2, current=1)
    assert rig.backlog()[1] == 0


@pytest.mark.spec("core-60")
def test_a_derived_link_and_its_memorys_own_subject_count_once(rig: Rig) -> None:
    made = plan(notion(1), belief(2, "It rains.", (1,)))
    for _ in range(2):
        assert rig.memory.commit(made).complete
        assert about(rig, 1) == Count(total=1, active=1, current=1)


@pytest.mark.spec("core-61")
def test_supersession_and_forgetting_only_restrict_the_counters(rig: Rig) -> None:
    rig.memory.commit(plan(notion(1), belief(2, "It rains.", (1,))))
    rig.memory.commit(plan(notion(4), belief(3, "It stopped.", (4,), supersedes=(uid(2),))))
    assert about(rig, 1) == Count(total=1, active=1, current=0)
    assert about_anything(rig) == Count(total=2, active=2, current=1)

    rig.memory.forget(ForgetMemoryDraft.suppress(memory_ref(3), "a mistake"))
    assert about(rig, 1) == Count(total=1, active=1, current=0)
    assert about_anything(rig) == Count(total=2, active=1, current=0)


# --- beyond the numbered cases ---------------------------------------------------------------------


def test_statistics_left_for_later_are_pending_until_a_sweep(rig: Rig) -> None:
    outcome = rig.memory.commit(
        plan(notion(1), belief(2, "It rains.", (1,))), CommitOptions(update_stats=False)
    )
    assert {"apply", "advance"}.isdisjoint(rig.statistics.names())
    assert outcome.repair_needed == ()
    assert outcome.stats_update_status.status == "pending"
    assert set(outcome.pending) == {notion_ref(1), memory_ref(2), link_ref(about_link_id(uid(2), uid(1)))}
    assert not outcome.complete
    assert health(rig) == "lagging"
    assert rig.memory.upkeep.sweep().complete
    assert health(rig) == "healthy"
    assert about(rig, 1) == Count(total=1, active=1, current=1)
