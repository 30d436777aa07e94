"""The writer lock of all processes that share a PostgreSQL database: a lease row (consistency.md R4).

The row is taken and given back by single conditional updates in autocommit, on a connection that is never the
host's: no session state, so every pooler is fine, and no part in any transaction. All times are the
database's, so that clocks need not agree.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db import Error, InterfaceError, OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from charactermemory.errors import StoreUnavailable
from charactermemory.ports.locks import Grant
from memory_app.models import WriterLease

logger = logging.getLogger(__name__)

WAIT_SECONDS = 10.0
"""How long a writer waits for its turn (decisions.md "To R4")."""
LEASE_SECONDS = 15.0
"""How long a lease lasts from being taken, and again from the sending of the update, whose time-out is 10 s."""
SETTLE_SECONDS = 30.0
"""How long it lasts while a dead holder's update is being settled, which gives up after 25 s."""
IDLE_SECONDS = 30.0
"""A connection idle for longer is tried before it is used: a server or pooler may have closed it."""

_LOCK_NAME = "writer lock"
_POLL_SECONDS = (0.002, 0.05)
"""Shortest and longest pause between two tries for the row; a twentieth of the time already waited."""

_TABLE = WriterLease._meta.db_table
_UNTIL = "clock_timestamp() + make_interval(secs => %s)"
_CREATE = f"INSERT INTO {_TABLE} (collection, token, last_settled) VALUES (%s, 0, 0) ON CONFLICT DO NOTHING"  # noqa: S608
_TAKE = (
    f"UPDATE {_TABLE} SET token = greatest(token, %s) + 1, until = {_UNTIL}"  # noqa: S608 - constants
    " WHERE collection = %s AND (until IS NULL OR until <= clock_timestamp()) RETURNING token, unsettled"
)
_RENEW = f"UPDATE {_TABLE} SET until = {_UNTIL} WHERE collection = %s AND token = %s RETURNING token"  # noqa: S608
_SEND = (
    f"UPDATE {_TABLE} SET unsettled = token, until = {_UNTIL}"  # noqa: S608
    " WHERE collection = %s AND token = %s RETURNING token"
)
_SETTLE = (
    f"UPDATE {_TABLE} SET unsettled = NULL, last_settled = greatest(last_settled, %s)"  # noqa: S608
    " WHERE collection = %s AND unsettled = %s"
)
_RELEASE = f"UPDATE {_TABLE} SET until = NULL WHERE collection = %s AND token = %s"  # noqa: S608
_LAST_SETTLED = f"SELECT last_settled FROM {_TABLE} WHERE collection = %s"  # noqa: S608


