"""What a write or a reconcile could not derive, object by object, whatever marker it came in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from charactermemory.domain.repair import (
    Cause,
    Fault,
    RepairMarker,
    StatsUpdateMarker,
    VectorIndexMarker,
    VectorMaintenanceItem,
)
from charactermemory.ids import MemoryObjectRef

StoreName = Literal["vector", "statistics"]
"""The derived stores, as `RepairMarker.Store` has them."""

DETAIL_LIMIT = 500
"""Characters kept of a cause's detail."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One object that a derived store may not have as the graph says, and why.

    `alone` tells that the cause is this object's own, not that of a batch it was part of.
    """

    store: StoreName
    ref: MemoryObjectRef
    cause: Cause
    alone: bool

    @property
    def fault(self) -> Fault:
        """Whose fault it is; a batch's permanent cause need not be that of each of its objects."""
        fault = self.cause.fault
        return "unclear" if fault == "permanent" and not self.alone else fault

    @property
    def code(self) -> str:
        """The machine-readable cause: what failed and, where known, how."""
        parts = (self.cause.cause, self.cause.kind or self.cause.code, self.cause.status)
        return ":".join(part for part in parts if part)[:64]

    @property
    def detail(self) -> str:
        """The cause in words, cut to the limit."""
        return self.cause.detail[:DETAIL_LIMIT]


def of_markers(markers: Iterable[RepairMarker]) -> Iterator[Failure]:
    """Yield the failures that an outcome's or a sweep's markers report."""
    for marker in markers:
        if isinstance(marker, StatsUpdateMarker):
            yield from of_statistics(marker.objects, marker.causes)
        elif isinstance(marker, VectorIndexMarker):
            yield from _of_item(marker.objects, marker.cause)
        else:
            yield from of_items(marker.failures)


def of_items(items: Iterable[VectorMaintenanceItem]) -> Iterator[Failure]:
    """Yield the failures of index operations."""
    for item in items:
        yield from _of_item(item.objects, item.cause)


def of_statistics(objects: Iterable[MemoryObjectRef], causes: Iterable[Cause]) -> Iterator[Failure]:
    """Yield the failures of a statistics step; its first cause stands for all."""
    first = next(iter(causes), None)
    refs = tuple(objects)
    if first is not None:
        for ref in refs:
            yield Failure("statistics", ref, first, len(refs) == 1)


def _of_item(objects: tuple[MemoryObjectRef, ...], cause: Cause) -> Iterator[Failure]:
    for ref in objects:
        alone = len(objects) == 1 if cause.object is None else cause.object == ref
        yield Failure("vector", ref, cause, alone)
