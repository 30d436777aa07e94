"""The faults: each breaks a deployment during a block, and says what must come of an operation in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from django.db import OperationalError, connections, transaction
from kombu.exceptions import OperationalError as BrokerError

from charactermemory.adapters.oxigraph.connection import ResponseLost
from charactermemory.errors import StoreUnavailable
from memory_app import tasks
from memory_app.models import StatisticsHealth
from memory_app.repairs import dispatch
from tests.faults import world
from tests.faults.world import OPERATIONS, Deployment
from tests.repairs.world import OUTAGE, RATE_LIMIT

ALL = frozenset(OPERATIONS)
EMBEDDING = frozenset({"commit", "correct"})
"""What needs new vectors."""
INDEX = ALL - {"link"}
"""What changes the index; a link only reads there how its ends stand."""
DELETING = ALL - {"commit", "link"}
"""What takes points away."""


@dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes:
        during: breaks the deployment for a block.
        hits: operations that come out incomplete, or, if `critical`, that fail.
        critical: whether an operation that is hit raises, and leaves nothing.
        transactional: whether it needs real transactions around it.
    """

    during: Callable[[Deployment], AbstractContextManager[None]]
    hits: frozenset[str]
    critical: bool = False
    transactional: bool = False


# --- the provider of embeddings -------------------------------------------------------------------


def _provider_raises(error: Exception) -> Callable[[Deployment], AbstractContextManager[None]]:
    @contextmanager
    def during(_: Deployment) -> Iterator[None]:
        world.provider.error = error
        yield
        world.provider.error = None

    return during


def _provider_answers(
    spoil: Callable[[list[list[float]]], list[list[float]]],
) -> Callable[[Deployment], AbstractContextManager[None]]:
    @contextmanager
    def during(_: Deployment) -> Iterator[None]:
        world.provider.spoil = spoil
        yield
        world.provider.spoil = list

    return during


# --- the vector server ----------------------------------------------------------------------------


@contextmanager
def vectors_down(deployment: Deployment) -> Iterator[None]:
    """Nobody listens."""
    deployment.vectors.stop()
    yield
    deployment.vectors.start()


@contextmanager
def vectors_slow(deployment: Deployment) -> Iterator[None]:
    """Writes are not answered before the client gives up; they are done later."""
    index: Any = deployment.memory.stores.vectors
    http = index._connection.client()._client.openapi_client.client._client
    patience, http.timeout = http.timeout, httpx.Timeout(0.1)
    with deployment.vectors.troubled("stall", "writes"):
        yield
    http.timeout = patience


def _vectors(kind: Any, touching: Any) -> Callable[[Deployment], AbstractContextManager[None]]:
    return lambda deployment: deployment.vectors.troubled(kind, touching)


# --- the graph's endpoint -------------------------------------------------------------------------


@contextmanager
def graph_down(deployment: Deployment) -> Iterator[None]:
    """Nobody listens."""
    deployment.graph.kill()
    yield
    deployment.graph.start()


def _graph_restarts(landed: bool) -> Callable[[Deployment], AbstractContextManager[None]]:
    """The server is killed while it has the update, and comes back; `landed` tells whether it had stored it."""

    @contextmanager
    def during(deployment: Deployment) -> Iterator[None]:
        graph: Any = deployment.memory.stores.graph
        connection = graph._connection
        update, lost = connection.update, []

        def restart(text: str) -> None:
            if lost:
                return update(text)
            lost.append(text)
            if landed:
                update(text)
            deployment.graph.restart()
            raise ResponseLost("killed", in_flight=True)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(connection, "update", restart)
            patch.setattr(graph, "_watch_seconds", 0.2)
            yield
        assert lost

    return during


