"""How references, states and times stand in rows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import NamedTuple
from uuid import UUID

from charactermemory.domain.kinds import RelationType
from charactermemory.ids import MemoryObjectRef, ObjectType
from charactermemory.ports.statistics import CountScope, HubEdge, ObjectState

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_TYPES = tuple(ObjectType)
_RELATIONS = tuple(RelationType)


class Standing(IntEnum):
    """How much influence an object has; merging takes the lesser, so it can only sink."""

    SUPPRESSED = 0
    SUPERSEDED = 1
    CURRENT = 2


STANDINGS: dict[CountScope, tuple[Standing, ...]] = {
    "total": (Standing.CURRENT, Standing.SUPERSEDED, Standing.SUPPRESSED),
    "active": (Standing.CURRENT, Standing.SUPERSEDED),
    "current": (Standing.CURRENT,),
}
"""What each scope counts."""


class Weight(NamedTuple):
    """What a state row holds, and an edge row repeats but for `month_day`."""

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

Key = tuple[bytes, int]
"""A reference in a row: the id's bytes, the type's rank."""


def key_of(ref: MemoryObjectRef) -> Key:
    """Return the columns of a reference."""
    return ref.id.bytes, ref.object_type.rank


def ref_of(id_bytes: bytes, rank: int) -> MemoryObjectRef:
    """Return the reference in two columns."""
    return MemoryObjectRef(object_type=_TYPES[rank], id=UUID(bytes=id_bytes))


def weight_of(state: ObjectState) -> Weight:
    """Return what of a state is merged and stored."""
    standing = Standing.CURRENT if state.current else Standing.SUPERSEDED
    return Weight(
        standing=Standing.SUPPRESSED if state.suppressed else standing,
        salience=state.salience,
        memory_time=(state.memory_time - _EPOCH) // _MICROSECOND,
        month_day=state.month_day,
    )


def state_of(ref: MemoryObjectRef, weight: Weight) -> ObjectState:
    """Return the state that a row holds."""
    return ObjectState(
        ref=ref,
        suppressed=weight.standing == Standing.SUPPRESSED,
        current=weight.standing == Standing.CURRENT,
        salience=weight.salience,
        memory_time=_EPOCH + weight.memory_time * _MICROSECOND,
        month_day=weight.month_day,
    )


def edge_of(hub: bytes, hub_rank: int, relation_rank: int, ref: MemoryObjectRef) -> HubEdge:
    """Return the edge of `ref` that a row holds."""
    return HubEdge(ref_of(hub, hub_rank), _RELATIONS[relation_rank], ref)
