"""How the queue behaves, from the host's settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from memory_app.conf import app_settings
from memory_app.repairs.backoff import BASE_SECONDS, CAP_SECONDS
from memory_app.repairs.failures import Failure


@dataclass(frozen=True)
class Policy:
    """The knobs of the queue (django-practice §5).

    Attributes:
        batch: rows claimed at a time.
        lease_seconds: how long a claim holds; longer than any task may run.
        max_attempts: attempts before a row is dead; copied onto the row when it is made.
        backoff_base_seconds: longest wait after the first failure.
        backoff_cap_seconds: longest wait after any.
        cooldown_seconds: how long an open circuit breaker lets nothing through.
        keep_days: how long settled rows are kept.
    """

    batch: int = 50
    lease_seconds: float = 360.0
    max_attempts: int = 8
    backoff_base_seconds: float = BASE_SECONDS
    backoff_cap_seconds: float = CAP_SECONDS
    cooldown_seconds: float = 30.0
    keep_days: int = 7

    @classmethod
    def configured(cls) -> Self:
        """Return what `settings.CHARACTER_MEMORY` says."""
        configured = app_settings()
        return cls(
            batch=configured.repair_batch,
            lease_seconds=configured.repair_lease_seconds,
            max_attempts=configured.repair_max_attempts,
            cooldown_seconds=configured.repair_cooldown_seconds,
            keep_days=configured.repair_keep_days,
        )

    def asked_for(self, *failures: Failure) -> float:
        """Return the seconds that a store or provider asked to be left alone, at most the longest wait."""
        waits = (failure.cause.retry_after_seconds or 0.0 for failure in failures)
        return min(max(waits, default=0.0), self.backoff_cap_seconds)
