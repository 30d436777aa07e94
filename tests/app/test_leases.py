"""The writer lock on a lease row: who may write, what a dead writer leaves on PostgreSQL."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import OperationalError, connections, transaction
from pyoxigraph import NamedNode

from charactermemory.adapters.oxigraph.service import ServiceConnection
from charactermemory.adapters.oxigraph.settle import settle
from charactermemory.adapters.oxigraph.terms import receipt_iri
from charactermemory.errors import CommitOutcomeUnknown, StoreUnavailable
from charactermemory.testing.servers import OxigraphServer
from memory_app import leases
from memory_app.leases import LeaseWriterLock
from memory_app.models import WriterLease
from tests.app.processes import django_script
from tests.graph.test_locks import a_seconds_work, commit, never, no_head, values
from tests.support.postgres import PostgresServer

GRAPH = NamedNode("urn:g")
INCREMENT = (
    "DELETE { GRAPH <urn:g> { <urn:c> <urn:v> ?v } } INSERT { GRAPH <urn:g> { <urn:c> <urn:v> ?w } } "
    "WHERE { GRAPH <urn:g> { <urn:c> <urn:v> ?v } BIND(?v + 1 AS ?w) }"
)


@pytest.fixture(autouse=True)
def own_connections(postgres: str) -> Iterator[None]:
    yield
    leases.close_connections()


@pytest.fixture
def served(oxigraph_server: OxigraphServer) -> Iterator[ServiceConnection]:
    connection = ServiceConnection(oxigraph_server.url)
    connection.update("DROP ALL")
    yield connection
    connection.close()


def row(postgres: str, collection: str = "ada") -> WriterLease:
    return WriterLease.objects.using(postgres).get(collection=collection)


@pytest.mark.usefixtures("on_sqlite")
def test_sqlite_is_refused_with_what_to_do() -> None:
    with pytest.raises(ImproperlyConfigured, match="WRITER_LOCK_PATH"):
        LeaseWriterLock("default")


def test_racing_threads_write_one_after_the_other(postgres: str) -> None:
    tokens: list[int] = []
    inside: list[int] = []

    def work() -> None:
        lock = LeaseWriterLock(postgres)  # each facade has an object of its own; the lock is one
        for _ in range(10):
            with lock.hold("ada", never, no_head) as grant:
                inside.append(1)
                assert len(inside) == 1
                grant.sending()
                time.sleep(0.001)
                grant.settled(committed=True)
                tokens.append(grant.token)
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert tokens == list(range(1, 41))
    assert LeaseWriterLock(postgres).last_settled("ada") == 40


WRITER = """
from charactermemory.adapters.oxigraph.service import ServiceConnection
from memory_app.leases import LeaseWriterLock
lock, connection = LeaseWriterLock(), ServiceConnection(sys.argv[1])
say("ready"); wait()
tokens = []
for _ in range(20):
    with lock.hold("ada", None, lambda: 0) as grant:
        grant.sending()
        connection.update(sys.argv[2])
        grant.settled(True)
        tokens.append(grant.token)
