"""How statistics are merged, whatever keeps the rows (recall.md §13.1-13.3). Pure.

Edges are only added and states only restrict, so order and repetition do not matter; counters follow by
differences.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Generic, NamedTuple, TypeVar

from charactermemory.ids import MemoryObjectRef
from charactermemory.ports.statistics import CountScope, Hint, ObjectState

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Standing(IntEnum):
    """How much influence an object has; merging takes the lesser, so it can only sink."""

    SUPPRESSED = 0
    SUPERSEDED = 1
    CURRENT = 2


_SUPPRESSED, _CURRENT = Standing.SUPPRESSED, Standing.CURRENT
"""At hand, for looking up an enumeration's member costs more than a whole hint."""

STANDINGS: dict[CountScope, tuple[Standing, ...]] = {
    "total": (Standing.CURRENT, Standing.SUPERSEDED, Standing.SUPPRESSED),
    "active": (Standing.CURRENT, Standing.SUPERSEDED),
    "current": (Standing.CURRENT,),
}
"""What each scope counts."""


class Weight(NamedTuple):
    """What a store keeps of a state, and repeats at each edge of the object but for `month_day`.

    `memory_time` is in microseconds since 1970.
    """

    standing: int
    salience: float
    memory_time: int
    month_day: str

    def merged(self, other: Weight) -> Weight:
        """Combine two records of one object: the lesser standing, the later time with what belongs to it.

        Independent of order and repetition.
        """
        later = max(self, other, key=lambda weight: (weight.memory_time, weight.month_day, weight.salience))
        return later._replace(standing=min(self.standing, other.standing))


UNWEIGHTED = Weight(Standing.CURRENT, 0.0, 0, "")
"""Of an object without a state: a notion, or one whose state was not projected yet."""


def weight_of(state: ObjectState) -> Weight:
    """Return what of a state is merged and stored."""
    standing = Standing.CURRENT if state.current else Standing.SUPERSEDED
    return Weight(
        standing=Standing.SUPPRESSED if state.suppressed else standing,
        salience=state.salience,
        memory_time=microseconds(state.memory_time),
        month_day=state.month_day,
    )


def state_of(ref: MemoryObjectRef, weight: Weight) -> ObjectState:
    """Return the state that a store keeps as `weight`."""
    return ObjectState(
        ref=ref,
        suppressed=weight.standing == Standing.SUPPRESSED,
        current=weight.standing == Standing.CURRENT,
        salience=weight.salience,
        memory_time=instant(weight.memory_time),
        month_day=weight.month_day,
    )


def hint_of(standing: int, salience: float, when: float) -> Hint:
    """Return the hint at a state that a store keeps so; `when` in seconds since 1970."""
    return Hint(standing == _SUPPRESSED, standing == _CURRENT, salience, when)


def microseconds(when: datetime) -> int:
    """Return an instant as a number that sorts and compares exactly."""
    return (when - _EPOCH) // _MICROSECOND


def seconds(number: int) -> float:
    """Return what `microseconds` made a number of as `datetime.timestamp` does."""
    return number / 1_000_000


def instant(number: int) -> datetime:
    """Return the instant that `microseconds` made a number of, in UTC."""
    return _EPOCH + number * _MICROSECOND


CounterKey = TypeVar("CounterKey")
OverallKey = TypeVar("OverallKey")


class CounterChanges(Generic[CounterKey]):
    """Differences to (total, active, current), gathered by the key of a hub's counter."""

    def __init__(self) -> None:
        self.by_hub: defaultdict[CounterKey, list[int]] = defaultdict(lambda: [0, 0, 0])

    def edge_added(self, key: CounterKey, standing: int) -> None:
        """Count a new edge whose object stands so."""
        change = self.by_hub[key]
        change[0] += 1
        change[1] += standing >= Standing.SUPERSEDED
        change[2] += standing == Standing.CURRENT

    def edge_moved(self, key: CounterKey, before: int, after: int) -> None:
        """Count that the object of a recorded edge stands differently now."""
        change = self.by_hub[key]
        change[1] += (after >= Standing.SUPERSEDED) - (before >= Standing.SUPERSEDED)
        change[2] += (after == Standing.CURRENT) - (before == Standing.CURRENT)

    def overall(self, without_hub: Callable[[CounterKey], OverallKey]) -> dict[OverallKey, list[int]]:
        """Sum the differences over all hubs."""
        sums: defaultdict[OverallKey, list[int]] = defaultdict(lambda: [0, 0, 0])
        for key, change in self.by_hub.items():
            total = sums[without_hub(key)]
            for index, number in enumerate(change):
                total[index] += number
        return dict(sums)
