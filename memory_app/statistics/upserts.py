"""Writing rows by a statement that is made once a table.

The ORM makes each `INSERT … ON CONFLICT` anew, which costs more than the database's own work, and it cannot add to
what stands in a row. Both databases that are supported, SQLite and PostgreSQL, understand these statements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from django.db import IntegrityError, connections, models

Row = Mapping[str, Any]
"""Values by field name."""


@dataclass(frozen=True)
class Table:
    """A model's table, written by a unique `key`; `values` are its other fields."""

    model: type[models.Model]
    key: tuple[str, ...]
    values: tuple[str, ...]

    def put(self, using: str, rows: Iterable[Row]) -> None:
        """Write rows in place of those with the same key."""
        self._execute(using, _insert(self, using, adding=False), (*self.key, *self.values), rows)

    def add(self, using: str, rows: Iterable[Row]) -> None:
        """Add the values of `rows` to the rows with the same key; one that is not there counts as zeros.

        Values below zero are only added to rows that are there: no constraint must meet them alone.

        Raises:
            IntegrityError: such a row is not there, so the counters are not what they should be.
        """
        every = list(rows)
        falling = [row for row in every if any(row[name] < 0 for name in self.values)]
        rising = [row for row in every if all(row[name] >= 0 for name in self.values)]
        self._execute(using, _insert(self, using, adding=True), (*self.key, *self.values), rising)
        changed = self._execute(using, _update(self, using), (*self.values, *self.key), falling)
        if changed < len(falling):
            raise IntegrityError(
                f"{self.model._meta.db_table} lacks rows to subtract from; rebuild the statistics"
            )

    def _execute(self, using: str, statement: str, names: tuple[str, ...], rows: Iterable[Row]) -> int:
        """Run `statement` for every row; return how many rows it changed."""
        connection, fields_by_name = connections[using], self._fields()
        fields = [fields_by_name[name] for name in names]
        parameters = [
            tuple(field.get_db_prep_save(row[field.name], connection) for field in fields) for row in rows
        ]
        if not parameters:
            return 0
        with connection.cursor() as cursor:
            cursor.executemany(statement, parameters)
            return int(cursor.rowcount)

    def _fields(self) -> dict[str, models.Field[Any, Any]]:
        return {field.name: field for field in self.model._meta.concrete_fields}

    def _quoted(self, using: str) -> tuple[str, Callable[[str], str]]:
        """Return the table's name, and what gives the column of a field, as they stand in a statement."""
        quote, fields = connections[using].ops.quote_name, self._fields()
        return quote(self.model._meta.db_table), lambda name: quote(str(fields[name].column))


@lru_cache
def _insert(table: Table, using: str, adding: bool) -> str:
    name, column = table._quoted(using)
    columns = [column(field) for field in (*table.key, *table.values)]
    new = "{name}.{column} + excluded.{column}" if adding else "excluded.{column}"
    changes = [f"{column(field)} = " + new.format(name=name, column=column(field)) for field in table.values]
    return (
        f"INSERT INTO {name} ({', '.join(columns)}) VALUES ({', '.join(['%s'] * len(columns))})"  # noqa: S608
        f" ON CONFLICT ({', '.join(map(column, table.key))}) DO UPDATE SET {', '.join(changes)}"
    )


@lru_cache
def _update(table: Table, using: str) -> str:
    name, column = table._quoted(using)
    changes = ", ".join(f"{column(field)} = {column(field)} + %s" for field in table.values)
    condition = " AND ".join(f"{column(field)} = %s" for field in table.key)
    return f"UPDATE {name} SET {changes} WHERE {condition}"  # noqa: S608