class LeaseWriterLock:
    """A `WriterLock` between all processes that share a database, on as many machines as there are."""

    def __init__(
        self,
        using: str = "default",
        *,
        wait_seconds: float = WAIT_SECONDS,
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        """Take the alias of the database; connects on first use.

        Raises:
            ImproperlyConfigured: it is not PostgreSQL. On SQLite a second connection would wait for the host's
                own transaction, so that a file is locked instead.
        """
        if connections[using].vendor != "postgresql":
            raise ImproperlyConfigured(
                f"the writer lease needs PostgreSQL, and DATABASES[{using!r}] is {connections[using].vendor}; "
                "use PostgreSQL, or set WRITER_LOCK_PATH so that writers of one machine take turns by files"
            )
        self._using = using
        self._wait_seconds = wait_seconds
        self._lease_seconds = lease_seconds

    @contextmanager
    def hold(
        self, collection: str, settle: Callable[[int, int], bool], head: Callable[[], int]
    ) -> Iterator[Grant]:
        """See `WriterLock`."""
        deadline = time.monotonic() + self._wait_seconds
        with _turn((self._using, collection), self._not_free(collection), self._wait_seconds):
            # Before the lease is taken: what is granted meanwhile is counted in the row.
            token, unsettled = self._take(collection, head(), deadline)
            grant = _LeaseGrant(self._database, collection, token, unsettled, self._lease_seconds)
            try:
                if grant.unsettled is not None:
                    grant.settle_old(settle)
                yield grant
            finally:
                grant.release()

    def last_settled(self, collection: str) -> int | None:
        """See `WriterLock`; 0 before the first commit."""
        row = self._database.row(_LAST_SETTLED, (collection,))
        return int(row[0]) if row else 0

    @property
    def _database(self) -> _Database:
        return _database(self._using)

    def _take(self, collection: str, head: int, deadline: float) -> tuple[int, int | None]:
        started = time.monotonic()
        created = False
        while True:
            if row := self._database.row(_TAKE, (head, self._lease_seconds, collection)):
                return row[0], row[1]
            if not created:
                self._database.run(_CREATE, (collection,))
                created = True
                continue
            now = time.monotonic()
            if now >= deadline:
                raise self._not_free(collection)
            shortest, longest = _POLL_SECONDS
            time.sleep(min(max((now - started) / 20, shortest), longest))

    def _not_free(self, collection: str) -> StoreUnavailable:
        detail = f"collection {collection}: another writer held it for {self._wait_seconds:g} s"
        return StoreUnavailable(store=_LOCK_NAME, detail=detail)


class _LeaseGrant:
    """The lease while it is held. What is true of it is decided by the row alone."""

    def __init__(
        self, database: _Database, collection: str, token: int, unsettled: int | None, lease_seconds: float
    ) -> None:
        self.token = token
        self.unsettled = unsettled
        self._database = database
        self._collection = collection
        self._lease_seconds = lease_seconds
        self._committed: bool | None = None
        self._sent = False

    def sending(self) -> None:
        """See `Grant`.

        Raises:
            StoreUnavailable: the lease ran out and another writer took it; nothing was sent.
        """
        self._keep(_SEND, self._lease_seconds)
        self._sent = True

    def settled(self, committed: bool) -> None:
        """See `Grant`; written when the lease is given back, which follows at once."""
        self._committed = committed

    def settle_old(self, settle: Callable[[int, int], bool]) -> None:
        """Find out what became of a dead holder's update, and forget that it is open."""
        old = self.unsettled
        assert old is not None
        self._keep(_RENEW, SETTLE_SECONDS)
        try:
            landed = settle(old, self.token)
        except StoreUnavailable as error:
            # Not the caller's own commit: that has not begun, so its outcome is known.
            detail = f"an earlier writer's commit {old} cannot be settled now: {error.detail}"
            raise StoreUnavailable(store=error.store, detail=detail) from error
        self._keep(_RENEW, self._lease_seconds)
        self._database.run(_SETTLE, (old if landed else 0, self._collection, old))

    def release(self) -> None:
        """Give the lease back. A failure here is not the caller's: what it wrote is known to have landed or not.

        The lease then ends by itself, and the next holder settles what is still said to be open.
        """
        try:
            if self._sent and self._committed is not None:
                number = self.token if self._committed else 0
                self._database.run(_SETTLE, (number, self._collection, self.token))
            self._database.run(_RELEASE, (self._collection, self.token))
        except StoreUnavailable as error:
            logger.warning(
                "the lease of collection %s was not given back and ends by itself: %s",
                self._collection,
                error,
            )

    def _keep(self, statement: str, seconds: float) -> None:
        if not self._database.row(statement, (seconds, self._collection, self.token)):
            detail = (
                f"collection {self._collection}: the lease of token {self.token} ran out; nothing was written"
            )
            raise StoreUnavailable(store=_LOCK_NAME, detail=detail)


@dataclass
class _Database:
    """The process's own connection to one database for leases; one statement at a time."""

    using: str
    lock: threading.Lock = field(default_factory=threading.Lock)
    connection: BaseDatabaseWrapper | None = None
    used_at: float = 0.0

    def run(self, statement: str, parameters: Sequence[str | float]) -> None:
        """Execute one statement in autocommit."""
        self._execute(statement, parameters, fetch=False)

    def row(self, statement: str, parameters: Sequence[str | float]) -> tuple[Any, ...] | None:
        """Execute one statement and return its row, if it has one."""
        return self._execute(statement, parameters, fetch=True)

    def close(self) -> None:
        """Close the connection; the next statement opens another."""
        with self.lock:
            self._close()

    def _execute(
        self, statement: str, parameters: Sequence[str | float], fetch: bool
    ) -> tuple[Any, ...] | None:
        """Execute, once more on a new connection if the old one was lost: repeating harms none of them.

        A lease taken by a statement whose answer was lost belongs to nobody and ends by itself.

        Raises:
            StoreUnavailable: the database cannot be reached or refuses.
        """
        with self.lock:
            try:
                try:
                    return self._execute_once(statement, parameters, fetch)
                except (OperationalError, InterfaceError):
                    self._close()
                    return self._execute_once(statement, parameters, fetch)
            except Error as error:
                self._close()
                detail = str(error).strip().partition("\n")[0]
                raise StoreUnavailable(store=_LOCK_NAME, detail=f"the database: {detail}") from error

    def _execute_once(
        self, statement: str, parameters: Sequence[str | float], fetch: bool
    ) -> tuple[Any, ...] | None:
        if self.connection is None:
            self.connection = connections.create_connection(self.using)
            self.connection.inc_thread_sharing()
            self.connection.set_autocommit(True)
        elif time.monotonic() - self.used_at > IDLE_SECONDS and not self.connection.is_usable():
            self._close()
            return self._execute_once(statement, parameters, fetch)
        with self.connection.cursor() as cursor:
            cursor.execute(statement, parameters)
            row = cursor.fetchone() if fetch else None
        self.used_at = time.monotonic()
        return row

    def _close(self) -> None:
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()


_lock = threading.Lock()
_databases: dict[str, _Database] = {}
_turns: dict[tuple[str, str], threading.Lock] = {}
_inherited: list[object] = []
"""What a parent opened; kept, since closing it here would end the parent's session."""


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.Lock()
    _inherited.append(dict(_databases))
    _databases.clear()
    _turns.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)


def close_connections() -> None:
    """Close this process's connections for leases; a later use opens anew."""
    with _lock:
        databases = list(_databases.values())
    for database in databases:
        database.close()


def _database(using: str) -> _Database:
    with _lock:
        return _databases.setdefault(using, _Database(using))


@contextmanager
def _turn(key: tuple[str, str], not_free: StoreUnavailable, wait_seconds: float) -> Iterator[None]:
    """Let this process's threads take turns before they ask the database."""
    with _lock:
        lock = _turns.setdefault(key, threading.Lock())
    if not lock.acquire(timeout=wait_seconds):
        raise not_free
    try:
        yield
    finally:
        lock.release()
