"""Rebuilding beside the rows that serve: a new generation is filled, then takes over in one transaction.

Every transaction is small, so that commits and other collections never wait long, and what is applied
meanwhile goes into both generations. What a killed rebuild leaves is removed by the next one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import suppress

from charactermemory.adapters.statistics.database import Database
from charactermemory.adapters.statistics.merging import merge
from charactermemory.errors import RetrievalStatsStoreError
from charactermemory.ports.statistics import Projection

BATCH_ROWS = 2_000
"""States and edges of one transaction; about 150 ms, for which a commit's own statistics may have to wait."""

_KEYS = {
    "edge": "generation, hub, hub_type, relation, object_type, object",
    "state": "generation, id, object_type",
    "hub_count": "generation, hub, hub_type, relation, object_type",
    "global_count": "generation, relation, object_type",
}


def rebuild(database: Database, collection: str, projections: Iterable[Projection], applied: int) -> None:
    """Fill a new generation from `projections`, let it serve with cursor `applied`, and drop the others.

    What `projections` raises passes through and leaves the serving rows as they were.

    Raises:
        RetrievalStatsStoreError: also when another rebuild of the collection began meanwhile.
    """
    _retire_unfinished(database, collection)
    _remove_retired(database, collection)
    with database.writing() as connection:
        generation = connection.execute(
            "INSERT INTO generation (collection, role) VALUES (?, 'building')", (collection,)
        ).lastrowid
    if generation is None:
        raise RetrievalStatsStoreError("sqlite", "no generation was created")
    try:
        for batch in _batches(projections):
            with database.writing() as connection:
                _require_building(connection, collection, generation)
                for projection in batch:
                    merge(connection, generation, projection)
        _switch(database, collection, generation, applied)
    except BaseException:
        with suppress(RetrievalStatsStoreError):
            _retire_unfinished(database, collection, generation)
            _remove_retired(database, collection)
        raise
    _remove_retired(database, collection)


def _batches(projections: Iterable[Projection]) -> Iterator[list[Projection]]:
    batch: list[Projection] = []
    rows = 0
    for projection in projections:
        batch.append(projection)
        rows += len(projection.states) + len(projection.edges)
        if rows >= BATCH_ROWS:
            yield batch
            batch, rows = [], 0
    if batch:
        yield batch


def _switch(database: Database, collection: str, generation: int, applied: int) -> None:
    with database.writing() as connection:
        _require_building(connection, collection, generation)
        connection.execute(
            "UPDATE generation SET role = 'retired' WHERE collection = ? AND role = 'serving'", (collection,)
        )
        connection.execute(
            "UPDATE generation SET role = 'serving', applied = ?, high = max(high, ?) WHERE id = ?",
            (applied, applied, generation),
        )


def _require_building(connection: sqlite3.Connection, collection: str, generation: int) -> None:
    row = connection.execute("SELECT role FROM generation WHERE id = ?", (generation,)).fetchone()
    if row != ("building",):
        raise RetrievalStatsStoreError("sqlite", f"another rebuild of {collection} has begun")


def _retire_unfinished(database: Database, collection: str, generation: int | None = None) -> None:
    with database.writing() as connection:
        connection.execute(
            "UPDATE generation SET role = 'retired'"
            " WHERE collection = ? AND role = 'building' AND (? IS NULL OR id = ?)",
            (collection, generation, generation),
        )


def _remove_retired(database: Database, collection: str) -> None:
    with database.reading() as connection:
        rows = connection.execute(
            "SELECT id FROM generation WHERE collection = ? AND role = 'retired'", (collection,)
        ).fetchall()
    for (generation,) in rows:
        for table, key in _KEYS.items():
            statement = (
                f"DELETE FROM {table} WHERE ({key}) IN"  # noqa: S608 - names from the table above
                f" (SELECT {key} FROM {table} WHERE generation = ? LIMIT ?)"
            )
            removed = BATCH_ROWS
            while removed == BATCH_ROWS:
                with database.writing() as connection:
                    removed = connection.execute(statement, (generation, BATCH_ROWS)).rowcount
        with database.writing() as connection:
            connection.execute("DELETE FROM generation WHERE id = ?", (generation,))
