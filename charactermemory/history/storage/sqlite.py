"""Threads in one SQLite file, by the standard library alone."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from charactermemory.errors import ValidationError
from charactermemory.history.models import Message, Thread
from charactermemory.history.sequence import Selection, ThreadMessages
from charactermemory.history.storage import rows
from charactermemory.history.storage.base import BaseStorage, Writing, check_page, duplicate_message, missing
from charactermemory.history.storage.database import Database
from charactermemory.history.storage.search import SearchQuery

_THREAD_COLUMNS = "key, id, metadata, created_at, updated_at, next_seq, message_count, token_total"
_KEY = "(SELECT key FROM threads WHERE owner = ? AND id = ?)"


class SQLiteStorage(BaseStorage):
    """Keeps threads in the file `db_path` (":memory:" for none); needs SQLite 3.35 or newer.

    Appending costs the same at any length of the thread. Several processes may use one file.
    """

    def __init__(
        self,
        db_path: str | os.PathLike[str] = "charactermemory.db",
        max_messages: int | None = None,
        *,
        keep_system: bool = False,
        owner: str = "",
    ) -> None:
        super().__init__(max_messages, keep_system=keep_system, owner=owner)
        if not os.fspath(db_path):
            raise ValidationError(field="db_path", problem="expected the path of a file, got an empty text")
        self._database = Database(db_path)

    def create_thread(self, thread: Thread) -> bool:
        """Store the empty thread; False when the id is taken."""
        values = (
            self.owner,
            thread.id,
            rows.dump(thread.metadata),
            rows.to_micros(thread.created_at),
            rows.to_micros(thread.updated_at),
        )
        return bool(
            self._database.rows(
                "INSERT INTO threads (owner, id, metadata, created_at, updated_at) VALUES (?, ?, ?, ?, ?) "
                "ON CONFLICT DO NOTHING RETURNING key",
                values,
            )
        )

    def get_thread(self, thread_id: str) -> Thread | None:
        """Return the thread with all its messages as a lazy sequence, or None."""
        found = self._threads("id = ?", [thread_id], limit=1, offset=0)
        return found[0] if found else None

    def list_threads(self, limit: int = 100, offset: int = 0) -> list[Thread]:
        """Return threads, newest activity first, their messages not loaded."""
        check_page(limit, offset)
        return self._threads("1", [], limit, offset)

    def search_threads(self, query: dict[str, Any], limit: int = 100, offset: int = 0) -> list[Thread]:
        """Return the threads that match `query`, newest activity first."""
        check_page(limit, offset)
        wanted = SearchQuery.parse(query)
        condition, values = rows.metadata_condition(wanted.metadata)
        conditions = [condition] if condition else []
        if wanted.content is not None:
            conditions.append(
                "EXISTS (SELECT 1 FROM messages WHERE thread = threads.key AND instr(folded, ?) > 0)"
            )
            values.append(wanted.content)
        return self._threads(" AND ".join(conditions), values, limit, offset)

    def delete_thread(self, thread_id: str) -> bool:
        """Remove a thread with its messages; False when there is none."""
        return bool(
            self._database.rows(
                "DELETE FROM threads WHERE owner = ? AND id = ? RETURNING key", (self.owner, thread_id)
            )
        )

    def read(self, thread_id: str, selection: Selection) -> list[Message]:
        """Return the selected messages in stored order."""
        return self._select(_KEY, [self.owner, thread_id], selection)

    def hidden_count(self, thread_id: str, before: int | None) -> int:
        """Return how many hidden messages lie before sequence number `before`."""
        condition, values = rows.where(_KEY, Selection(before=before))
        found = self._database.rows(
            f"SELECT count(*) FROM messages INDEXED BY hidden_messages WHERE {condition} AND hidden = 1",  # noqa: S608
            [self.owner, thread_id, *values],
        )
        return int(found[0][0])

    @contextmanager
    def writing(self, thread_id: str) -> Iterator[Writing]:
        """Hold the file's write lock while one thread is written; an error inside undoes everything."""
        with self._database.transaction() as connection:
            found = connection.execute(
                f"SELECT {_THREAD_COLUMNS} FROM threads WHERE owner = ? AND id = ?",  # noqa: S608
                (self.owner, thread_id),
            ).fetchone()
            if found is None:
                raise missing(thread_id)
            held = _SQLiteWriting(self, connection, found)
            yield held
            held.finish()

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        self._database.close()

    def _threads(self, condition: str, values: list[Any], limit: int, offset: int) -> list[Thread]:
        found = self._database.rows(
            f"SELECT {_THREAD_COLUMNS} FROM threads WHERE owner = ? AND {condition} "  # noqa: S608
            "ORDER BY updated_at DESC, key DESC LIMIT ? OFFSET ?",
            [self.owner, *values, limit, offset],
        )
        return [self._thread(row) for row in found]

    def _thread(self, row: tuple[Any, ...]) -> Thread:
        key, thread_id, metadata, created_at, updated_at, next_seq, count, token_total = row
        return Thread(
            id=thread_id,
            messages=self._messages(key, count, next_seq),
            metadata=json.loads(metadata),
            created_at=rows.from_micros(created_at),
            updated_at=rows.from_micros(updated_at),
            owner=self.owner,
            token_total=token_total,
        )

    def _messages(self, key: int, count: int, next_seq: int) -> ThreadMessages:
        return ThreadMessages(
            lambda selection: self._select("?", [key], selection), count, Selection(before=next_seq)
        )

    def _select(self, thread_sql: str, thread_values: list[Any], wanted: Selection) -> list[Message]:
        condition, values = rows.where(thread_sql, wanted)
        limit = -1 if wanted.limit is None else wanted.limit
        found = self._database.rows(
            f"SELECT {rows.COLUMNS} FROM {rows.source(wanted)} WHERE {condition} "  # noqa: S608
            f"ORDER BY seq {'DESC' if wanted.newest else 'ASC'} LIMIT ? OFFSET ?",
            [*thread_values, *values, limit, wanted.offset],
        )
        messages = [rows.from_row(row) for row in found]
        return messages[::-1] if wanted.newest else messages


