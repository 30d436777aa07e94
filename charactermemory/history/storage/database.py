"""One SQLite file: its tables, its connection and its transactions."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from charactermemory.errors import StorageError

BUSY_SECONDS = 30.0
"""How long a writer waits for another process's transaction before it gives up."""

SCHEMA = """
CREATE TABLE IF NOT EXISTS threads (
    key INTEGER PRIMARY KEY,
    owner TEXT NOT NULL,
    id TEXT NOT NULL,
    metadata TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    next_seq INTEGER NOT NULL DEFAULT 0,
    message_count INTEGER NOT NULL DEFAULT 0,
    token_total INTEGER NOT NULL DEFAULT 0,
    UNIQUE (owner, id)
);
CREATE INDEX IF NOT EXISTS threads_by_activity ON threads (owner, updated_at, key);
CREATE TABLE IF NOT EXISTS messages (
    thread INTEGER NOT NULL REFERENCES threads (key) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    id TEXT NOT NULL,
    role TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    hidden INTEGER NOT NULL,
    token_count INTEGER,
    content TEXT NOT NULL,
    metadata TEXT,
    rest TEXT,
    folded TEXT NOT NULL,
    PRIMARY KEY (thread, seq)
) WITHOUT ROWID;
CREATE UNIQUE INDEX IF NOT EXISTS messages_by_id ON messages (thread, id);
CREATE INDEX IF NOT EXISTS messages_by_time ON messages (thread, created_at);
CREATE INDEX IF NOT EXISTS instructions ON messages (thread, role, seq) WHERE role IN ('system', 'developer');
CREATE INDEX IF NOT EXISTS hidden_messages ON messages (thread, seq) WHERE hidden = 1;
"""
# A thread's rows lie together in the order they are read, and a window is one contiguous scan.


class Database:
    """A connection shared by the threads of one process; a forked child opens its own.

    Write-ahead logging lets other processes read while one writes, and synchronous NORMAL saves a disk flush
    per append: a power cut may lose the last moments, never tear what is stored.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._pid = 0
        if self.path != ":memory:":
            Path(self.path).parent.mkdir(parents=True, exist_ok=True)
        with self.errors():
            self.connection.executescript(SCHEMA)

    @property
    def connection(self) -> sqlite3.Connection:
        """The connection of this process."""
        if self._connection is None or self._pid != os.getpid():
            connection = sqlite3.connect(
                self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA foreign_keys = ON")
            self._connection, self._pid = connection, os.getpid()
        return self._connection

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        """Run one statement and return its rows. Raises `StorageError`."""
        with self._lock, self.errors():
            return self.connection.execute(sql, values).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Hold the write lock from the first statement on; an error inside undoes everything."""
        with self._lock, self.errors():
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield self.connection
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turn the driver's errors into `StorageError`."""
        try:
            yield
        except sqlite3.Error as error:
            raise StorageError(storage=f"message store {self.path}", detail=str(error)) from error

    def close(self) -> None:
        """Close the connection; the next use opens it again."""
        with self._lock:
            if self._connection is not None and self._pid == os.getpid():
                self._connection.close()
            self._connection = None
