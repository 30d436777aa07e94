"""The best objects of many hubs by one statement.

Each hub and standing has a select of its own, cut off at the limit and served by the index `cm_edge_best`.
Django's `union` refuses such selects on SQLite.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import islice
from typing import Any
from uuid import UUID

from django.db import connections

from charactermemory.ids import MemoryObjectRef
from charactermemory.ports.statistics import HubKey
from memory_app.models import EntityEdge, StatisticsHealth
from memory_app.statistics.rows import parts

SELECTS_AT_ONCE = 300
"""Selects in one statement; SQLite takes 500."""


def best_of(
    using: str, collection: str, hubs: Collection[HubKey], standings: Sequence[int], limit: int
) -> dict[HubKey, list[MemoryObjectRef]]:
    """Return up to `limit` objects of each hub: salience, then memory time, both descending, then id.

    A hub without any has no key.
    """
    found: dict[HubKey, list[MemoryObjectRef]] = {}
    for some in parts(hubs, SELECTS_AT_ONCE // len(standings)):
        every: list[list[MemoryObjectRef]] = [[] for _ in some]
        for number, object_id in _rows(using, collection, some, standings, limit):
            every[number].append(MemoryObjectRef.of(some[number][2], UUID(str(object_id))))
        found |= {key: list(islice(refs, limit)) for key, refs in zip(some, every, strict=True) if refs}
    return found


def _rows(
    using: str, collection: str, hubs: Sequence[HubKey], standings: Sequence[int], limit: int
) -> list[tuple[int, UUID | str]]:
    """Return (place in `hubs`, object id), each hub's in order."""
    connection = connections[using]
    quote = connection.ops.quote_name
    edge, health = quote(EntityEdge._meta.db_table), quote(StatisticsHealth._meta.db_table)
    hub_id = EntityEdge._meta.get_field("hub_id")
    selects: list[str] = []
    parameters: list[Any] = []
    for number, (hub, relation, object_type) in enumerate(hubs):
        for standing in standings:
            selects.append(
                f"SELECT * FROM (SELECT {number:d} AS hub, salience, memory_time, object_id FROM {edge}"  # noqa: S608
                f" WHERE collection = %s AND generation = (SELECT generation FROM {health} WHERE collection = %s)"
                " AND hub_id = %s AND hub_type = %s AND relation = %s AND object_type = %s AND standing = %s"
                f" ORDER BY salience DESC, memory_time DESC, object_id LIMIT {limit:d}) AS one{len(selects):d}"
            )
            parameters += [collection, collection, hub_id.get_db_prep_value(hub.id, connection)]
            parameters += [hub.object_type.value, relation.value, object_type.value, int(standing)]
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT hub, object_id FROM ({' UNION ALL '.join(selects)}) AS every_one"  # noqa: S608
            " ORDER BY hub, salience DESC, memory_time DESC, object_id",
            parameters,
        )
        return list(cursor.fetchall())
