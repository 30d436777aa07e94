"""Memories of one collection answer alike, whatever each of them keeps of what it wrote and read before."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.facade.conftest import Open
from tests.facade.several import Company
from tests.graph import faults
from tests.graph.faults import Fault


def play(company: Company) -> None:
    """Let one write alone for a while, then all by turns, and compare what they answer after every third deed.

    In between the stores are opened anew, let rest, swept, or given a greater number to go on from.
    """
    done = []
    for step in range(60):
        done.append(company.act(0 if step < 20 else None))
        if step % 8 == 7:
            done.append(company.disturb())
        if step % 3 == 2:
            assert not list(company.differences()), done


def each(seeds: Iterable[int]) -> list[object]:
    """The first are tried by default, the others in slow runs."""
    return [pytest.param(seed, marks=[pytest.mark.slow] if seed > 1 else []) for seed in seeds]


@pytest.mark.parametrize("seed", each(range(14)))
def test_each_answers_as_one_that_was_opened_just_now(open_memory: Open, seed: int) -> None:
    play(Company(open_memory, seed))


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault",
    [
        faults.touched_is_kept,
        faults.forgotten_stands,
        faults.superseded_stands,
        faults.commits_of_others_unseen,
        faults.commits_of_others_passed_over,
        faults.new_names_unseen,
        faults.asked_otherwise,
        faults.small_crowds,
        faults.nobody_spoke,
    ],
)
def test_a_planted_fault_is_found(open_memory: Open, fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)
    with pytest.raises(AssertionError):
        for seed in range(3):
            play(Company(lambda seed=seed: open_memory(f"memory-{seed}"), seed))