say(tokens)
"""


def test_racing_processes_write_one_after_the_other(
    postgres: str,
    postgres_server: PostgresServer,
    oxigraph_server: OxigraphServer,
    served: ServiceConnection,
    tmp_path: Path,
) -> None:
    served.update("INSERT DATA { GRAPH <urn:g> { <urn:c> <urn:v> 0 } }")
    arguments = (WRITER, postgres_server, tmp_path, oxigraph_server.url, INCREMENT)
    with django_script(*arguments) as one, django_script(*arguments) as two:
        for script in (one, two):
            assert script.hear() == "ready"
        for script in (one, two):
            script.go()
        tokens = [json.loads(script.end()) for script in (one, two)]
    assert values(served, "urn:c", "urn:v") == [40]
    assert sorted(tokens[0] + tokens[1]) == list(range(1, 41))


def test_a_token_is_above_the_graphs_head_and_all_before_it(postgres: str) -> None:
    lock = LeaseWriterLock(postgres)
    with lock.hold("ada", never, lambda: 41) as grant:
        assert grant.token == 42
    with lock.hold("ada", never, no_head) as grant:
        assert grant.token == 43, "a head that lags behind does not lower it"
    with lock.hold("bea", never, no_head) as grant:
        assert grant.token == 1, "collections are numbered apart"


def test_collections_do_not_wait_for_each_other_and_a_second_writer_gives_up(postgres: str) -> None:
    lock = LeaseWriterLock(postgres, wait_seconds=0.4)

    def refused() -> None:
        started = time.monotonic()
        with pytest.raises(StoreUnavailable, match="ada"), lock.hold("ada", never, no_head):
            pass
        assert 0.3 < time.monotonic() - started < 3

    with lock.hold("ada", never, no_head):
        with lock.hold("bea", never, no_head):
            pass
        refused()  # by a thread of its own process
        leases._turns.clear()
        refused()  # by the row, as another process is
    with lock.hold("ada", never, no_head):
        pass


def test_a_holder_that_fails_gives_the_lock_back(postgres: str) -> None:
    lock = LeaseWriterLock(postgres, wait_seconds=1)
    with pytest.raises(KeyError), lock.hold("ada", never, no_head):
        raise KeyError
    with lock.hold("ada", never, no_head):
        pass


def test_only_committed_tokens_count_as_settled(postgres: str) -> None:
    lock = LeaseWriterLock(postgres)
    assert lock.last_settled("ada") == 0
    with lock.hold("ada", never, no_head) as grant:
        grant.sending()
        assert row(postgres).unsettled == 1
        grant.settled(committed=True)
    with lock.hold("ada", never, no_head):
        pass  # a replay: nothing sent
    with lock.hold("ada", never, no_head) as grant:
        grant.sending()
        grant.settled(committed=False)  # the guard refused it
    assert lock.last_settled("ada") == 1
    assert (row(postgres).unsettled, row(postgres).until) == (None, None)


def test_a_token_left_open_is_settled_by_the_next_holder_until_it_is_known(postgres: str) -> None:
    lock = LeaseWriterLock(postgres)
    with lock.hold("ada", never, no_head) as grant:
        grant.sending()
    asked: list[tuple[int, int]] = []

    def unreachable(old: int, own: int) -> bool:
        asked.append((old, own))
        raise CommitOutcomeUnknown(store="graph store", detail="gone")

    with pytest.raises(StoreUnavailable, match="commit 1 cannot be settled") as failure:
        with lock.hold("ada", unreachable, no_head):
            raise AssertionError("granted without settling")
    assert not isinstance(failure.value, CommitOutcomeUnknown), "the caller's own commit had not begun"

    def landed(old: int, own: int) -> bool:
        asked.append((old, own))
        return True

    with lock.hold("ada", landed, no_head) as grant:
        assert grant.token == 3
    assert asked == [(1, 2), (1, 3)]
    assert lock.last_settled("ada") == 1
    with lock.hold("ada", never, no_head):
        pass


def test_who_lost_the_lease_sends_nothing_and_takes_nothing_from_the_next_holder(postgres: str) -> None:
    lock = LeaseWriterLock(postgres, lease_seconds=0.05)
    with lock.hold("ada", never, no_head) as slow:
        time.sleep(0.1)
        leases._turns.clear()  # the next holder is another process
        with LeaseWriterLock(postgres).hold("ada", never, no_head) as next_one:
            with pytest.raises(StoreUnavailable, match="token 1 ran out; nothing was written"):
                slow.sending()
            next_one.sending()
            slow.settled(committed=True)
            slow.release()
            assert row(postgres).unsettled == 2
            assert row(postgres).until is not None
            next_one.settled(committed=True)
    assert lock.last_settled("ada") == 2


def test_neither_a_hosts_transaction_nor_its_rollback_touches_the_lease(postgres: str) -> None:
    lock = LeaseWriterLock(postgres, wait_seconds=1)
    with pytest.raises(ZeroDivisionError), transaction.atomic(using=postgres):
        with lock.hold("ada", never, no_head) as grant:
            grant.sending()
            grant.settled(committed=True)
        raise ZeroDivisionError
    assert lock.last_settled("ada") == 1
    with lock.hold("ada", never, no_head) as grant:
        assert grant.token == 2


def test_a_connection_that_the_server_closed_is_replaced(postgres: str) -> None:
    lock = LeaseWriterLock(postgres)
    with lock.hold("ada", never, no_head):
        pass
    with connections[postgres].cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
    with lock.hold("ada", never, no_head) as grant:
        assert grant.token == 2


def test_without_the_database_no_write_begins(postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def down(*_: object) -> None:
        raise OperationalError("connection refused\nIs the server running?")

    lock = LeaseWriterLock(postgres)
    monkeypatch.setattr(leases._Database, "_execute_once", down)
    with pytest.raises(StoreUnavailable, match="writer lock .* connection refused$"):
        with lock.hold("ada", never, no_head):
            pytest.fail("held")
    monkeypatch.undo()
    with lock.hold("ada", never, no_head) as grant:
        assert grant.token == 1


def test_a_commit_is_not_said_to_fail_because_the_lease_cannot_be_given_back(
    postgres: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lock = LeaseWriterLock(postgres, lease_seconds=0.3)
    with lock.hold("ada", never, no_head) as grant:
        grant.sending()
        grant.settled(committed=True)
        monkeypatch.setattr(leases, "_SETTLE", "SELECT nonsense")
    assert "ends by itself" in caplog.text
    monkeypatch.undo()
    with lock.hold("ada", lambda old, own: (old, own) == (1, 2), no_head):
        assert lock.last_settled("ada") == 1


FORKING = """
from memory_app.leases import LeaseWriterLock
lock = LeaseWriterLock()
with lock.hold("ada", None, lambda: 0):
    pass