class _SQLiteWriting(Writing):
    """One transaction on one thread."""

    def __init__(self, storage: SQLiteStorage, connection: sqlite3.Connection, row: tuple[Any, ...]) -> None:
        self._storage = storage
        self._connection = connection
        self._key: int = row[0]
        self._next_seq: int = row[5]
        self._count: int = row[6]
        self.thread = storage._thread(row)

    def has(self, message_id: str) -> bool:
        """Say whether the thread has a message of that id."""
        found = self._connection.execute(
            "SELECT 1 FROM messages WHERE thread = ? AND id = ?", (self._key, message_id)
        )
        return found.fetchone() is not None

    def append(self, message: Message) -> None:
        """Insert `message` as the thread's last row."""
        try:
            self._connection.execute(
                "INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                rows.to_row(self._key, self._next_seq, message),
            )
        except sqlite3.IntegrityError as error:
            raise duplicate_message(message) from error
        message.seq = self._next_seq
        self._next_seq += 1
        self._count += 1
        self._cap()
        self.thread.updated_at = max(self.thread.updated_at, message.created_at)
        self.thread.token_total += message.token_count or 0
        self.thread.messages = self._storage._messages(self._key, self._count, self._next_seq)

    def _cap(self) -> None:
        cap = self._storage.max_messages
        if cap is None or self._count <= cap:
            return
        others = " AND role NOT IN ('system', 'developer')" if self._storage.keep_system else ""
        removed = self._connection.execute(
            "DELETE FROM messages WHERE thread = ? AND seq IN (SELECT seq FROM messages "  # noqa: S608
            f"WHERE thread = ?{others} ORDER BY seq DESC LIMIT -1 OFFSET ?)",
            (self._key, self._key, cap),
        )
        self._count -= removed.rowcount

    def finish(self) -> None:
        """Write the thread's own row."""
        self._connection.execute(
            "UPDATE threads SET metadata = ?, updated_at = ?, next_seq = ?, message_count = ?, token_total = ? "
            "WHERE key = ?",
            (
                rows.dump(self.thread.metadata),
                rows.to_micros(self.thread.updated_at),
                self._next_seq,
                self._count,
                self.thread.token_total,
                self._key,
            ),
        )
