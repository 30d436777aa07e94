"""Whose transaction is open, and transactions and connections of our own (consistency.md §2, §8, §9)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import Error, connections, transaction

from charactermemory.errors import RetrievalStatsStoreError


def in_host_transaction(using: str) -> bool:
    """Tell whether the host has a transaction open on this thread's connection; connects to nothing.

    The one that a `TestCase` wraps around a test does not count, as it does not for Django's own durable
    blocks; nor can anything be committed before it is rolled back.
    """
    connection = transaction.get_connection(using)
    if not connection.in_atomic_block:
        return connection.connection is not None and not connection.get_autocommit()
    return not getattr(connection.atomic_blocks[-1], "_from_testcase", False)


def reconnect_where_lost() -> None:
    """Close those connections of this thread that failed and no longer work, so that the next query connects anew.

    Django does so between requests and Celery between tasks. A host's own loop or thread has neither, and would
    go on with what a restart of the server has cut off. One in a transaction stays: its end has to fail.
    """
    for connection in connections.all(initialized_only=True):
        if connection.connection is None or not connection.errors_occurred:
            continue
        if connection.in_atomic_block or not connection.get_autocommit():
            continue
        if connection.is_usable():
            connection.errors_occurred = False
        else:
            connection.close()


@contextmanager
def writing(using: str) -> Iterator[None]:
    """Write in a transaction of our own, whole or not at all.

    Rows locked in a host's transaction would stay locked until the host ends it, and its rollback would take
    back what other stores already count on.

    Raises:
        RetrievalStatsStoreError: the database failed, or a host's transaction is open.
    """
    with translated():
        if in_host_transaction(using):
            raise RetrievalStatsStoreError(
                "database",
                "statistics are not written inside a transaction of the host; call this outside, or from "
                "transaction.on_commit",
            )
        with transaction.atomic(using=using):
            yield


@contextmanager
def reading(using: str) -> Iterator[None]:
    """Read so that a failure leaves a host's transaction usable.

    Raises:
        RetrievalStatsStoreError: the database failed.
    """
    with translated():
        if transaction.get_connection(using).in_atomic_block:
            with transaction.atomic(using=using):  # a savepoint
                yield
        else:
            yield


@contextmanager
def translated() -> Iterator[None]:
    """Raise what the database raises as our error, with its first line: the rest may quote rows."""
    try:
        yield
    except Error as error:
        detail = str(error).strip().partition("\n")[0]
        raise RetrievalStatsStoreError("database", f"{type(error).__name__}: {detail}") from error
