"""Merging a projection into one generation's rows, counters included (recall.md §13.1-13.3).

Runs inside the caller's transaction; the rules are those of `ports.merging`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable
from itertools import chain
from typing import Any

from charactermemory.adapters.statistics.rows import Key, key_of
from charactermemory.ports.merging import UNWEIGHTED, CounterChanges, Weight, weight_of
from charactermemory.ports.statistics import HubEdge, ObjectState, Projection

_CounterKey = tuple[bytes, int, int, int]
"""Hub id, hub type, relation, object type: the columns of a hub counter's key, in order."""

_KEYS_AT_ONCE = 512
"""Keys in one statement."""
_KEYS_STEP = 32
"""Statements are made for a multiple of so many keys, so that few of them are ever compiled (0.25 ms for a hundred
keys, as long as reading their rows)."""
_NOBODY: Key = (b"", 0)
"""Fills up the keys of a statement; no object has an id without bytes."""
_WRITE_STATE = "REPLACE INTO state VALUES (?, ?, ?, ?, ?, ?, ?)"
_STATES = (
    "SELECT id, object_type, standing, salience, memory_time, month_day"
    " FROM wanted CROSS JOIN state USING (id, object_type) WHERE generation = ?"
)
_EDGES = (
    "SELECT object, edge.object_type, hub, hub_type, relation, standing"
    " FROM wanted CROSS JOIN edge INDEXED BY edge_object"
    " ON object = wanted.id AND edge.object_type = wanted.object_type WHERE generation = ?"
)
# Left alone, the planner walks the whole generation by the other index: 6 ms an object at 50,000 edges.
_REWEIGH_EDGES = (
    "UPDATE edge INDEXED BY edge_object SET standing = ?, salience = ?, memory_time = ?"
    " WHERE generation = ? AND object = ? AND object_type = ?"
)
_ADD_EDGE = "INSERT OR IGNORE INTO edge VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_ADD = (
    " ON CONFLICT DO UPDATE SET total = total + excluded.total, active = active + excluded.active,"
    " current = current + excluded.current"
)
_COUNT_AT_HUB = "INSERT INTO hub_count VALUES (?, ?, ?, ?, ?, ?, ?, ?)" + _ADD  # noqa: S608 - constants
_COUNT_GLOBALLY = "INSERT INTO global_count VALUES (?, ?, ?, ?, ?, ?)" + _ADD  # noqa: S608 - constants


def merge(connection: sqlite3.Connection, generation: int, projection: Projection) -> None:
    """Merge `projection` into the rows of `generation`."""
    changes: CounterChanges[_CounterKey] = CounterChanges()
    keys = {
        *(key_of(state.ref) for state in projection.states),
        *(key_of(edge.object) for edge in projection.edges),
    }
    weights = recorded(connection, generation, keys)
    _merge_states(connection, generation, projection.states, weights, changes)
    _add_edges(connection, generation, projection.edges, weights, changes)
    _write_counters(connection, generation, changes)


def _write_counters(
    connection: sqlite3.Connection, generation: int, changes: CounterChanges[_CounterKey]
) -> None:
    """Add the differences, in key order: concurrent writers then never wait in a circle."""
    overall = changes.overall(lambda key: key[2:])
    connection.executemany(
        _COUNT_AT_HUB, [(generation, *key, *change) for key, change in sorted(changes.by_hub.items())]
    )
    connection.executemany(
        _COUNT_GLOBALLY, [(generation, *key, *change) for key, change in sorted(overall.items())]
    )


def _merge_states(
    connection: sqlite3.Connection,
    generation: int,
    states: Iterable[ObjectState],
    weights: dict[Key, Weight],
    changes: CounterChanges[_CounterKey],
) -> None:
    """Merge states into the recorded `weights`, and carry changes over to recorded edges."""
    changed: dict[Key, Weight] = {}
    for state in states:
        key, new = key_of(state.ref), weight_of(state)
        old = weights.get(key)
        weights[key] = merged = old.merged(new) if old else new
        if merged != old:
            changed[key] = merged
    connection.executemany(_WRITE_STATE, [(generation, *key, *weight) for key, weight in changed.items()])
    moved: set[Key] = set()
    for object_id, object_type, hub, hub_type, relation, standing in rows_of(
        connection, changed, _EDGES, generation
    ):
        after = changed[object_id, object_type].standing
        changes.edge_moved((hub, hub_type, relation, object_type), standing, after)
        moved.add((object_id, object_type))
    connection.executemany(_REWEIGH_EDGES, [(*changed[key][:3], generation, *key) for key in moved])


def _add_edges(
    connection: sqlite3.Connection,
    generation: int,
    edges: Iterable[HubEdge],
    weights: dict[Key, Weight],
    changes: CounterChanges[_CounterKey],
) -> None:
    for edge in edges:
        hub, hub_type = key_of(edge.hub)
        key = object_id, object_type = key_of(edge.object)
        weight = weights.get(key, UNWEIGHTED)
        place = (hub, hub_type, edge.relation.rank, object_type)
        added = connection.execute(_ADD_EDGE, (generation, *place, object_id, *weight[:3]))
        if added.rowcount:
            changes.edge_added(place, weight.standing)


def recorded(connection: sqlite3.Connection, generation: int, keys: Collection[Key]) -> dict[Key, Weight]:
    """Return what is recorded of the objects among `keys`."""
    rows = rows_of(connection, keys, _STATES, generation)
    return {(row[0], row[1]): Weight(*row[2:]) for row in rows}


def rows_of(
    connection: sqlite3.Connection, keys: Collection[Key], select: str, generation: int
) -> list[tuple[Any, ...]]:
    """Return the rows that `select` finds beside `wanted`, a table of `keys`."""
    every, rows = list(keys), []
    for start in range(0, len(every), _KEYS_AT_ONCE):
        part = every[start : start + _KEYS_AT_ONCE]
        part += [_NOBODY] * (-len(part) % _KEYS_STEP)
        wanted = ", ".join(["(?, ?)"] * len(part))
        rows += connection.execute(
            f"WITH wanted(id, object_type) AS (VALUES {wanted}) {select}",  # noqa: S608 - constants
            (*chain.from_iterable(part), generation),
        ).fetchall()
    return rows
