"""Writer locks and owner locks: who may write, what a dead writer leaves, who may open a folder."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyoxigraph import Literal, NamedNode

from charactermemory.adapters.oxigraph.connection import Connection, ResponseLost
from charactermemory.adapters.oxigraph.embedded import EmbeddedConnection
from charactermemory.adapters.oxigraph.locks import FileWriterLock, ThreadWriterLock
from charactermemory.adapters.oxigraph.service import ServiceConnection
from charactermemory.adapters.oxigraph.settle import settle
from charactermemory.adapters.oxigraph.terms import receipt_iri
from charactermemory.errors import CommitOutcomeUnknown, NotAStore, StoreInUse, StoreUnavailable
from charactermemory.ports.locks import WriterLock
from charactermemory.testing.recording import Fault, RecordingConnection
from charactermemory.testing.servers import OxigraphServer
from tests.graph.processes import Script, run

GRAPH = NamedNode("urn:g")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OxigraphServer]:
    with OxigraphServer(tmp_path_factory.mktemp("served") / "store") as running:
        yield running


@pytest.fixture
def served(server: OxigraphServer) -> Iterator[ServiceConnection]:
    connection = ServiceConnection(server.url)
    connection.update("DROP ALL")
    yield connection
    connection.close()


def never(old: int, own: int) -> bool:
    raise AssertionError(f"nothing was left open, yet {old} was to be settled by {own}")


def no_head() -> int:
    return 0


def values(connection: Connection, subject: str, predicate: str) -> list[int]:
    rows = connection.query(f"SELECT ?o WHERE {{ GRAPH <urn:g> {{ <{subject}> <{predicate}> ?o }} }}")
    return sorted(int(end.value) for (end,) in rows if isinstance(end, Literal))


def increment(connection: Connection) -> None:
    connection.update(
        "DELETE { GRAPH <urn:g> { <urn:c> <urn:v> ?v } } INSERT { GRAPH <urn:g> { <urn:c> <urn:v> ?w } } "
        "WHERE { GRAPH <urn:g> { <urn:c> <urn:v> ?v } BIND(?v + 1 AS ?w) }"
    )


# --- writer locks: one at a time, numbered ---


def lock_of(mode: str, folder: Path) -> WriterLock:
    return ThreadWriterLock(str(folder)) if mode == "thread" else FileWriterLock(folder)


@pytest.mark.parametrize("mode", ["thread", "file"])
def test_racing_threads_write_one_after_the_other(
    mode: str, tmp_path: Path, served: ServiceConnection
) -> None:
    connection = EmbeddedConnection(tmp_path / "store", "ada") if mode == "thread" else served
    connection.update("INSERT DATA { GRAPH <urn:g> { <urn:c> <urn:v> 0 } }")
    tokens: list[int] = []

    def work() -> None:
        lock = lock_of(mode, tmp_path / "locks")  # each facade has an object of its own; the lock is one
        for _ in range(15):
            with lock.hold("ada", never, no_head) as grant:
                grant.sending()
                increment(connection)
                grant.settled(committed=True)
                tokens.append(grant.token)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert values(connection, "urn:c", "urn:v") == [60]
    assert tokens == list(range(1, 61))
    connection.close()


@pytest.mark.parametrize("mode", ["thread", "file"])
def test_a_token_is_above_the_graphs_head_and_all_before_it(mode: str, tmp_path: Path) -> None:
    lock = lock_of(mode, tmp_path)
    with lock.hold("ada", never, lambda: 41) as grant:
        assert grant.token == 42
        grant.sending()
        grant.settled(committed=True)
    with lock.hold("ada", never, no_head) as grant:
        assert grant.token == 43, "a head that lags behind does not lower it"
    with lock.hold("bea", never, no_head) as grant:
        assert grant.token == 1, "collections are numbered apart"


def test_a_thread_lock_gives_an_unused_number_again(tmp_path: Path) -> None:
    lock = ThreadWriterLock(str(tmp_path))
    for _ in range(2):
        with lock.hold("ada", never, no_head) as grant:
            assert grant.token == 1
    with lock.hold("ada", never, no_head) as grant:
        grant.sending()
    with lock.hold("ada", never, no_head) as grant:
        assert grant.token == 2, "a number that was sent is never used again"


@pytest.mark.parametrize("mode", ["thread", "file"])
def test_collections_do_not_wait_for_each_other_and_a_second_writer_gives_up(
    mode: str, tmp_path: Path
) -> None:
    waiting = ThreadWriterLock(str(tmp_path), wait_seconds=0.4) if mode == "thread" else None
    lock = waiting or FileWriterLock(tmp_path, wait_seconds=0.4)
    with lock.hold("ada", never, no_head):
        with lock.hold("bea", never, no_head):
            pass
        started, burnt = time.monotonic(), time.process_time()
        with pytest.raises(StoreUnavailable, match="ada"), lock.hold("ada", never, no_head):
            pass
        assert 0.3 < time.monotonic() - started < 2
        assert time.process_time() - burnt < 0.1, "waiting burns no processor time"
    with lock.hold("ada", never, no_head):
        pass


@pytest.mark.parametrize("mode", ["thread", "file"])
def test_a_holder_that_fails_gives_the_lock_back(mode: str, tmp_path: Path) -> None:
    lock = lock_of(mode, tmp_path)
    with pytest.raises(KeyError), lock.hold("ada", never, no_head):
        raise KeyError
    with lock.hold("ada", never, no_head):
        pass


WRITER = """
from charactermemory.adapters.oxigraph.locks import FileWriterLock
from charactermemory.adapters.oxigraph.service import ServiceConnection
lock, connection = FileWriterLock(Path(sys.argv[1])), ServiceConnection(sys.argv[2])
say("ready"); wait()
tokens = []
for _ in range(25):
    with lock.hold("ada", None, lambda: 0) as grant:
        grant.sending()
        connection.update(
            "DELETE { GRAPH <urn:g> { <urn:c> <urn:v> ?v } } INSERT { GRAPH <urn:g> { <urn:c> <urn:v> ?w } } "
            "WHERE { GRAPH <urn:g> { <urn:c> <urn:v> ?v } BIND(?v + 1 AS ?w) }")
        grant.settled(True)
        tokens.append(grant.token)
