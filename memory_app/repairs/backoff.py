"""How long a repair that failed waits before it is tried again."""

from __future__ import annotations

BASE_SECONDS = 5.0
"""Longest wait after the first failure."""
CAP_SECONDS = 3600.0
"""Longest wait after any failure."""


def full_jitter(
    attempt: int, uniform: float, *, base: float = BASE_SECONDS, cap: float = CAP_SECONDS
) -> float:
    """Return the seconds to wait after failed attempt number `attempt`: `uniform` x min(cap, base x 2^(n-1)).

    Full jitter spreads rows that failed together over the whole interval (django-practice §5.3.8).

    Args:
        attempt: how many attempts have failed, from 1.
        uniform: a random number in 0.0..1.0, handed in so that the curve can be tested.
        base: the longest first wait.
        cap: the longest wait at all.
    """
    # Beyond 2^63 the doubling has long met the cap; the float would overflow near 2^1024.
    doublings = min(max(attempt, 1) - 1, 63)
    return uniform * min(cap, base * 2.0**doublings)
