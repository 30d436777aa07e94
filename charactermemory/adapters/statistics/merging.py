"""Merging a projection into one generation's rows, counters included (recall.md §13.1-13.3).

Runs inside the caller's transaction; the rules are those of `ports.merging`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from charactermemory.adapters.statistics.rows import Key, key_of
from charactermemory.ports.merging import UNWEIGHTED, CounterChanges, Weight, weight_of
from charactermemory.ports.statistics import HubEdge, ObjectState, Projection

_CounterKey = tuple[bytes, int, int, int]
"""Hub id, hub type, relation, object type: the columns of a hub counter's key, in order."""

_READ_STATE = (
    "SELECT standing, salience, memory_time, month_day FROM state"
    " WHERE generation = ? AND id = ? AND object_type = ?"
)
_WRITE_STATE = "REPLACE INTO state VALUES (?, ?, ?, ?, ?, ?, ?)"
# Left alone, the planner walks the whole generation by the other index: 6 ms an object at 50,000 edges.
_EDGES_OF_OBJECT = (
    "SELECT hub, hub_type, relation, standing FROM edge INDEXED BY edge_object"
    " WHERE generation = ? AND object = ? AND object_type = ?"
)
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
    weights = _merge_states(connection, generation, projection.states, changes)
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
    changes: CounterChanges[_CounterKey],
) -> dict[Key, Weight]:
    """Merge states with those recorded, carry changes over to recorded edges, and return the results."""
    weights: dict[Key, Weight] = {}
    for state in states:
        key = key_of(state.ref)
        old = weights.get(key) or _recorded(connection, generation, key)
        new = weight_of(state)
        weights[key] = merged = old.merged(new) if old else new
        if merged == old:
            continue
        connection.execute(_WRITE_STATE, (generation, *key, *merged))
        edges = connection.execute(_EDGES_OF_OBJECT, (generation, *key)).fetchall()
        for hub, hub_type, relation, standing in edges:
            changes.edge_moved((hub, hub_type, relation, key[1]), standing, merged.standing)
        if edges:
            connection.execute(_REWEIGH_EDGES, (*merged[:3], generation, *key))
    return weights


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
        if key not in weights:
            weights[key] = _recorded(connection, generation, key) or UNWEIGHTED
        weight = weights[key]
        place = (hub, hub_type, edge.relation.rank, object_type)
        added = connection.execute(_ADD_EDGE, (generation, *place, object_id, *weight[:3]))
        if added.rowcount:
            changes.edge_added(place, weight.standing)


def _recorded(connection: sqlite3.Connection, generation: int, key: Key) -> Weight | None:
    row = connection.execute(_READ_STATE, (generation, *key)).fetchone()
    return Weight(*row) if row else None