say(tokens)
"""


def test_racing_processes_write_one_after_the_other(
    tmp_path: Path, server: OxigraphServer, served: ServiceConnection
) -> None:
    served.update("INSERT DATA { GRAPH <urn:g> { <urn:c> <urn:v> 0 } }")
    with Script(WRITER, tmp_path, server.url) as one, Script(WRITER, tmp_path, server.url) as two:
        for script in (one, two):
            assert script.hear() == "ready"
        for script in (one, two):
            script.go()
        tokens = [json.loads(script.end()) for script in (one, two)]
    assert values(served, "urn:c", "urn:v") == [50]
    assert sorted(tokens[0] + tokens[1]) == list(range(1, 51))
    assert FileWriterLock(tmp_path).last_settled("ada") == 50


# --- what a dead writer leaves ---


def test_only_committed_tokens_count_as_settled(tmp_path: Path) -> None:
    lock = FileWriterLock(tmp_path)
    assert lock.last_settled("ada") == 0
    with lock.hold("ada", never, no_head) as grant:
        grant.sending()
        grant.settled(committed=True)
    with lock.hold("ada", never, no_head):
        pass  # a replay: nothing sent
    with lock.hold("ada", never, no_head) as grant:
        grant.sending()
        grant.settled(committed=False)  # the guard refused it
    assert lock.last_settled("ada") == 1
    assert ThreadWriterLock("key").last_settled("ada") is None


def test_a_lock_file_whose_first_holder_has_not_written_yet_says_that_nothing_is_settled(
    tmp_path: Path,
) -> None:
    (tmp_path / "ada.lock").touch()
    assert FileWriterLock(tmp_path).last_settled("ada") == 0


def test_a_token_left_open_is_settled_by_the_next_holder_until_it_is_known(tmp_path: Path) -> None:
    lock = FileWriterLock(tmp_path)
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


GRANTED = """
from charactermemory.adapters.oxigraph.locks import FileWriterLock
lock = FileWriterLock(Path(sys.argv[1]))
with lock.hold("ada", None, lambda: 0) as grant:
    say(grant.token)
    if sys.argv[2] == "sending":
        grant.sending()
        say("sent")
    wait()
