"""The statistics port on Django's ORM (DESIGN R11, consistency.md §8).

One write at a time a collection: each begins by updating the collection's health row, which every write
touches anyway, and so waits for the one before it instead of in a circle with it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from django.db.models import Case, F, IntegerField, Q, QuerySet, Subquery, Value, When
from django.db.models.functions import Greatest
from django.utils import timezone

from charactermemory.ids import MemoryObjectRef, ObjectType
from charactermemory.ports.merging import STANDINGS, Weight, microseconds, state_of
from charactermemory.ports.statistics import (
    Best,
    Counts,
    CountScope,
    Health,
    Hint,
    HubEdge,
    HubKey,
    ObjectState,
    Pair,
    Projection,
)
from charactermemory.ports.vectors import Cursor
from memory_app.models import (
    MemoryState,
    StatisticsHealth,
)
from memory_app.statistics.best import best_of
from memory_app.statistics.counting import counts_of
from memory_app.statistics.merging import merge
from memory_app.statistics.rebuilding import rebuild
from memory_app.statistics.rows import Generation, reference
from memory_app.transactions import reading, writing

_CAUSE_LIMIT = 500
_TYPE_RANK = Case(
    *(When(object_type=kind.value, then=Value(kind.rank)) for kind in ObjectType),
    output_field=IntegerField(),
)


class OrmStatistics:
    """One collection's statistics as rows of the host's database.

    Implements `charactermemory.ports.statistics.StatisticsStore` on the calling thread's connection. Reads go
    well inside a host's transaction; writes refuse to (consistency.md §8), see `memory_app.runtime`. Opening
    one reads nothing.
    """

    def __init__(self, collection: str, using: str = "default") -> None:
        """Take the collection's name and the alias of the database."""
        self._collection = collection
        self._using = using

    def apply(self, projection: Projection, high: int, applied: int = 0) -> str | None:
        """Record a projection; see the port."""
        marks = {
            "applied": _raised("applied", applied),
            "high": _raised("high", max(high, applied)),
            "building_high": _raised("building_high", high),
        }
        with writing(self._using):
            self._update(marks)
            *generations, cause = self._health().values_list("generation", "building", "cause").get()
            for number in generations:
                if number is not None:
                    merge(Generation(self._using, self._collection, number), projection)
        return cause or None

    def advance(self, applied: int) -> None:
        """Record that every commit up to `applied` is reflected; see the port."""
        with writing(self._using):
            self._update({"applied": _raised("applied", applied), "high": _raised("high", applied)})

    def mark_unhealthy(self, cause: str) -> None:
        """Record why the store is not to be trusted; kept until `rebuild`, the last cause winning."""
        with writing(self._using):
            self._update({"cause": cause[:_CAUSE_LIMIT]})

    def rebuild(self, projections: Iterable[Projection], applied: int) -> None:
        """Replace everything while the old rows serve; see the port and `rebuilding`."""
        rebuild(self._using, self._collection, projections, applied)

    def cursor(self) -> Cursor:
        """Return the place in the commit log."""
        with reading(self._using):
            row = self._health().values_list("applied", "high").first()
        return Cursor(*row) if row else Cursor(0, 0)

    def health(self, head: int) -> Health:
        """Return the health, given the graph's last commit number."""
        with reading(self._using):
            applied, cause = self._health().values_list("applied", "cause").first() or (0, "")
        if cause:
            return Health("unhealthy", cause)
        return Health("lagging") if applied < head else Health("healthy")

    def counts(self, hubs: Collection[MemoryObjectRef], pairs: Sequence[Pair]) -> Counts:
        """Return how common hubs are, by one query; see the port."""
        with reading(self._using):
            return counts_of(self._using, self._collection, hubs, pairs)

    def best(
        self,
        hubs: Collection[HubKey],
        scope: CountScope,
        limit: int,
        others: Collection[MemoryObjectRef] = (),
    ) -> Best:
        """Return each hub's best objects and hints, all by one query; see the port."""
        with reading(self._using):
            return best_of(self._using, self._collection, hubs, STANDINGS[scope], limit, others)

    def hints(self, refs: Collection[MemoryObjectRef]) -> dict[MemoryObjectRef, Hint]:
        """Return what recall needs of the recorded states among `refs`."""
        return self.best((), "total", 0, refs).hints

    def states(self, refs: Collection[MemoryObjectRef]) -> dict[MemoryObjectRef, ObjectState]:
        """Return the recorded states among `refs`."""
        with reading(self._using):
            found = self._serving().weights(refs)
        return {ref: state_of(ref, weight) for ref, weight in found.items()}

    def scan(self, after: MemoryObjectRef | None, limit: int) -> list[ObjectState]:
        """Page through all states in ref order."""
        rows = self._serving().rows(MemoryState).annotate(type_rank=_TYPE_RANK)
        if after:
            behind = Q(object_id__gt=after.id) | Q(type_rank__gt=after.object_type.rank)
            rows = rows.filter(behind, object_id__gte=after.id)
        with reading(self._using):
            return _states(rows.order_by("object_id", "type_rank")[: max(limit, 0)])

    def edges_of(self, refs: Collection[MemoryObjectRef]) -> dict[MemoryObjectRef, frozenset[HubEdge]]:
        """Return the recorded edges of each object among `refs`; one without any has no key."""
        with reading(self._using):
            edges = self._serving().edges_of(refs)
        found: dict[MemoryObjectRef, set[HubEdge]] = {}
        for edge in edges:
            found.setdefault(edge.object, set()).add(edge)
        return {ref: frozenset(of_one) for ref, of_one in found.items()}

    def close(self) -> None:
        """Nothing to release: connections are Django's."""

    def _health(self) -> QuerySet[StatisticsHealth]:
        return StatisticsHealth.objects.using(self._using).filter(collection=self._collection)

    def _update(self, values: dict[str, Any]) -> None:
        """Update the health row, made if it is not there; it stays locked until the transaction ends."""
        values = {**values, "updated_at": timezone.now()}
        if not self._health().update(**values):
            row = StatisticsHealth(collection=self._collection)
            StatisticsHealth.objects.using(self._using).bulk_create([row], ignore_conflicts=True)
            self._health().update(**values)

    def _serving(self) -> Generation:
        return Generation(self._using, self._collection, Subquery(self._health().values("generation")[:1]))


def _raised(column: str, to: int) -> Greatest:
    return Greatest(F(column), Value(to))


def _states(rows: QuerySet[MemoryState]) -> list[ObjectState]:
    columns = ("object_type", "object_id", "standing", "salience", "memory_time", "month_day")
    return [
        state_of(reference(kind, object_id), Weight(standing, salience, microseconds(when), month_day))
        for kind, object_id, standing, salience, when, month_day in rows.values_list(*columns)
    ]
