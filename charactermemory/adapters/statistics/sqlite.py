"""The statistics port on SQLite (DESIGN R11, consistency.md §8)."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Sequence
from os import PathLike
from typing import Any

from charactermemory.adapters.statistics.damage import is_damage
from charactermemory.adapters.statistics.database import MEMORY, Database
from charactermemory.adapters.statistics.merging import merge, recorded, rows_of
from charactermemory.adapters.statistics.rebuilding import rebuild
from charactermemory.adapters.statistics.rows import edge_of, key_of, ref_of
from charactermemory.errors import RetrievalStatsStoreError
from charactermemory.ids import MemoryObjectRef, ObjectType
from charactermemory.ports.merging import STANDINGS, Weight, hint_of, seconds, state_of
from charactermemory.ports.statistics import (
    Best,
    Count,
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

__all__ = ["MEMORY", "SqliteStatistics"]


_EdgeRow = tuple[int, float, int, bytes]
"""Standing, salience and memory time of an edge's object, and its id."""

_Counters = dict[tuple[int, int], tuple[int, int, int]]
"""Total, active and current by ranks of relation and object type."""

_OVERALL = "SELECT relation, object_type, total, active, current FROM global_count WHERE generation = ?"
_AT_HUB = (
    "SELECT relation, object_type, total, active, current FROM hub_count"
    " WHERE generation = ? AND hub = ? AND hub_type = ?"
)
_BEST = (
    "SELECT standing, salience, memory_time, object FROM edge WHERE generation = ?"
    " AND hub = ? AND hub_type = ? AND relation = ? AND object_type = ? AND standing = ?"
    " ORDER BY salience DESC, memory_time DESC, object LIMIT ?"
)
_HINTS = (
    "SELECT id, object_type, standing, salience, memory_time"
    " FROM wanted CROSS JOIN state USING (id, object_type) WHERE generation = ?"
)


