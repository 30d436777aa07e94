"""One generation of a collection's statistics: its rows by key, read and written many at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

from django.db import models
from django.db.models import Q, QuerySet, Subquery

from charactermemory.domain.kinds import RelationType
from charactermemory.ids import MemoryObjectRef, ObjectType
from charactermemory.ports.merging import Weight, instant, microseconds
from charactermemory.ports.statistics import HubEdge, HubKey
from memory_app.models import EntityEdge, EntityRelationCount, GlobalRelationCount, MemoryState

READ_AT_ONCE = 500
"""Ids or keys in one query; every database takes as many."""
GROUPS_AT_ONCE = 50
"""Alternatives in one query for edges."""
WRITTEN_AT_ONCE = 500
"""Rows in one statement, less where the database takes fewer."""

TotalKey = tuple[RelationType, ObjectType]
"""Of an overall counter."""
_Key = TypeVar("_Key")
_Item = TypeVar("_Item")
_Row = TypeVar("_Row", bound=models.Model)

_WEIGHT_COLUMNS = ("standing", "salience", "memory_time")
_COUNTS = ("total", "active", "current")
_EDGE_KEY = ("hub_id", "hub_type", "relation", "object_id", "object_type")
_OBJECT_KEY = ("object_id", "object_type")
_HUB_KEY = ("hub_id", "hub_type", "relation", "object_type")
_TOTAL_KEY = ("relation", "object_type")


@dataclass(frozen=True)
class Generation:
    """The rows of one generation. Every method is one query a batch; the caller holds the transaction.

    `number` may be a subquery for reading: the generation is then found by the query that reads its rows, so
    that no switch comes between.
    """

    using: str
    collection: str
    number: int | Subquery

    def weights(self, refs: Collection[MemoryObjectRef]) -> dict[MemoryObjectRef, Weight]:
        """Return the recorded states among `refs`."""
        found: dict[MemoryObjectRef, Weight] = {}
        for part in parts(refs, READ_AT_ONCE):
            rows = self.rows(MemoryState).filter(object_id__in=[ref.id for ref in part])
            for row in rows.values_list(*_OBJECT_KEY, *_WEIGHT_COLUMNS, "month_day"):
                ref = reference(row[1], row[0])
                found[ref] = Weight(row[2], row[3], microseconds(row[4]), row[5])
        wanted = set(refs)
        return {ref: weight for ref, weight in found.items() if ref in wanted}

    def edges_of(self, refs: Collection[MemoryObjectRef]) -> dict[HubEdge, int]:
        """Return the recorded edges of each object among `refs`, with the standing they carry."""
        wanted, found = set(refs), {}
        for part in parts(refs, READ_AT_ONCE):
            rows = self.rows(EntityEdge).filter(object_id__in=[ref.id for ref in part])
            for row in rows.values_list(*_EDGE_KEY, "standing"):
                edge = _edge(row)
                if edge.object in wanted:
                    found[edge] = row[5]
        return found

    def known_edges(self, edges: Collection[HubEdge]) -> set[HubEdge]:
        """Return which of `edges` are recorded, by exact keys: a hub, and an object, may have any number."""
        groups: defaultdict[tuple[MemoryObjectRef, RelationType], list[MemoryObjectRef]] = defaultdict(list)
        for edge in edges:
            groups[edge.hub, edge.relation].append(edge.object)
        alternatives = [
            Q(
                hub_id=hub.id,
                hub_type=hub.object_type.value,
                relation=relation.value,
                object_id__in=[ref.id for ref in objects],
            )
            for (hub, relation), every in groups.items()
            for objects in parts(every, READ_AT_ONCE)
        ]
        found: set[HubEdge] = set()
        for some in parts(alternatives, GROUPS_AT_ONCE):
            condition = Q()
            for alternative in some:
                condition |= alternative
            rows = self.rows(EntityEdge).filter(condition).values_list(*_EDGE_KEY)
            found.update(_edge(row) for row in rows)
        return found.intersection(edges)

    def write_states(self, weights: Mapping[MemoryObjectRef, Weight]) -> None:
        """Record states, in place of those recorded."""
        rows = [
            MemoryState(
                object_type=ref.object_type.value,
                object_id=ref.id,
                month_day=weight.month_day,
                **self._own,
                **_columns(weight),
            )
            for ref, weight in sorted(weights.items())
        ]
        self._write(MemoryState, rows, _OBJECT_KEY, (*_WEIGHT_COLUMNS, "month_day"))

    def write_edges(self, weights: Mapping[HubEdge, Weight]) -> None:
        """Record edges with what their objects weigh, in place of those recorded."""
        rows = [
            EntityEdge(
                hub_type=edge.hub.object_type.value,
                hub_id=edge.hub.id,
                relation=edge.relation.value,
                object_type=edge.object.object_type.value,
                object_id=edge.object.id,
                **self._own,
                **_columns(weight),
            )
            for edge, weight in sorted(weights.items(), key=lambda item: _edge_order(item[0]))
        ]
        self._write(EntityEdge, rows, _EDGE_KEY, _WEIGHT_COLUMNS)

    def add_to_hubs(self, changes: Mapping[HubKey, Sequence[int]]) -> None:
        """Add differences to the hubs' counters, in key order."""
        recorded: dict[HubKey, tuple[int, int, int]] = {}
        for part in parts({hub for hub, _, _ in changes}, READ_AT_ONCE):
            rows = self.rows(EntityRelationCount).filter(hub_id__in=[hub.id for hub in part])
            for row in rows.values_list(*_HUB_KEY, *_COUNTS):
                key = reference(row[1], row[0]), RelationType(row[2]), ObjectType(row[3])
                recorded[key] = row[4], row[5], row[6]
        counters = [
            EntityRelationCount(
                hub_type=hub.object_type.value,
                hub_id=hub.id,
                relation=relation.value,
                object_type=object_type.value,
                **self._own,
                **_sums(recorded.get((hub, relation, object_type)), change),
            )
            for (hub, relation, object_type), change in sorted(changes.items(), key=_hub_order)
        ]
        self._write(EntityRelationCount, counters, _HUB_KEY, _COUNTS)

    def add_to_totals(self, changes: Mapping[TotalKey, Sequence[int]]) -> None:
        """Add differences to the counters over all hubs, in key order."""
        rows = self.rows(GlobalRelationCount).values_list(*_TOTAL_KEY, *_COUNTS)
        recorded = {(RelationType(row[0]), ObjectType(row[1])): (row[2], row[3], row[4]) for row in rows}
        counters = [
            GlobalRelationCount(
                relation=relation.value,
                object_type=object_type.value,
                **self._own,
                **_sums(recorded.get((relation, object_type)), change),
            )
            for (relation, object_type), change in sorted(
                changes.items(), key=lambda item: (item[0][0].rank, item[0][1].rank)
            )
        ]
        self._write(GlobalRelationCount, counters, _TOTAL_KEY, _COUNTS)

    @property
    def _own(self) -> dict[str, object]:
        return {"collection": self.collection, "generation": self.number}

    def rows(self, model: type[_Row]) -> QuerySet[_Row]:
        """Return all rows of one table."""
        return model._default_manager.using(self.using).filter(**self._own)

    def _write(
        self, model: type[_Row], rows: list[_Row], key: tuple[str, ...], values: tuple[str, ...]
    ) -> None:
        if rows:
            model._default_manager.using(self.using).bulk_create(
                rows,
                batch_size=WRITTEN_AT_ONCE,
                update_conflicts=True,
                unique_fields=("collection", "generation", *key),
                update_fields=values,
            )


