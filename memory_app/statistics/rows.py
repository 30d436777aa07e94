"""One generation of a collection's statistics: its rows by key, read and written many at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
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
from memory_app.statistics.upserts import Table

READ_AT_ONCE = 500
"""Ids or keys in one query; every database takes as many."""
GROUPS_AT_ONCE = 50
"""Alternatives in one query for edges."""

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
_GENERATION = ("collection", "generation")

_STATES = Table(MemoryState, (*_GENERATION, *_OBJECT_KEY), (*_WEIGHT_COLUMNS, "month_day"))
_EDGES = Table(EntityEdge, (*_GENERATION, *_EDGE_KEY), _WEIGHT_COLUMNS)
_HUBS = Table(EntityRelationCount, (*_GENERATION, *_HUB_KEY), _COUNTS)
_TOTALS = Table(GlobalRelationCount, (*_GENERATION, *_TOTAL_KEY), _COUNTS)


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
        _STATES.put(
            self.using,
            (
                self._own | _object(ref) | _columns(weight) | {"month_day": weight.month_day}
                for ref, weight in sorted(weights.items())
            ),
        )

    def write_edges(self, weights: Mapping[HubEdge, Weight]) -> None:
        """Record edges with what their objects weigh, in place of those recorded."""
        _EDGES.put(
            self.using,
            (
                self._own | _hub(edge.hub, edge.relation) | _object(edge.object) | _columns(weight)
                for edge, weight in sorted(weights.items(), key=lambda item: _edge_order(item[0]))
            ),
        )

    def add_to_hubs(self, changes: Mapping[HubKey, Sequence[int]]) -> None:
        """Add differences to the hubs' counters, in key order."""
        _HUBS.add(
            self.using,
            (
                self._own | _hub(hub, relation) | {"object_type": kind.value} | _counts(change)
                for (hub, relation, kind), change in sorted(changes.items(), key=_hub_order)
            ),
        )

    def add_to_totals(self, changes: Mapping[TotalKey, Sequence[int]]) -> None:
        """Add differences to the counters over all hubs, in key order."""
        _TOTALS.add(
            self.using,
            (
                self._own | {"relation": relation.value, "object_type": kind.value} | _counts(change)
                for (relation, kind), change in sorted(changes.items(), key=_total_order)
            ),
        )

    @property
    def _own(self) -> dict[str, object]:
        return {"collection": self.collection, "generation": self.number}

    def rows(self, model: type[_Row]) -> QuerySet[_Row]:
        """Return all rows of one table."""
        return model._default_manager.using(self.using).filter(**self._own)


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


def _object(ref: MemoryObjectRef) -> dict[str, object]:
    return {"object_id": ref.id, "object_type": ref.object_type.value}


def _hub(hub: MemoryObjectRef, relation: RelationType) -> dict[str, object]:
    return {"hub_id": hub.id, "hub_type": hub.object_type.value, "relation": relation.value}


def _counts(change: Sequence[int]) -> dict[str, object]:
    return dict(zip(_COUNTS, change, strict=True))


def _edge_order(edge: HubEdge) -> tuple[object, ...]:
    return edge.hub.order, edge.relation.rank, edge.object.order


def _hub_order(item: tuple[HubKey, Sequence[int]]) -> tuple[object, ...]:
    (hub, relation, object_type), _ = item
    return hub.order, relation.rank, object_type.rank


def _total_order(item: tuple[TotalKey, Sequence[int]]) -> tuple[int, int]:
    (relation, object_type), _ = item
    return relation.rank, object_type.rank
