"""Memories of one collection answer alike, whatever each of them keeps of what it wrote and read before."""

from __future__ import annotations

import pytest

from tests.facade.conftest import Open
from tests.facade.several import Company


@pytest.mark.parametrize("seed", range(3))
def test_each_answers_as_one_that_was_opened_just_now(open_memory: Open, seed: int) -> None:
    company = Company(open_memory, seed)
    done = []
    for step in range(60):
        done.append(company.act(0 if step < 20 else None))
        if step % 3 == 2:
            assert not list(company.differences()), done
