"""The three connections keep one contract; the service connection also tells what became of an update."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from pyoxigraph import Literal, NamedNode, Triple

from charactermemory.adapters.oxigraph import service
from charactermemory.adapters.oxigraph.connection import Connection, Pattern, ResponseLost
from charactermemory.adapters.oxigraph.embedded import EmbeddedConnection
from charactermemory.adapters.oxigraph.in_memory import InMemoryConnection
from charactermemory.adapters.oxigraph.service import ServiceConnection
from charactermemory.errors import DatabaseError, StoreClosedError, StoreForkedError, StoreUnavailable
from charactermemory.testing.servers import OxigraphServer

GRAPH = NamedNode("urn:g")
OTHER = NamedNode("urn:other")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OxigraphServer]:
    with OxigraphServer(tmp_path_factory.mktemp("served") / "store") as running:
        yield running


def opened(mode: str, root: Path, server: OxigraphServer) -> Connection:
    if mode == "in_memory":
        return InMemoryConnection()
    if mode == "embedded":
        return EmbeddedConnection(root, "ada")
    fresh = ServiceConnection(server.url)
    fresh.update("DROP ALL")
    return fresh


@pytest.fixture(params=["in_memory", "embedded", "service"])
def connection(
    request: pytest.FixtureRequest, tmp_path: Path, server: OxigraphServer
) -> Iterator[Connection]:
    fresh = opened(request.param, tmp_path, server)
    yield fresh
    fresh.close()


@pytest.fixture(params=["embedded", "service"])
def on_rocksdb(
    request: pytest.FixtureRequest, tmp_path: Path, server: OxigraphServer
) -> Iterator[Connection]:
    fresh = opened(request.param, tmp_path, server)
    yield fresh
    fresh.close()


def add(connection: Connection, triples: str, graph: NamedNode = GRAPH) -> None:
    connection.update(f"INSERT DATA {{ GRAPH {graph} {{ {triples} }} }}")


def count(connection: Connection) -> int:
    [(number,)] = connection.query("SELECT (COUNT(*) AS ?n) WHERE { GRAPH ?g { ?s ?p ?o } }")
    assert isinstance(number, Literal)
    return int(number.value)


def in_child(work: Callable[[], str]) -> str:
    """What `work` returns, or the name of what it raises, in a forked child that then vanishes."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            word = work()
        except BaseException as error:
            word = type(error).__name__
        os.write(writing, word.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        word = pipe.read()
    os.waitpid(child, 0)
    return word


# --- one contract ---


def test_rows_follow_the_select_clause_and_leave_unbound_variables_empty(connection: Connection) -> None:
    add(connection, '<urn:a> <urn:p> "líne\\none", "d"@en, 7, 0.5e0, <urn:b>')
    rows = connection.query("SELECT ?o ?none ?s WHERE { GRAPH <urn:g> { ?s <urn:p> ?o } }")
    integer, double = (
        NamedNode(f"http://www.w3.org/2001/XMLSchema#{name}") for name in ("integer", "double")
    )
    expected = {
        Literal("líne\none"),
        Literal("d", language="en"),
        Literal("7", datatype=integer),
        Literal("0.5", datatype=double),
        NamedNode("urn:b"),
    }
    found = {
        Literal("0.5", datatype=double) if isinstance(end, Literal) and end.datatype == double else end
        for end, _, _ in rows
    }
    assert found == expected
    assert all(none is None and subject == NamedNode("urn:a") for _, none, subject in rows)


def test_ask(connection: Connection) -> None:
    assert not connection.ask("ASK { GRAPH <urn:g> { <urn:a> ?p ?o } }")
    add(connection, "<urn:a> <urn:p> 1")
    assert connection.ask("ASK { GRAPH <urn:g> { <urn:a> ?p ?o } }")


def test_match_answers_each_pattern_up_to_its_limit_in_its_graph(connection: Connection) -> None:
    a, p, q = NamedNode("urn:a"), NamedNode("urn:p"), NamedNode("urn:q")
    add(connection, "<urn:a> <urn:p> <urn:x1>, <urn:x2>, <urn:x3> ; <urn:q> 'v' . <urn:b> <urn:p> <urn:x1>")
    add(connection, "<urn:a> <urn:p> <urn:elsewhere>", OTHER)
    found = connection.match(
        GRAPH,
        [
            Pattern(a, p, None, 10),
            Pattern(None, p, NamedNode("urn:x1"), 10),
            Pattern(a, NamedNode("urn:none"), None, 10),
            Pattern(a, p, None, 2),
            Pattern(a, None, Literal("v"), 10),
            Pattern(a, p, NamedNode("urn:x3"), 1),
            Pattern(None, None, None, 100),
            Pattern(a, p, None),
            Pattern(NamedNode("urn:b"), p, None),
            Pattern(a, q, None, None),
            Pattern(a, None, NamedNode("urn:x2")),
            Pattern(None, p, NamedNode("urn:x1")),
            Pattern(a, p, NamedNode("urn:x3")),
            Pattern(a, p, NamedNode("urn:elsewhere")),
            Pattern(None, None, None),
        ],
    )
    of_a = {Triple(a, p, NamedNode(f"urn:x{n}")) for n in (1, 2, 3)}
    x1 = {Triple(a, p, NamedNode("urn:x1")), Triple(NamedNode("urn:b"), p, NamedNode("urn:x1"))}
    assert set(found[0]) == of_a
    assert set(found[1]) == x1
    assert found[2] == []
    assert len(found[3]) == 2 and set(found[3]) < of_a
    assert found[4] == [Triple(a, q, Literal("v"))]
    assert found[5] == [Triple(a, p, NamedNode("urn:x3"))]
    assert set(found[6]) == of_a | x1 | {Triple(a, q, Literal("v"))}
    assert set(found[7]) == of_a
    assert found[8] == [Triple(NamedNode("urn:b"), p, NamedNode("urn:x1"))]
    assert found[9] == [Triple(a, q, Literal("v"))]
    assert found[10] == [Triple(a, p, NamedNode("urn:x2"))]
    assert set(found[11]) == x1
    assert found[12] == found[5] and found[13] == []
    assert set(found[14]) == set(found[6])
    assert connection.match(GRAPH, []) == []


def test_dump_yields_the_graph_as_nquads(connection: Connection) -> None:
    add(connection, '<urn:a> <urn:p> "one . \\"two\\"\\n", <urn:b>')
    add(connection, "<urn:a> <urn:p> 1", OTHER)
    assert sorted(connection.dump(GRAPH)) == [
        b'<urn:a> <urn:p> "one . \\"two\\"\\n" <urn:g> .\n',
        b"<urn:a> <urn:p> <urn:b> <urn:g> .\n",
    ]
    assert list(connection.dump(NamedNode("urn:nothing"))) == []


def test_a_refused_text_is_a_database_error_and_changes_nothing(connection: Connection) -> None:
    for call in (
        lambda: connection.query("SELECT nonsense"),
        lambda: connection.query("ASK {}"),
        lambda: connection.ask("SELECT * {}"),
        lambda: connection.update("INSERT DATA { GRAPH <urn:g> { <urn:a> <urn:p> 1 } } ; INSERT nonsense"),
    ):
        with pytest.raises(DatabaseError):
            call()
    assert count(connection) == 0


def test_a_closed_connection_says_so_and_closes_again(connection: Connection) -> None:
    connection.sync()
    connection.close()
    connection.close()
    for call in (
        lambda: connection.ask("ASK {}"),
        lambda: connection.update("CLEAR ALL"),
        lambda: connection.match(GRAPH, [Pattern(None, None, None, 1)]),
        lambda: list(connection.dump(GRAPH)),
        connection.sync,
    ):
        with pytest.raises(StoreClosedError):
            call()


@pytest.mark.parametrize("mode", ["in_memory", "embedded"])
def test_a_forked_child_may_not_use_its_parents_store(
    mode: str, tmp_path: Path, server: OxigraphServer
) -> None:
    connection = opened(mode, tmp_path, server)
    assert in_child(lambda: str(connection.ask("ASK {}"))) == StoreForkedError.__name__
    assert in_child(lambda: str(connection.update("CLEAR ALL"))) == StoreForkedError.__name__
    add(connection, "<urn:a> <urn:p> 1")
    connection.close()


def test_a_forked_child_reaches_the_endpoint_on_sockets_of_its_own(server: OxigraphServer) -> None:
    connection = ServiceConnection(server.url)
    assert connection.ask("ASK {}")
    assert (
        in_child(lambda: f"{connection.ask('ASK {}')} {connection.ask('ASK { <urn:no> ?p ?o }')}")
        == "True False"
    )
    assert connection.ask("ASK {}")
    connection.close()


# --- atomic, and one snapshot a call ---


def test_an_update_that_fails_midway_leaves_nothing(on_rocksdb: Connection) -> None:
    # The second operation fails while it runs, not while it is parsed.
    failing = "INSERT DATA { GRAPH <urn:g> { <urn:a> <urn:p> 1 } } ; LOAD <file:///nothing-there>"
    with pytest.raises((DatabaseError, ResponseLost)):
        on_rocksdb.update(failing)
    assert count(on_rocksdb) == 0
    add(on_rocksdb, "<urn:a> <urn:p> 2")
    assert count(on_rocksdb) == 1


def test_each_query_sees_whole_updates_only(on_rocksdb: Connection) -> None:
    size, rounds = 300, 12
    stop = threading.Event()
    seen: list[set[str]] = []

    def read() -> None:
        while not stop.is_set():
            rows = on_rocksdb.query("SELECT ?o WHERE { GRAPH <urn:g> { ?s <urn:round> ?o } }")
            assert len(rows) in (0, size)
            seen.append({str(value) for (value,) in rows})

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for number in range(rounds):
        triples = " . ".join(f"<urn:s{n}> <urn:round> {number}" for n in range(size))
        on_rocksdb.update(
            f"DELETE WHERE {{ GRAPH <urn:g> {{ ?s <urn:round> ?o }} }} ; "
            f"INSERT DATA {{ GRAPH <urn:g> {{ {triples} }} }}"
        )
    stop.set()
    for reader in readers:
        reader.join()
    assert len(seen) > 10
    assert all(len(values) <= 1 for values in seen)


# --- what became of an update ---


SLOW = """INSERT {{ GRAPH <urn:g> {{ <urn:late> <urn:p> {value} }} }} WHERE {{
  SELECT (COUNT(*) AS ?n) WHERE {{ VALUES ?a {{ {numbers} }} VALUES ?b {{ {numbers} }} VALUES ?c {{ {numbers} }}
    FILTER(?a + ?b + ?c > 1) }} }}"""
"""An update that the endpoint evaluates for about a second."""


def slow_update(value: int, size: int = 130) -> str:
    return SLOW.format(value=value, numbers=" ".join(map(str, range(size))))


def test_a_refused_connection_means_nothing_happened(tmp_path: Path) -> None:
    with OxigraphServer(tmp_path / "store") as own:
        connection = ServiceConnection(own.url)
        assert connection.ask("ASK {}")
        own.kill()
        for call in (lambda: connection.update("CLEAR ALL"), lambda: connection.ask("ASK {}")):
            with pytest.raises(StoreUnavailable, match=f"127.0.0.1:{own.port}"):
                call()
        own.start()
        assert connection.ask("ASK {}"), "the connection finds the server again"
        connection.close()


def test_an_update_given_up_is_lost_not_failed_and_lands_later(server: OxigraphServer) -> None:
    patient, hasty = ServiceConnection(server.url), ServiceConnection(server.url, update_seconds=0.1)
    patient.update("DROP ALL")
    with pytest.raises(ResponseLost) as lost:
        hasty.update(slow_update(1))
    assert lost.value.in_flight
    assert count(patient) == 0, "still under evaluation"
    deadline = time.monotonic() + 20
    while not count(patient):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    hasty.close()
    patient.close()


def test_kill_9_of_the_server_in_an_update_applies_none_of_it(tmp_path: Path) -> None:
    triples = " . ".join(f"<urn:s{n}> <urn:p> {n}" for n in range(3_000))
    with OxigraphServer(tmp_path / "store") as own:
        connection = ServiceConnection(own.url)
        add(connection, "<urn:before> <urn:p> 1")
        outcomes = []
        for delay in (0.01, 0.03, 0.05, 0.07):
            killer = threading.Timer(delay, own.kill)
            killer.start()
            try:
                add(connection, triples)
                outcomes.append("acknowledged")
            except ResponseLost as lost:
                assert lost.in_flight
                outcomes.append("lost")
            killer.join()
            own.start()
            found = count(connection)
            assert found in ((3_001,) if outcomes[-1] == "acknowledged" else (1, 3_001))
            connection.update("DELETE WHERE { GRAPH <urn:g> { ?s <urn:p> ?o } }")
            add(connection, "<urn:before> <urn:p> 1")
        assert "lost" in outcomes
        connection.close()


class Canned(ThreadingHTTPServer):
    """An endpoint that answers every POST alike and counts connections and requests."""

    daemon_threads = True

    def __init__(self, status: int, body: bytes = b"", headers: tuple[tuple[str, str], ...] = ()) -> None:
        self.status, self.body, self.headers = status, body, headers
        self.requests: list[str] = []
        self.connections = 0
        super().__init__(("127.0.0.1", 0), CannedAnswer)
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class CannedAnswer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Canned

    def setup(self) -> None:
        self.server.connections += 1
        super().setup()

    def do_POST(self) -> None:  # noqa: N802
        self.server.requests.append(self.path)
        self.rfile.read(int(self.headers["content-length"]))
        if not self.server.status:
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        self.send_response(self.server.status)
        for header in self.server.headers:
            self.send_header(*header)
        self.send_header("content-length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize(
    ("status", "expected"),
    [(400, DatabaseError), (401, DatabaseError), (500, DatabaseError), (503, StoreUnavailable)],
)
def test_a_refusal_of_the_endpoint_is_told_apart(status: int, expected: type[Exception]) -> None:
    with Canned(status, b"why not") as endpoint:
        connection = ServiceConnection(endpoint.url)
        for call in (lambda: connection.update("CLEAR ALL"), lambda: connection.query("SELECT * {}")):
            with pytest.raises(expected, match=f"{status}.*why not"):
                call()
        connection.close()


@pytest.mark.parametrize("status", [0, 502, 504])
def test_an_update_without_the_endpoints_own_answer_is_lost_and_sent_once(status: int) -> None:
    with Canned(status) as endpoint:
        connection = ServiceConnection(endpoint.url)
        with pytest.raises(ResponseLost) as lost:
            connection.update("CLEAR ALL")
        assert lost.value.in_flight
        assert endpoint.requests == ["/update"]
        connection.close()


def test_a_read_cut_off_is_unavailable() -> None:
    with Canned(0) as endpoint:
        connection = ServiceConnection(endpoint.url)
        for call in (lambda: connection.ask("ASK {}"), lambda: list(connection.dump(GRAPH))):
            with pytest.raises(StoreUnavailable):
                call()
        connection.close()


def test_an_answer_that_is_no_sparql_result_is_a_database_error() -> None:
    with Canned(200, b"<html>welcome</html>") as endpoint:
        connection = ServiceConnection(endpoint.url)
        with pytest.raises(DatabaseError, match="no SPARQL result"):
            connection.query("SELECT * {}")
        connection.close()


def test_redirects_are_not_followed() -> None:
    with (
        Canned(200) as elsewhere,
        Canned(307, headers=(("location", elsewhere.url + "/update"),)) as endpoint,
    ):
        connection = ServiceConnection(endpoint.url)
        with pytest.raises(DatabaseError, match="307"):
            connection.update("CLEAR ALL")
        assert elsewhere.requests == []
        connection.close()


@pytest.mark.parametrize("status", [0, 400, 503])
def test_no_error_holds_the_urls_password(status: int) -> None:
    with Canned(status) as endpoint:
        connection = ServiceConnection(endpoint.url.replace("//", "//user:hush-hush@"))
        for call in (lambda: connection.update("CLEAR ALL"), lambda: connection.query("SELECT * {}")):
            with pytest.raises((DatabaseError, StoreUnavailable, ResponseLost)) as failure:
                call()
            assert "hush" not in str(failure.value)
        connection.close()


def test_a_connection_idle_too_long_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    assert service.IDLE_SECONDS < 60, "`oxigraph serve` closes at 60"
    monkeypatch.setattr(service, "IDLE_SECONDS", 0.2)
    with Canned(204) as endpoint:
        connection = ServiceConnection(endpoint.url)
        connection.update("CLEAR ALL")
        connection.update("CLEAR ALL")
        assert endpoint.connections == 1, "kept alive"
        time.sleep(0.3)
        connection.update("CLEAR ALL")
        assert endpoint.connections == 2
        connection.close()


@pytest.mark.slow
def test_a_minute_of_idleness_loses_no_update(server: OxigraphServer) -> None:
    connection = ServiceConnection(server.url)
    connection.update("DROP ALL")
    time.sleep(62)
    add(connection, "<urn:a> <urn:p> 1")
    assert count(connection) == 1
    connection.close()