"""


@pytest.mark.parametrize("reached", ["granted", "sending"])
def test_no_crash_grants_a_number_twice(reached: str, tmp_path: Path) -> None:
    with Script(GRANTED, tmp_path, reached) as holder:
        assert holder.hear() == "1"
        if reached == "sending":
            assert holder.hear() == "sent"
        holder.kill()
    settled = []
    with FileWriterLock(tmp_path).hold("ada", lambda *tokens: bool(settled.append(tokens)), no_head) as grant:
        assert grant.token == 2
    assert settled == ([(1, 2)] if reached == "sending" else [])


def test_a_lock_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "ada.lock").write_text("nonsense")
    lock = FileWriterLock(tmp_path)
    with pytest.raises(StoreUnavailable, match=r"ada\.lock cannot be read.*remove it"):
        with lock.hold("ada", never, no_head):
            pass
    with pytest.raises(StoreUnavailable, match=r"ada\.lock"):
        lock.last_settled("ada")


def test_a_lock_file_removed_while_one_waits_is_made_anew(tmp_path: Path) -> None:
    lock = FileWriterLock(tmp_path)
    with Script(GRANTED, tmp_path, "granted") as holder:
        assert holder.hear() == "1"
        waiter = threading.Timer(0.2, lambda: (os.remove(tmp_path / "ada.lock"), holder.go()))
        waiter.start()
        with lock.hold("ada", never, lambda: 7) as grant:
            assert grant.token == 8
            assert (tmp_path / "ada.lock").exists()
        waiter.join()


FORKING = """
from charactermemory.adapters.oxigraph.locks import FileWriterLock
lock = FileWriterLock(Path(sys.argv[1]))
with lock.hold("ada", None, lambda: 0):
    child = os.fork()
    if not child:
        time.sleep(60)
        os._exit(0)
    say(child)
    wait()
"""


def test_a_forked_child_does_not_keep_a_dead_holders_lock(tmp_path: Path) -> None:
    with Script(FORKING, tmp_path) as holder:
        child = int(holder.hear())
        holder.kill()
    try:
        with FileWriterLock(tmp_path, wait_seconds=2).hold("ada", never, no_head) as grant:
            assert grant.token == 2
    finally:
        os.kill(child, signal.SIGKILL)


# --- settling on a real endpoint ---

COMMIT = """INSERT {{ GRAPH <urn:g> {{ <urn:object> <urn:digest> {value} . <urn:charactermemory:receipt:{token}> a
  <urn:charactermemory:vocab:Receipt> }} }} WHERE {{ {slow}
  FILTER NOT EXISTS {{ GRAPH <urn:g> {{ ?f a <urn:charactermemory:vocab:Fence> ;
    <urn:charactermemory:vocab:token> ?t FILTER(?t > {token}) }} }}
  FILTER NOT EXISTS {{ GRAPH <urn:g> {{ <urn:object> <urn:digest> ?d FILTER(?d != {value}) }} }} }}"""
"""A commit in small: guarded by the fences and by its object's digest, and numbered by its receipt."""


def work_of(size: int) -> str:
    """A group pattern that keeps the endpoint busy for a time that grows with the cube of `size`."""
    numbers = " ".join(map(str, range(size)))
    return (
        f"{{ SELECT (COUNT(*) AS ?n) WHERE {{ VALUES ?a {{ {numbers} }} VALUES ?b {{ {numbers} }} "
        f"VALUES ?c {{ {numbers} }} FILTER(?a + ?b + ?c > 1) }} }}"
    )


def a_seconds_work(connection: Connection) -> str:
    """About a second of work on this machine as busy as it is now."""
    started = time.monotonic()
    connection.query(f"SELECT ?n WHERE {work_of(70)}")
    return work_of(round(70 * (1 / (time.monotonic() - started)) ** (1 / 3)))


def commit(token: int, value: int, slow: str = "") -> str:
    return COMMIT.format(token=token, value=value, slow=slow)


def test_settle_tells_a_commit_that_landed_from_one_that_never_will(served: ServiceConnection) -> None:
    served.update(commit(4, 1))
    assert settle(served, GRAPH, 4, 5, watch_seconds=0.3)
    started = time.monotonic()
    assert not settle(served, GRAPH, 6, 7, watch_seconds=0.3)
    assert time.monotonic() - started >= 0.3
    served.update(commit(6, 1))
    assert not served.ask(f"ASK {{ GRAPH <urn:g> {{ {receipt_iri(6)} ?p ?o }} }}"), "the fence shut it out"
    served.update(commit(7, 1))
    assert served.ask(f"ASK {{ GRAPH <urn:g> {{ {receipt_iri(7)} ?p ?o }} }}")