def reference(object_type: str, id: UUID) -> MemoryObjectRef:
    """Return the reference in two columns."""
    return MemoryObjectRef.of(ObjectType(object_type), id)


def parts(items: Collection[_Item], size: int) -> Iterator[list[_Item]]:
    """Cut `items` into lists of at most `size`."""
    every = list(items)
    for start in range(0, len(every), size):
        yield every[start : start + size]


def _edge(row: Sequence[Any]) -> HubEdge:
    hub_id, hub_type, relation, object_id, object_type = row[:5]
    return HubEdge(reference(hub_type, hub_id), RelationType(relation), reference(object_type, object_id))


def _columns(weight: Weight) -> dict[str, object]:
    return {
        "standing": int(weight.standing),
        "salience": weight.salience,
        "memory_time": instant(weight.memory_time),
    }


def _sums(recorded: Iterable[int] | None, change: Iterable[int]) -> dict[str, int]:
    sums = (old + new for old, new in zip(recorded or (0, 0, 0), change, strict=True))
    return dict(zip(_COUNTS, sums, strict=True))


def _edge_order(edge: HubEdge) -> tuple[object, ...]:
    return edge.hub.order, edge.relation.rank, edge.object.order


def _hub_order(item: tuple[HubKey, Sequence[int]]) -> tuple[object, ...]:
    (hub, relation, object_type), _ = item
    return hub.order, relation.rank, object_type.rank
