"""A host that has a transaction open puts the statistics off; nothing is lost when it forgets them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from charactermemory import (
    CharacterMemory,
    ForgetMemoryDraft,
    MemoryLinkDraft,
    MemoryObjectRef,
    RelationType,
)
from charactermemory.composition import Opened
from tests.support.rig import Rig


@pytest.fixture
def taken() -> list[tuple[MemoryObjectRef, ...]]:
    return []


@pytest.fixture
def postponing(rig: Rig, taken: list[tuple[MemoryObjectRef, ...]]) -> CharacterMemory:
    """The rig's memory in a host that takes every statistics step over."""

    def take(refs: Sequence[MemoryObjectRef]) -> bool:
        taken.append(tuple(refs))
        return True

    stores = replace(rig.memory.stores, postpone_statistics=take)
    return CharacterMemory(Opened(stores, lambda: None), rig.memory.settings, rig.memory.collection)


def test_every_write_says_what_it_left_for_later(
    postponing: CharacterMemory, rig: Rig, taken: list[tuple[MemoryObjectRef, ...]]
) -> None:
    outcome = postponing.remember("The heater ticks.")
    episode, observation = outcome.persisted_object_ids
    linked = postponing.link(
        MemoryLinkDraft.new(
            observation.object_type, observation.id, RelationType.MENTIONS, episode.object_type, episode.id
        )
    )
    forgotten = postponing.forget(ForgetMemoryDraft.suppress(observation, "A test."))
    for written, refs in zip((outcome, linked, forgotten), taken, strict=True):
        assert not written.complete and not written.repair_needed
        assert written.stats_update_status.status == "pending"
        assert tuple(sorted(written.pending)) == refs
    head = rig.memory.stores.graph.head()
    assert rig.memory.stores.statistics.states([episode]) == {}
    assert rig.memory.stores.statistics.health(head).state == "lagging"
    assert rig.memory.upkeep.sweep().statistics_backlog == 0
    assert rig.memory.stores.statistics.states([observation])[observation].suppressed
    assert rig.memory.upkeep.verify().differences == 0


def test_a_later_write_does_not_let_the_mark_pass_what_was_put_off(
    postponing: CharacterMemory, rig: Rig
) -> None:
    postponing.remember("The heater ticks.")
    assert rig.memory.remember("The kettle sings.").complete
    assert rig.memory.stores.statistics.cursor().applied == 0