def test_an_update_given_up_while_the_endpoint_stood_still_is_settled_when_it_goes_on(
    server: OxigraphServer, served: ServiceConnection
) -> None:
    hasty = ServiceConnection(server.url, update_seconds=0.2)
    server.pause()
    try:
        with pytest.raises(ResponseLost):
            hasty.update(commit(1, 1))
    finally:
        server.resume()
    hasty.close()
    landed = settle(served, GRAPH, 1, 2, watch_seconds=1)
    for _ in range(5):
        assert values(served, "urn:object", "urn:digest") == ([1] if landed else [])
        time.sleep(0.05)


def test_settle_starts_its_watch_anew_when_the_endpoint_stood_still(served: ServiceConnection) -> None:
    troubled = RecordingConnection(
        served, faults={5: Fault(error=StoreUnavailable(store="graph store", detail="reset"))}
    )
    troubled.next_faults["update"] = Fault(moment="after", lose_response=True)
    started = time.monotonic()
    assert not settle(troubled, GRAPH, 1, 2, watch_seconds=0.5)
    assert time.monotonic() - started > 0.6
    assert [name for name in troubled.names() if name == "update"] == ["update"] * 2, (
        "a fence may be sent again"
    )


def test_an_endpoint_that_does_not_answer_leaves_the_outcome_unknown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("charactermemory.adapters.oxigraph.settle.PATIENCE_SECONDS", 0.5)
    with OxigraphServer(tmp_path / "store") as own:
        url = own.url
    gone = ServiceConnection(url)
    with pytest.raises(CommitOutcomeUnknown, match="fence at 2"):
        settle(gone, GRAPH, 1, 2, watch_seconds=0.1)
    gone.close()


HOLDER = """
from charactermemory.adapters.oxigraph.locks import FileWriterLock
from charactermemory.adapters.oxigraph.service import ServiceConnection
lock, connection = FileWriterLock(Path(sys.argv[1])), ServiceConnection(sys.argv[2])
with lock.hold("ada", None, lambda: 0) as grant:
    grant.sending()
    say("sending")
    connection.update(sys.argv[3])
    say("answered")
"""


@pytest.mark.parametrize(
    "late", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["lands", "is shut out"]
)
def test_a_writer_killed_in_its_update_leaves_one_digest(
    late: bool, tmp_path: Path, server: OxigraphServer, served: ServiceConnection
) -> None:
    """Killed while the endpoint evaluates its update, or before that has begun."""
    served.update("DROP ALL")
    slow = commit(1, 1, a_seconds_work(served))
    with Script(HOLDER, tmp_path, server.url, slow) as holder:
        assert holder.hear() == "sending"
        if not late:
            time.sleep(0.2)
        holder.kill()
    assert values(served, "urn:object", "urn:digest") == [], "still under way, and nobody waits for it"
    lock = FileWriterLock(tmp_path)

    def find_out(old: int, own: int) -> bool:
        return settle(served, GRAPH, old, own)

    with lock.hold("ada", find_out, no_head) as grant:
        grant.sending()
        served.update(commit(grant.token, 2))
        grant.settled(served.ask(f"ASK {{ GRAPH <urn:g> {{ {receipt_iri(grant.token)} ?p ?o }} }}"))
    time.sleep(0.5)
    first, second = (
        served.ask(f"ASK {{ GRAPH <urn:g> {{ {receipt_iri(token)} ?p ?o }} }}") for token in (1, 2)
    )
    assert first is not second
    assert first or late, "what was under evaluation before the fence lands"
    assert values(served, "urn:object", "urn:digest") == [1 if first else 2]
    assert lock.last_settled("ada") == (1 if first else 2)


# --- owner locks ---

OWNER = """
from charactermemory.adapters.oxigraph.embedded import EmbeddedConnection
connection = EmbeddedConnection(Path(sys.argv[1]), "ada")
connection.update("INSERT DATA { GRAPH <urn:g> { <urn:a> <urn:p> 1 } }")
say("open")
wait()
"""

OPENER = """
from charactermemory.adapters.oxigraph.embedded import EmbeddedConnection
from charactermemory.errors import StoreInUse
try:
    connection = EmbeddedConnection(Path(sys.argv[1]), "ada")
    say(len(connection.query("SELECT * { GRAPH <urn:g> { ?s ?p ?o } }")))
    connection.close()
except StoreInUse as error:
    say(error)
"""