@contextmanager
def graph_lost_after(deployment: Deployment) -> Iterator[None]:
    """The endpoint goes away as soon as it has acknowledged the commit."""
    connection: Any = deployment.memory.stores.graph._connection  # type: ignore[attr-defined]
    receipt = deployment.memory.stores.graph.head() + 1
    query, update = connection.query, connection.update
    written: list[str] = []

    def note(text: str) -> None:
        update(text)
        written.append(text)

    def gone(text: str) -> Any:
        if written and f"receipt:{receipt}" not in text:
            raise StoreUnavailable(store="graph store", detail="gone")
        return query(text)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "update", note)
        patch.setattr(connection, "query", gone)
        yield


# --- the database ---------------------------------------------------------------------------------


@contextmanager
def database_locked(_: Deployment) -> Iterator[None]:
    """Another connection holds SQLite's one write lock, or the statistics' table of PostgreSQL."""
    own = connections["default"]
    on_sqlite = own.vendor == "sqlite"
    with own.cursor() as cursor:
        cursor.execute("PRAGMA busy_timeout = 0" if on_sqlite else "SET lock_timeout = '50ms'")
    other = connections.create_connection("default")
    with other.cursor() as cursor:
        cursor.execute("BEGIN IMMEDIATE" if on_sqlite else "BEGIN")
        if not on_sqlite:
            cursor.execute(f"LOCK TABLE {StatisticsHealth._meta.db_table} IN SHARE ROW EXCLUSIVE MODE")
        yield
        cursor.execute("ROLLBACK")
    other.close()


@contextmanager
def database_down(_: Deployment) -> Iterator[None]:
    """Every statement fails."""

    def fail(*_: Any) -> None:
        raise OperationalError("server closed the connection unexpectedly")

    with connections["default"].execute_wrapper(fail):
        yield


@contextmanager
def rolled_back(_: Deployment) -> Iterator[None]:
    """The host's transaction, in which the operation was made, is taken back."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


# --- the broker -----------------------------------------------------------------------------------


@contextmanager
def broker_down(deployment: Deployment) -> Iterator[None]:
    """The vector server is down, and the worker cannot be told."""
    asked: list[int] = []

    def refuse(**_: Any) -> None:
        asked.append(1)
        raise BrokerError("refused")

    with pytest.MonkeyPatch.context() as patch, vectors_down(deployment):
        patch.setattr(tasks.run, "apply_async", refuse)
        patch.setattr(dispatch, "_configured", lambda: "celery")
        yield
        dispatch.stop()
        assert asked


FAULTS: dict[str, Fault] = {
    "provider_down": Fault(_provider_raises(OUTAGE), EMBEDDING),
    "provider_rate_limited": Fault(_provider_raises(RATE_LIMIT), EMBEDDING),
    "provider_wrong_count": Fault(_provider_answers(lambda vectors: vectors[:-1]), EMBEDDING),
    "provider_wrong_dimension": Fault(
        _provider_answers(lambda vectors: [vector[:-1] for vector in vectors]), EMBEDDING
    ),
    "vectors_down": Fault(vectors_down, ALL),
    "vectors_slow": Fault(vectors_slow, INDEX),
    "vectors_fail": Fault(_vectors("fail", "all"), ALL),
    "vectors_fail_deletes": Fault(_vectors("fail", "deletes"), DELETING),
    "vectors_answer_nonsense": Fault(_vectors("nonsense", "all"), ALL),
    "vectors_hang_up": Fault(_vectors("hang_up", "writes"), INDEX),
    "graph_down": Fault(graph_down, ALL, critical=True),
    "graph_restarts_without_the_update": Fault(_graph_restarts(landed=False), ALL, critical=True),
    "graph_restarts_with_the_update": Fault(_graph_restarts(landed=True), frozenset()),
    "graph_lost_after_the_commit": Fault(graph_lost_after, ALL),
    "database_locked": Fault(database_locked, ALL, transactional=True),
    "database_down": Fault(database_down, ALL, transactional=True),
    "database_rolled_back": Fault(rolled_back, ALL, transactional=True),
    "broker_down": Fault(broker_down, ALL),
}
