"""The export sorts any amount in bounded memory."""

from __future__ import annotations

import random

import pytest

from charactermemory.adapters.oxigraph.export import sorted_lines


@pytest.mark.parametrize("count", [0, 1, 4, 5, 6, 11, 50])
def test_lines_are_sorted_over_many_runs(count: int) -> None:
    lines = [b"<urn:%03d> ." % number + b"\n" for number in range(count)]
    shuffled = random.Random(count).sample(lines, count)
    assert list(sorted_lines(shuffled, run_lines=5)) == lines
    assert list(sorted_lines(iter(shuffled * 2), run_lines=5)) == lines


def test_lines_are_read_as_they_come() -> None:
    """No more than one run is held."""
    taken = []

    def source():
        for number in range(100):
            taken.append(number)
            yield b"%03d\n" % (99 - number)

    assert next(sorted_lines(source(), run_lines=10)) == b"000\n"
    assert len(taken) == 100