def test_a_second_process_is_told_who_holds_the_store(tmp_path: Path) -> None:
    with Script(OWNER, tmp_path) as owner:
        assert owner.hear() == "open"
        with pytest.raises(StoreInUse) as refused:
            EmbeddedConnection(tmp_path, "ada")
        assert f"pid {owner.process.pid}" in str(refused.value)
        assert str(tmp_path) in str(refused.value)
        owner.go()
        owner.process.wait()
        connection = EmbeddedConnection(tmp_path, "ada")
        assert values(connection, "urn:a", "urn:p") == [1]
        connection.close()


def test_a_copy_made_of_a_live_store_does_not_let_a_second_process_in(tmp_path: Path) -> None:
    """Reading the engine's own LOCK file in its process drops the engine's own lock (consistency.md §4)."""
    connection = EmbeddedConnection(tmp_path / "store", "ada")
    connection.update("INSERT DATA { GRAPH <urn:g> { <urn:a> <urn:p> 1 } }")
    shutil.copytree(tmp_path / "store", tmp_path / "copy")
    assert f"pid {os.getpid()}" in run(OPENER, tmp_path / "store")
    connection.update("INSERT DATA { GRAPH <urn:g> { <urn:a> <urn:p> 2 } }")
    connection.close()
    assert run(OPENER, tmp_path / "store") == "2"


FORKED = """
from charactermemory.adapters.oxigraph.embedded import EmbeddedConnection
connection = EmbeddedConnection(Path(sys.argv[1]), "ada")
connection.update("INSERT DATA { GRAPH <urn:g> { <urn:a> <urn:p> 1 } }")
child = os.fork()
if not child:
    from charactermemory.errors import StoreForkedError
    try:
        connection.update("INSERT DATA { GRAPH <urn:g> { <urn:a> <urn:p> 2 } }")
    except StoreForkedError as error:
        say(f"{os.getpid()} refused {error.owner_pid}")
    connection.close()
    time.sleep(60)
    os._exit(0)
wait()
"""


def test_a_dead_owners_forked_child_neither_writes_nor_keeps_the_folder(tmp_path: Path) -> None:
    with Script(FORKED, tmp_path) as owner:
        child, *refused = owner.hear().split()
        try:
            assert refused == ["refused", str(owner.process.pid)]
            owner.process.kill()
            owner.process.wait()
            assert run(OPENER, tmp_path) == "1"
        finally:
            os.kill(int(child), signal.SIGKILL)


def test_two_connections_of_one_process_share_the_store_until_the_last_closes(tmp_path: Path) -> None:
    one, two = EmbeddedConnection(tmp_path, "ada"), EmbeddedConnection(tmp_path, "ada")
    one.update("INSERT DATA { GRAPH <urn:g> { <urn:a> <urn:p> 1 } }")
    assert values(two, "urn:a", "urn:p") == [1]
    one.close()
    assert values(two, "urn:a", "urn:p") == [1]
    assert "in use" in run(OPENER, tmp_path)
    two.close()
    assert run(OPENER, tmp_path) == "1"


def test_a_folder_that_is_no_store_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "ada").mkdir()
    (tmp_path / "ada" / "thesis.txt").write_text("mine")
    with pytest.raises(NotAStore, match=r"thesis\.txt"):
        EmbeddedConnection(tmp_path, "ada")
    assert [entry.name for entry in (tmp_path / "ada").iterdir()] == ["thesis.txt"]


def test_a_root_that_cannot_be_made_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable, match="Not a directory"):
        EmbeddedConnection(tmp_path / "file", "ada")


def test_a_store_of_another_collection_or_layout_is_refused(tmp_path: Path) -> None:
    EmbeddedConnection(tmp_path, "ada").close()
    marker = tmp_path / "ada" / "character-memory.json"
    assert json.loads(marker.read_text()) == {"kind": "graph", "format": 1, "collection": "ada"}
    (tmp_path / "ada").rename(tmp_path / "bea")
    with pytest.raises(NotAStore, match="collection 'ada'"):
        EmbeddedConnection(tmp_path, "bea")
    (tmp_path / "bea").rename(tmp_path / "ada")
    marker.write_text(json.dumps({"kind": "graph", "format": 2, "collection": "ada"}))
    with pytest.raises(NotAStore, match="format 2"):
        EmbeddedConnection(tmp_path, "ada")
    marker.write_text(json.dumps({"kind": "graph", "format": 1, "collection": "ada"}))
    EmbeddedConnection(tmp_path, "ada").close()
