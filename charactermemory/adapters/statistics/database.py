"""The SQLite file of the statistics: connections shared by threads, schema, and errors in our words.

A file is used through two connections, each by one thread at a time: in WAL mode a reader then never waits
for a writer, neither of this process nor of another. A database in memory exists for one connection only.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path

from charactermemory.errors import RetrievalStatsStoreError, StoreClosedError, StoreForkedError

MEMORY = ":memory:"
"""The path that names a database in memory."""
STORE_NAME = "statistics store"
APPLICATION_ID = 0x434D5354
"""Marks a SQLite file as ours (`CMST`), so that no other program's file is written to."""
SCHEMA_VERSION = 1
BUSY_SECONDS = 10.0
"""How long a write waits for another process's; ours are short, rebuilds included (see `rebuilding`)."""

_FILESYSTEM_ERRORS = frozenset(
    {
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_READONLY,
    }
)

# Every row belongs to a generation, every generation to a collection; `merging` explains `standing`.
# Ids are their 16 bytes, so that they sort as ids do; types and relations are their stable ranks.
_SCHEMA = """
CREATE TABLE generation (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    collection TEXT NOT NULL,
    role TEXT NOT NULL,
    applied INTEGER NOT NULL DEFAULT 0,
    high INTEGER NOT NULL DEFAULT 0,
    cause TEXT
) STRICT;
CREATE UNIQUE INDEX generation_serving ON generation (collection) WHERE role = 'serving';
CREATE TABLE state (
    generation INTEGER NOT NULL,
    id BLOB NOT NULL,
    object_type INTEGER NOT NULL,
    standing INTEGER NOT NULL,
    salience REAL NOT NULL,
    memory_time INTEGER NOT NULL,
    month_day TEXT NOT NULL,
    PRIMARY KEY (generation, id, object_type)
) STRICT, WITHOUT ROWID;
CREATE TABLE edge (
    generation INTEGER NOT NULL,
    hub BLOB NOT NULL,
    hub_type INTEGER NOT NULL,
    relation INTEGER NOT NULL,
    object_type INTEGER NOT NULL,
    object BLOB NOT NULL,
    standing INTEGER NOT NULL,
    salience REAL NOT NULL,
    memory_time INTEGER NOT NULL,
    PRIMARY KEY (generation, hub, hub_type, relation, object_type, object)
) STRICT, WITHOUT ROWID;
CREATE INDEX edge_best ON edge (
    generation, hub, hub_type, relation, object_type, standing, salience DESC, memory_time DESC, object
);
CREATE INDEX edge_object ON edge (generation, object, object_type);
CREATE TABLE hub_count (
    generation INTEGER NOT NULL,
    hub BLOB NOT NULL,
    hub_type INTEGER NOT NULL,
    relation INTEGER NOT NULL,
    object_type INTEGER NOT NULL,
    total INTEGER NOT NULL,
    active INTEGER NOT NULL,
    current INTEGER NOT NULL,
    PRIMARY KEY (generation, hub, hub_type, relation, object_type)
) STRICT, WITHOUT ROWID;
CREATE TABLE global_count (
    generation INTEGER NOT NULL,
    relation INTEGER NOT NULL,
    object_type INTEGER NOT NULL,
    total INTEGER NOT NULL,
    active INTEGER NOT NULL,
    current INTEGER NOT NULL,
    PRIMARY KEY (generation, relation, object_type)
) STRICT, WITHOUT ROWID;
"""

_open_files: dict[int, tuple[int, str]] = {}
"""The process and real path of each open file; kept without a lock, which a fork could leave held."""


def is_open(path: str | PathLike[str]) -> bool:
    """Tell whether a database of this process has the file open."""
    return _key(path) in list(_open_files.values())


def _key(path: str | PathLike[str]) -> tuple[int, str]:
    return os.getpid(), os.path.realpath(path)


class Database:
    """A statistics file, or a database in memory; thread-safe.

    A forked child is refused. SQLite forbids carrying a connection over a fork, and opening the file anew does
    not help: the library in the child still counts the locks that its parent's threads held, for good.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        """Open, creating parent folder, file and tables where missing.

        Raises:
            RetrievalStatsStoreError: `filesystem`, or `sqlite` for a file that is damaged, of another program
                or of another version.
        """
        self._path = os.fspath(path)
        self._pid = os.getpid()
        self._closed = False
        if self._path != MEMORY:
            try:
                Path(self._path).parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise RetrievalStatsStoreError("filesystem", str(error)) from error
            _open_files[id(self)] = _key(self._path)
        try:
            self._writer = _Connection(self._path)
            try:
                self._writer.create_schema()
                self._reader = self._writer if self._path == MEMORY else _Connection(self._path)
            except BaseException:
                self._writer.close()
                raise
        except BaseException:
            _open_files.pop(id(self), None)
            raise

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Read one snapshot."""
        self._check()
        with self._reader.transaction("DEFERRED") as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Write, whole or not at all; one writer at a time among threads and processes."""
        self._check()
        with self._writer.transaction("IMMEDIATE") as connection:
            yield connection

    def close(self) -> None:
        """Close both connections; a second call does nothing, nor does one in a forked child."""
        if self._closed:
            return
        self._closed = True
        if self._pid == os.getpid():
            self._reader.close()
            self._writer.close()
        _open_files.pop(id(self), None)

    def _check(self) -> None:
        """Refuse what cannot work; takes no lock, so that it cannot hang in a forked child."""
        if self._pid != os.getpid():
            raise StoreForkedError(store=STORE_NAME, owner_pid=self._pid)
        if self._closed:
            raise StoreClosedError(store=STORE_NAME)


class _Connection:
    """One SQLite connection, used by one thread at a time."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        with _translated(path):
            self._connection = sqlite3.connect(
                path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            try:
                self._connection.execute("PRAGMA synchronous = NORMAL")
            except BaseException:
                self._connection.close()
                raise

    @contextmanager
    def transaction(self, kind: str) -> Iterator[sqlite3.Connection]:
        with self._lock, _translated(self._path):
            self._connection.execute(f"BEGIN {kind}")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def create_schema(self) -> None:
        """Create the tables in a new file; refuse a file that is not ours before anything is written."""
        with self.transaction("DEFERRED") as connection:
            is_new = _is_new(connection, self._path)
        with self._lock, _translated(self._path):
            self._connection.execute("PRAGMA journal_mode = WAL")
        if is_new:
            with self.transaction("IMMEDIATE") as connection:
                if _is_new(connection, self._path):  # another process may have been faster
                    for statement in _SCHEMA.split(";"):
                        connection.execute(statement)
                    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def close(self) -> None:
        with self._lock, _translated(self._path):
            self._connection.close()


def _is_new(connection: sqlite3.Connection, path: str) -> bool:
    """Tell whether the file is empty.

    Raises:
        RetrievalStatsStoreError: it holds something else than this version's tables.
    """
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if not (application or version or tables):
        return True
    if application != APPLICATION_ID:
        raise RetrievalStatsStoreError("sqlite", f"{path} is another program's database; name a new file")
    if version != SCHEMA_VERSION:
        raise RetrievalStatsStoreError(
            "sqlite",
            f"{path} has schema version {version}, expected {SCHEMA_VERSION};"
            " use the release that made it, or name another file and rebuild the statistics",
        )
    return False


@contextmanager
def _translated(path: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", None)
        kind = "filesystem" if code is not None and code & 0xFF in _FILESYSTEM_ERRORS else "sqlite"
        raise RetrievalStatsStoreError(kind, f"{path}: {error}") from error
