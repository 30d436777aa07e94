"""The best objects of many hubs, and hints at them and at others, by one statement.

Each hub and standing has a select of its own, cut off at the limit and served by the index `cm_edge_best`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import zip_longest

from charactermemory.ids import MemoryObjectRef, ObjectType
from charactermemory.ports.merging import hint_of
from charactermemory.ports.statistics import Best, Hint, HubKey
from memory_app.models import EntityEdge, MemoryState
from memory_app.statistics.rows import parts
from memory_app.statistics.selects import OBJECTS_AT_ONCE, Selects, among

SELECTS_AT_ONCE = 300
"""Selects in one statement; SQLite takes 500."""

_WEIGHT = "object_type, object_id, standing, salience, memory_time"
_AT_HUB = "AND hub_id = %s AND hub_type = %s AND relation = %s AND object_type = %s AND standing = %s"
_BEST_FIRST = "ORDER BY salience DESC, memory_time DESC, object_id"


def best_of(
    using: str,
    collection: str,
    hubs: Collection[HubKey],
    standings: Sequence[int],
    limit: int,
    others: Collection[MemoryObjectRef],
) -> Best:
    """Return up to `limit` objects of each hub: salience, then memory time, both descending, then id.

    A hub without any has no key. What hints at its objects stands at their edges, which repeat their states.
    """
    found = Best({}, {})
    hub_parts = parts(hubs if limit > 0 else (), SELECTS_AT_ONCE // len(standings))
    other_parts = parts(others, OBJECTS_AT_ONCE)
    for some, refs in zip_longest(hub_parts, other_parts, fillvalue=()):
        _read(Selects(using, collection), some, standings, limit, refs, found)
    return found


def _read(
    selects: Selects,
    hubs: Sequence[HubKey],
    standings: Sequence[int],
    limit: int,
    others: Sequence[MemoryObjectRef],
    found: Best,
) -> None:
    for number, (hub, relation, object_type) in enumerate(hubs):
        place = (selects.stored(hub.id), hub.object_type.value, relation.value, object_type.value)
        for standing in standings:
            selects.add(
                f"{number:d} AS hub, {_WEIGHT}",
                EntityEdge,
                _AT_HUB,
                *place,
                int(standing),
                cut=f"{_BEST_FIRST} LIMIT {limit:d}",
            )
    asked = {(ref.object_type.value, selects.stored(ref.id)): ref for ref in others}
    if asked:
        ids = [stored for _, stored in asked]
        selects.add(f"NULL AS hub, {_WEIGHT}", MemoryState, f"AND object_id {among(ids)}", *ids)
    at: list[list[tuple[MemoryObjectRef, Hint]]] = [[] for _ in hubs]
    for number, kind, stored, standing, salience, when in selects.rows():
        hint = hint_of(standing, salience, selects.instant(when).timestamp())
        if number is not None:
            at[number].append((MemoryObjectRef.of(hubs[number][2], selects.id(stored)), hint))
        elif ref := asked.get((kind, stored)):
            found.hints[ref] = hint
    for key, objects in zip(hubs, at, strict=True):
        best = sorted(objects, key=_worth)[:limit]
        if best:
            found.objects[key] = [ref for ref, _ in best]
        if key[2] is not ObjectType.ENTITY:
            found.hints.update(best)


def _worth(item: tuple[MemoryObjectRef, Hint]) -> tuple[float, float, int]:
    ref, hint = item
    return -hint.salience, -hint.when, ref.id.int