child = os.fork()
if not child:
    with lock.hold("ada", None, lambda: 0) as grant:
        say(grant.token)
    os._exit(0)
os.waitpid(child, 0)
with lock.hold("ada", None, lambda: 0) as grant:
    say(grant.token)
"""


def test_a_forked_child_uses_a_connection_of_its_own(
    postgres: str, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    with django_script(FORKING, postgres_server, tmp_path) as parent:
        assert parent.end().split() == ["2", "3"]


HOLDER = """
from charactermemory.adapters.oxigraph.service import ServiceConnection
from memory_app.leases import LeaseWriterLock
lock, connection = LeaseWriterLock(lease_seconds=1), ServiceConnection(sys.argv[1])
with lock.hold("ada", None, lambda: 0) as grant:
    if sys.argv[2]:
        grant.sending()
        say("sending")
        connection.update(sys.argv[2])
    say("granted")
    wait()
"""


def test_a_writer_killed_before_it_sent_delays_only_until_its_lease_ends(
    postgres: str, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    with django_script(HOLDER, postgres_server, tmp_path, "http://127.0.0.1:9", "") as holder:
        assert holder.hear() == "granted"
        holder.kill()
    with LeaseWriterLock(postgres).hold("ada", never, no_head) as grant:
        assert grant.token == 2


def test_a_writer_killed_in_its_update_leaves_one_digest(
    postgres: str,
    postgres_server: PostgresServer,
    oxigraph_server: OxigraphServer,
    served: ServiceConnection,
    tmp_path: Path,
) -> None:
    """Killed while the endpoint evaluates its update; the next writer has other content for the same object."""
    slow = commit(1, 1, a_seconds_work(served))
    with django_script(HOLDER, postgres_server, tmp_path, oxigraph_server.url, slow) as holder:
        assert holder.hear() == "sending"
        time.sleep(0.2)
        holder.kill()
    assert values(served, "urn:object", "urn:digest") == [], "still under way, and nobody waits for it"
    lock = LeaseWriterLock(postgres)

    def there(token: int) -> bool:
        return served.ask(f"ASK {{ GRAPH <urn:g> {{ {receipt_iri(token)} ?p ?o }} }}")

    with lock.hold("ada", lambda old, own: settle(served, GRAPH, old, own), no_head) as grant:
        grant.sending()
        served.update(commit(grant.token, 2))
        grant.settled(there(grant.token))
    assert there(1) and not there(2), "what was under evaluation before the fence lands"
    assert values(served, "urn:object", "urn:digest") == [1]
    assert lock.last_settled("ada") == 1
