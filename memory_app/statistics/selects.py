"""What recall reads, as one statement a call, written out.

Composing the same of query sets takes several times what the database does, and Django's `union` refuses selects
with a limit on SQLite.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import connections, models

from memory_app.models import MemoryState, StatisticsHealth

OBJECTS_AT_ONCE = 5_000
"""Ids in one statement, more than a retrieve asks for; SQLite takes 32,766 values."""

_ID = MemoryState._meta.get_field("object_id")
_TIME = MemoryState._meta.get_field("memory_time")
_TIME_COLUMN = _TIME.get_col(MemoryState._meta.db_table)


class Selects:
    """Selects of as many columns each, which become one statement.

    It finds itself the generation that serves, so that no switch comes between. What only some of them have is
    NULL in the others, and stands in one of the first two: PostgreSQL takes a column's type from these.
    """

    def __init__(self, using: str, collection: str) -> None:
        """Begin with none."""
        self._connection = connections[using]
        self._collection = collection
        self._health = self._table(StatisticsHealth)
        self._converters = self._connection.ops.get_db_converters(_TIME_COLUMN)
        self._selects: list[str] = []
        self._parameters: list[Any] = []

    def add(
        self, columns: str, model: type[models.Model], where: str, *parameters: object, cut: str = ""
    ) -> None:
        """Select rows of the generation that serves; `cut` orders and limits them."""
        select = (
            f"SELECT {columns} FROM {self._table(model)} WHERE collection = %s"  # noqa: S608 - names of ours
            f" AND generation = (SELECT generation FROM {self._health} WHERE collection = %s) {where} {cut}"
        )
        if cut:
            # Within a compound statement SQLite orders and limits only what is a table of its own.
            select = f"SELECT * FROM ({select}) AS one{len(self._selects):d}"  # noqa: S608
        self._selects.append(select)
        self._parameters += (self._collection, self._collection, *parameters)

    def add_health(self, columns: str) -> None:
        """Select the collection's health row."""
        self._selects.append(f"SELECT {columns} FROM {self._health} WHERE collection = %s")  # noqa: S608
        self._parameters.append(self._collection)

    def rows(self) -> list[tuple[Any, ...]]:
        """Execute them all; ids and times come as the database returns them."""
        with self._connection.cursor() as cursor:
            cursor.execute(" UNION ALL ".join(self._selects), self._parameters)
            return cursor.fetchall()

    def stored(self, id: UUID) -> Any:
        """Return an id as the database takes and returns it."""
        return _ID.get_db_prep_value(id, self._connection)

    @staticmethod
    def id(stored: Any) -> UUID:
        """Return the id that the database returned."""
        return _ID.to_python(stored)

    def instant(self, stored: Any) -> Any:
        """Return the time that the database returned, as Django reads it from there."""
        for convert in self._converters:
            stored = convert(stored, _TIME_COLUMN, self._connection)
        return stored

    def _table(self, model: type[models.Model]) -> str:
        return self._connection.ops.quote_name(model._meta.db_table)


def among(ids: list[Any]) -> str:
    """Return the condition's list of so many parameters."""
    return f"IN ({', '.join(['%s'] * len(ids))})"
