from __future__ import annotations

import pytest

from memory_app.repairs.backoff import full_jitter


@pytest.mark.parametrize(
    ("attempt", "longest"), [(1, 5), (2, 10), (3, 20), (10, 2560), (11, 3600), (12, 3600), (5000, 3600)]
)
def test_the_longest_wait_doubles_up_to_an_hour(attempt: int, longest: float) -> None:
    assert full_jitter(attempt, 1.0) == longest
    assert full_jitter(attempt, 0.0) == 0.0
    assert full_jitter(attempt, 0.25) == longest / 4


def test_base_and_cap_are_the_hosts() -> None:
    assert full_jitter(3, 1.0, base=2.0, cap=7.0) == 7.0
