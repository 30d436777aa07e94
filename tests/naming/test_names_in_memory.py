"""Names in a memory: what finds a notion, and what no longer does (core-63 to core-66)."""

from __future__ import annotations

import pytest

from tests.revise.drafts import forgetting, lines_of
from tests.support.plans import belief, memory_ref, naming, notion, plan, uid
from tests.support.rig import Rig

ADA, OTHER = 0xA1, 0xB2


@pytest.mark.spec("core-63")
def test_two_notions_of_one_name_are_both_found_sorted(rig: Rig) -> None:
    rig.memory.commit(plan(notion(OTHER), naming(2, OTHER, "alice  SMITH")))
    rig.memory.commit(plan(notion(ADA), naming(1, ADA, "Alice Smith")))
    assert rig.named("Alice Smith") == (uid(ADA), uid(OTHER))


FIRST = plan(notion(ADA), naming(1, ADA, "Alice"))
RENAME = plan(naming(2, ADA, "Alicia", supersedes=(uid(1),)))


@pytest.mark.spec("core-64")
def test_a_rename_moves_the_cue_and_leaves_the_old_belief_as_it_was(rig: Rig) -> None:
    rig.memory.commit(FIRST)
    assert rig.named("Alice") == (uid(ADA),)
    old, old_lines = rig.stored(memory_ref(1)).object, lines_of(rig, memory_ref(1))

    for replay in (RENAME, FIRST, RENAME):
        rig.memory.commit(replay)
        assert rig.named("Alicia") == (uid(ADA),)
        assert rig.named("Alice") == ()
        stored = rig.stored(memory_ref(1))
        assert stored.object == old
        assert stored.superseded_by == (uid(2),)
        assert lines_of(rig, memory_ref(1)) == old_lines


@pytest.mark.spec("core-65")
def test_forgetting_the_rename_brings_the_old_name_not_back(rig: Rig) -> None:
    rig.memory.commit(FIRST)
    rig.memory.commit(RENAME)
    rig.memory.forget(forgetting(memory_ref(2)))
    assert rig.named("Alicia") == ()
    assert rig.named("Alice") == ()


@pytest.mark.spec("core-66")
def test_a_name_in_a_text_names_nobody(rig: Rig) -> None:
    rig.memory.commit(plan(notion(ADA), belief(1, "someone calls it Alice", (ADA,))))
    assert rig.stored(memory_ref(1)).object.text == "someone calls it Alice"
    assert rig.named("Alice") == ()
