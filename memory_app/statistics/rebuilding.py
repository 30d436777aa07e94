"""Rebuilding beside the rows that serve: a new generation is filled, then takes over in one transaction.

Every transaction is small, so that commits never wait long, and what is applied meanwhile goes into both
generations. What a killed rebuild leaves is removed by the next one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

from django.db.models import F, Max, QuerySet, Value
from django.db.models.functions import Greatest
from django.utils import timezone

from charactermemory.errors import RetrievalStatsStoreError
from charactermemory.ports.statistics import HubEdge, ObjectState, Projection
from memory_app.models import (
    EntityEdge,
    EntityRelationCount,
    GlobalRelationCount,
    MemoryState,
    StatisticsHealth,
)
from memory_app.statistics.merging import merge
from memory_app.statistics.rows import Generation
from memory_app.transactions import writing

BATCH_ROWS = 2_000
"""States and edges of one transaction, for which a commit's own statistics may have to wait."""

_MODELS = (EntityEdge, MemoryState, EntityRelationCount, GlobalRelationCount)


def rebuild(using: str, collection: str, projections: Iterable[Projection], applied: int) -> None:
    """Fill a new generation from `projections`, let it serve with cursor `applied`, and drop the others.

    What `projections` raises passes through and leaves the serving rows as they were.

    Raises:
        RetrievalStatsStoreError: also when another rebuild of the collection began meanwhile.
    """
    number = _begin(using, collection)
    try:
        _remove_others(using, collection)
        for batch in _batches(projections):
            with writing(using):
                _lock_building(using, collection, number)
                merge(Generation(using, collection, number), batch)
        _switch(using, collection, number, applied)
    except BaseException:
        with suppress(RetrievalStatsStoreError):
            _abandon(using, collection, number)
        raise
    _remove_others(using, collection)


def locked(health: QuerySet[StatisticsHealth]) -> StatisticsHealth | None:
    """Lock a collection's health row until the transaction ends; None where there is none.

    By a write, not by a read: on SQLite a transaction that begins by reading cannot always go on to write.
    """
    return health.get() if health.update(updated_at=timezone.now()) else None


def _begin(using: str, collection: str) -> int:
    """Start a generation with a number that no row has, and return it."""
    with writing(using):
        health = _health(using, collection)
        if (row := locked(health)) is None:
            row = StatisticsHealth.objects.using(using).create(collection=collection)
        used = [
            model._default_manager.using(using)
            .filter(collection=collection)
            .aggregate(last=Max("generation"))["last"]
            for model in _MODELS
        ]
        number = max(row.generation, *(last or 0 for last in used), row.building or 0) + 1
        health.update(building=number, building_high=0)
    return number


def _batches(projections: Iterable[Projection]) -> Iterator[Projection]:
    """Put projections together until there is enough for a transaction; merging asks for no order."""
    states: list[ObjectState] = []
    edges: list[HubEdge] = []
    for projection in projections:
        states += projection.states
        edges += projection.edges
        if len(states) + len(edges) >= BATCH_ROWS:
            yield Projection(tuple(states), tuple(edges))
            states, edges = [], []
    if states or edges:
        yield Projection(tuple(states), tuple(edges))


def _lock_building(using: str, collection: str, number: int) -> None:
    row = locked(_health(using, collection))
    if row is None or row.building != number:
        raise RetrievalStatsStoreError("database", f"another rebuild of {collection} has begun")


def _switch(using: str, collection: str, number: int, applied: int) -> None:
    with writing(using):
        _lock_building(using, collection, number)
        _health(using, collection).update(
            generation=number,
            building=None,
            applied=applied,
            high=Greatest(F("building_high"), Value(applied)),
            cause="",
        )


def _abandon(using: str, collection: str, number: int) -> None:
    with writing(using):
        _health(using, collection).filter(building=number).update(building=None)
    _remove_others(using, collection)


def _remove_others(using: str, collection: str) -> None:
    """Remove the rows of all generations that neither serve nor are being built."""
    for model in _MODELS:
        rows = model._default_manager.using(using).filter(collection=collection)
        while True:
            with writing(using):
                if (health := locked(_health(using, collection))) is None:
                    return
                kept = [number for number in (health.generation, health.building) if number is not None]
                others = rows.exclude(generation__in=kept)
                ids = list(others.values_list("pk", flat=True)[:BATCH_ROWS])
                rows.filter(pk__in=ids).delete()
            if len(ids) < BATCH_ROWS:
                break


def _health(using: str, collection: str) -> QuerySet[StatisticsHealth]:
    return StatisticsHealth.objects.using(using).filter(collection=collection)
