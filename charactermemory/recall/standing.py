"""How one object stands: whether policy leaves it out, and what orders it among its node's neighbours."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Literal, NamedTuple

from charactermemory.domain.lifecycle import LifecyclePolicy, Stored
from charactermemory.domain.objects import Entity, MemoryLink, MemoryObject, memory_time
from charactermemory.ids import MemoryObjectRef
from charactermemory.ports.statistics import Hint

Denial = Literal["missing", "suppressed", "superseded"]
"""Why an object is not admitted."""


class Standing(NamedTuple):
    """What is known of one object.

    Attributes:
        denied: why it is left out; None if it is not, or not known to be.
        salience: its salience score; 0 for what has none.
        when: when it happened, in seconds since 1970; 0 for what has no time.
        considered: whether it may be admitted; False for one that the final read left out, so that only its
            place among its node's neighbours is known.
    """

    denied: Denial | None = None
    salience: float = 0.0
    when: float = 0.0
    considered: bool = True


ASSUMED = Standing()
"""What is taken of an object nothing is known about; the verdict decides."""

MISSING = Standing(denied="missing")

StandingOf = Callable[[MemoryObjectRef], Standing]
"""Tells how an object stands."""


def hinted(hint: Hint, policy: LifecyclePolicy) -> Standing:
    """Read what the statistics hint at. It does not tell whether a suppressed object is superseded as well."""
    denied: Denial | None = None
    if hint.suppressed:
        denied = None if policy.include_suppressed else "suppressed"
    elif not hint.current:
        denied = None if policy.include_superseded else "superseded"
    return Standing(denied=denied, salience=hint.salience, when=hint.when)


def judged(stored: Stored, policy: LifecyclePolicy, when: float) -> Standing:
    """Read the graph's own word on all but when it happened, for which an observation's episode may be needed."""
    salience: float = getattr(stored.object, "salience_score", 0.0)
    return Standing(denied=stored.omitted_as(policy), salience=salience, when=when)


def seconds(item: MemoryObject, episode_instant: datetime | None = None) -> float:
    """Return when something happened, in seconds since 1970; 0 for what has no time."""
    return 0.0 if isinstance(item, Entity | MemoryLink) else memory_time(item, episode_instant).timestamp()