class SqliteStatistics:
    """One collection's statistics in a SQLite file, which other collections may share, or in `:memory:`.

    Implements `charactermemory.ports.statistics.StatisticsStore`. Thread-safe; a file also serves several
    processes, each with a store of its own: in a forked child everything raises `StoreForkedError`, after
    `close` `StoreClosedError`.
    """

    def __init__(self, path: str | PathLike[str], collection: str) -> None:
        """Open `path`, creating what is missing.

        Raises:
            RetrievalStatsStoreError: `filesystem`, or `sqlite` for a file that is damaged, of another program
                or of another version.
        """
        self._collection = collection
        self._database = Database(path)
        try:
            with self._database.writing() as connection:
                connection.execute(
                    "INSERT OR IGNORE INTO generation (collection, role) VALUES (?, 'serving')", (collection,)
                )
        except BaseException:
            self._database.close()
            raise

    def apply(self, projection: Projection, high: int, applied: int = 0) -> str | None:
        """Record a projection; see the port."""
        with self._database.writing() as connection:
            generations = connection.execute(
                "UPDATE generation SET high = max(high, ?, ?),"
                " applied = iif(role = 'serving', max(applied, ?), applied)"
                " WHERE collection = ? AND role IN ('serving', 'building') RETURNING id, role, cause",
                (high, applied, applied, self._collection),
            ).fetchall()
            for generation, _, _ in generations:
                merge(connection, generation, projection)
        return next((cause for _, role, cause in generations if role == "serving"), None)

    def advance(self, applied: int) -> None:
        """Record that every commit up to `applied` is reflected; see the port."""
        with self._database.writing() as connection:
            connection.execute(
                "UPDATE generation SET applied = max(applied, ?), high = max(high, ?)"
                " WHERE collection = ? AND role = 'serving'",
                (applied, applied, self._collection),
            )

    def cursor(self) -> Cursor:
        """Return the place in the commit log."""
        with self._database.reading() as connection:
            applied, high, _ = self._serving(connection, "applied, high, cause")
        return Cursor(applied=applied, high=high)

    def counts(self, hubs: Collection[MemoryObjectRef], pairs: Sequence[Pair]) -> Counts:
        """Return how common hubs are, by one read over all and one a hub; see the port.

        Every pair is read, and there are no more than relations times types.
        """
        overall: dict[Pair, Count] = {}
        at: dict[tuple[MemoryObjectRef, Pair], Count] = {}
        error = None
        with self._database.reading() as connection:
            generation, cause = self._serving(connection, "id, cause")
            everywhere = _counters(connection, _OVERALL, generation)
            at_hubs = {hub: _counters(connection, _AT_HUB, generation, *key_of(hub)) for hub in hubs}
        try:
            for pair in pairs:
                relation, object_type = pair
                place = relation.rank, object_type.rank
                if row := everywhere.get(place):
                    overall[pair] = _count(row, "all", pair)
                for hub, counters in at_hubs.items():
                    if row := counters.get(place):
                        at[hub, pair] = _count(row, hub, pair)
        except RetrievalStatsStoreError as found:
            error = found
        return Counts(_health(cause), overall, at, error)

    def best(
        self,
        hubs: Collection[HubKey],
        scope: CountScope,
        limit: int,
        others: Collection[MemoryObjectRef] = (),
    ) -> Best:
        """Return each hub's best objects, by one indexed read for each standing in scope; see the port.

        What hints at them stands at their edges, which repeat the states of their objects.
        """
        found: dict[HubKey, list[MemoryObjectRef]] = {}
        hints: dict[MemoryObjectRef, Hint] = {}
        with self._database.reading() as connection:
            generation = self._generation(connection)
            for key in hubs if limit > 0 else ():
                hub, relation, object_type = key
                place = (generation, *key_of(hub), relation.rank, object_type.rank)
                rows: list[_EdgeRow] = []
                for standing in STANDINGS[scope]:
                    rows += connection.execute(_BEST, (*place, standing, limit))
                if not rows:
                    continue
                rows.sort(key=_worth)
                found[key] = [ref_of(row[3], object_type.rank) for row in rows[:limit]]
                if object_type is not ObjectType.ENTITY:
                    for ref, (stands, salience, memory_time, _) in zip(found[key], rows, strict=False):
                        hints[ref] = hint_of(stands, salience, seconds(memory_time))
            hints.update(_hints(connection, generation, others))
        return Best(found, hints)

    def hints(self, refs: Collection[MemoryObjectRef]) -> dict[MemoryObjectRef, Hint]:
        """Return what recall needs of the recorded states among `refs`."""
        with self._database.reading() as connection:
            return _hints(connection, self._generation(connection), refs)

    def states(self, refs: Collection[MemoryObjectRef]) -> dict[MemoryObjectRef, ObjectState]:
        """Return the recorded states among `refs`."""
        with self._database.reading() as connection:
            weights = recorded(connection, self._generation(connection), [key_of(ref) for ref in refs])
        return {(ref := ref_of(*key)): state_of(ref, weight) for key, weight in weights.items()}

    def scan(self, after: MemoryObjectRef | None, limit: int) -> list[ObjectState]:
        """Page through all states in ref order."""
        start = key_of(after) if after else (b"", 0)
        with self._database.reading() as connection:
            rows = connection.execute(
                "SELECT id, object_type, standing, salience, memory_time, month_day FROM state"
                " WHERE generation = ? AND (id, object_type) > (?, ?) ORDER BY id, object_type LIMIT ?",
                (self._generation(connection), *start, max(limit, 0)),
            ).fetchall()
        return [state_of(ref_of(row[0], row[1]), Weight(*row[2:])) for row in rows]

    def edges_of(self, refs: Collection[MemoryObjectRef]) -> dict[MemoryObjectRef, frozenset[HubEdge]]:
        """Return the recorded edges of each object among `refs`; one without any has no key."""
        found = {}
        with self._database.reading() as connection:
            generation = self._generation(connection)
            for ref in refs:
                rows = connection.execute(
                    "SELECT hub, hub_type, relation FROM edge INDEXED BY edge_object"
                    " WHERE generation = ? AND object = ? AND object_type = ?",
                    (generation, *key_of(ref)),
                ).fetchall()
                if rows:
                    found[ref] = frozenset(
                        edge_of(hub, hub_type, relation, ref) for hub, hub_type, relation in rows
                    )
        return found

    def health(self, head: int) -> Health:
        """Return the health, given the graph's last commit number."""
        with self._database.reading() as connection:
            applied, cause = self._serving(connection, "applied, cause")
        return _health(cause, lagging=applied < head)

    def mark_unhealthy(self, cause: str) -> None:
        """Record why the store is not to be trusted; kept until `rebuild`, the last cause winning."""
        with self._database.writing() as connection:
            connection.execute(
                "UPDATE generation SET cause = ? WHERE collection = ? AND role = 'serving'",
                (cause, self._collection),
            )

    def rebuild(self, projections: Iterable[Projection], applied: int) -> None:
        """Replace everything while the old rows serve; see the port and `rebuilding`."""
        try:
            rebuild(self._database, self._collection, projections, applied)
        except RetrievalStatsStoreError as error:
            if not is_damage(error):
                raise
            raise RetrievalStatsStoreError(
                error.kind, f"{error.detail}; stop what uses this file, move it away and rebuild again"
            ) from error

    def close(self) -> None:
        """Release; a second call does nothing."""
        self._database.close()

    def _generation(self, connection: sqlite3.Connection) -> int:
        (generation,) = self._serving(connection, "id")
        return int(generation)

    def _serving(self, connection: sqlite3.Connection, columns: str) -> tuple[Any, ...]:
        row: tuple[Any, ...] | None = connection.execute(
            f"SELECT {columns} FROM generation WHERE collection = ? AND role = 'serving'",  # noqa: S608
            (self._collection,),
        ).fetchone()
        if row is None:
            raise RetrievalStatsStoreError("sqlite", f"the rows of {self._collection} were removed")
        return row


def _health(cause: str | None, lagging: bool = False) -> Health:
    if cause is not None:
        return Health("unhealthy", cause)
    return Health("lagging" if lagging else "healthy")


def _hints(
    connection: sqlite3.Connection, generation: int, refs: Collection[MemoryObjectRef]
) -> dict[MemoryObjectRef, Hint]:
    """Return what hints at objects, by the references that were asked for: to make them anew takes longer."""
    asked = {key_of(ref): ref for ref in refs}
    return {
        asked[object_id, rank]: hint_of(standing, salience, seconds(memory_time))
        for object_id, rank, standing, salience, memory_time in rows_of(connection, asked, _HINTS, generation)
    }


def _worth(row: _EdgeRow) -> tuple[float, int, bytes]:
    _, salience, memory_time, object_id = row
    return -salience, -memory_time, object_id


def _counters(connection: sqlite3.Connection, select: str, *key: object) -> _Counters:
    return {(row[0], row[1]): row[2:] for row in connection.execute(select, key)}


def _count(row: tuple[int, int, int], whose: MemoryObjectRef | str, pair: Pair) -> Count:
    if min(row) < 0:
        what = f"{whose} {pair[0].value} {pair[1].value}"
        raise RetrievalStatsStoreError(
            "negative_counter", f"{what} reads {row}; rebuild the statistics from the graph"
        )
    return Count(*row)
