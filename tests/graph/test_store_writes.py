"""Commits that meet others: races, fences, lost answers, and guards that decide alone."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import count

import pytest
from pyoxigraph import NamedNode

from charactermemory.adapters.oxigraph import guard
from charactermemory.adapters.oxigraph import vocabulary as cm
from charactermemory.adapters.oxigraph.store import OxigraphStore
from charactermemory.adapters.oxigraph.terms import graph_iri
from charactermemory.domain.objects import MemoryObject
from charactermemory.errors import (
    CharacterMemoryError,
    CommitOutcomeUnknown,
    DatabaseError,
    DeterministicIdCollision,
    DuplicatePosition,
    StoredConflict,
    StoreUnavailable,
    UnknownObjectRef,
)
from charactermemory.ports.graph import WriteBatch
from charactermemory.ports.locks import Grant
from charactermemory.testing.builders import (
    NOON,
    at,
    belief,
    episode,
    forgetting,
    notion,
    numbered_id,
    observation,
    unknown_ref,
)
from charactermemory.testing.graph_contract import put
from charactermemory.testing.recording import Fault, RecordingConnection
from charactermemory.testing.servers import OxigraphServer
from tests.graph.racing import version
from tests.graph.stores import Place

GRAPH = graph_iri("contract")
WRITERS = 8


@dataclass
class NoLock:
    """A writer lock that numbers and excludes nobody: what is left is the guard."""

    numbers: count[int] = field(default_factory=lambda: count(1))

    @contextmanager
    def hold(
        self, collection: str, settle: Callable[[int, int], bool], head: Callable[[], int]
    ) -> Iterator[Grant]:
        yield _Number(next(self.numbers))

    def last_settled(self, collection: str) -> int | None:
        return None


@dataclass
class _Number:
    token: int

    def sending(self) -> None:
        """Nothing is remembered."""

    def settled(self, committed: bool) -> None:
        """Nothing is remembered."""


@dataclass
class Meeting(RecordingConnection):
    """Lets something happen between what a writer read and what it sends."""

    meanwhile: Callable[[], object] = lambda: None

    def update(self, text: str) -> None:
        self.meanwhile()
        super().update(text)


def race(store: OxigraphStore, contents: list[MemoryObject]) -> list[object]:
    """Commit all contents at once, a thread each; return each one's token or error."""
    results: list[object] = [None] * len(contents)
    start = threading.Barrier(len(contents))

    def run(number: int) -> None:
        start.wait()
        try:
            results[number] = put(store, contents[number])
        except CharacterMemoryError as error:
            results[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(contents))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def divergent(number: int) -> list[MemoryObject]:
    """Contents that all claim one id."""
    return [version(number, str(writer)) for writer in range(WRITERS)]


def race_of_processes(place: Place, server: OxigraphServer, rounds: int) -> dict[str, list[str]]:
    """Let two processes commit their contents of the same ids; return what each reports."""
    command = [sys.executable, "-m", "tests.graph.racing", server.url, str(place.root / "locks")]
    running = {
        name: subprocess.Popen(
            [*command, name, str(rounds)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for name in "ab"
    }
    for process in running.values():
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in running.values():
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return {name: process.communicate(timeout=60)[0].split() for name, process in running.items()}


@pytest.mark.spec("core-104")
def test_of_divergent_contents_under_one_id_exactly_one_wins(
    on_rocksdb: Place, graph_server: OxigraphServer
) -> None:
    """Threads on an embedded store, processes on an endpoint; reading proves that no id has two digests."""
    if on_rocksdb.mode == "service":
        rounds = 10
        reports = race_of_processes(on_rocksdb, graph_server, rounds)
        with closing(on_rocksdb.open()) as store:
            for number in range(1, rounds + 1):
                by_name = {name: report[number - 1] for name, report in reports.items()}
                assert sorted(by_name.values()) == ["collided", "won"]
                winner = next(name for name, result in by_name.items() if result == "won")
                expected = version(number, winner)
                assert store.read([expected.ref])[expected.ref].object == expected
        return
    with closing(on_rocksdb.open()) as store:
        for number in range(1, 6):
            contents = divergent(number)
            results = race(store, contents)
            winners = [
                item for item, result in zip(contents, results, strict=True) if isinstance(result, int)
            ]
            losers = [result for result in results if isinstance(result, DeterministicIdCollision)]
            assert (len(winners), len(losers)) == (1, WRITERS - 1)
            ref = contents[0].ref
            assert store.read([ref])[ref].object == winners[0]
            assert {loser.object for loser in losers} == {ref}


def test_threads_on_an_endpoint_take_turns_too(served: Place) -> None:
    with closing(served.open()) as store:
        results = race(store, divergent(1))
        assert len([result for result in results if isinstance(result, int)]) == 1
        assert (
            len([result for result in results if isinstance(result, DeterministicIdCollision)]) == WRITERS - 1
        )


def test_without_lock_and_guard_the_race_is_lost(on_rocksdb: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """That the test above can fail: all of them win, and the conflict is seen by whoever reads."""
    monkeypatch.setattr(guard, "_checks", lambda graph, planned: iter(()))
    all_read = threading.Barrier(WRITERS)
    connection = Meeting(on_rocksdb.connection(), meanwhile=lambda: all_read.wait())
    with closing(OxigraphStore(connection, "contract", NoLock())) as store:
        results = race(store, divergent(1))
        assert all(isinstance(result, int) for result in results)
        with pytest.raises(StoredConflict) as caught:
            store.read([divergent(1)[0].ref])
        assert len(caught.value.digests) == WRITERS


@pytest.mark.parametrize("same", [True, False])
def test_equal_commits_at_once_are_one_and_replays(on_rocksdb: Place, same: bool) -> None:
    with closing(on_rocksdb.open()) as store:
        contents: list[MemoryObject] = [notion(id=numbered_id(1 if same else n)) for n in range(1, 9)]
        results = race(store, contents)
        tokens = [result for result in results if isinstance(result, int)]
        assert len(tokens) == (1 if same else WRITERS) == len(set(tokens))
        assert len(tokens) + results.count(None) == WRITERS
        assert store.head() == max(tokens)
        assert [receipt.token for receipt in store.receipts(0, store.head())] == sorted(tokens)


happened = episode(id=numbered_id(100))
held = belief(id=numbered_id(101))
INTERFERENCE: dict[str, tuple[tuple[MemoryObject, ...], dict[str, object], MemoryObject, type[Exception]]] = {
    "another content": ((), {"objects": (held.replace(text="other"),)}, held, DeterministicIdCollision),
    "forgotten": ((), {"event": forgetting(held)}, held, DeterministicIdCollision),
    "place taken": (
        (happened,),
        {"objects": (observation(happened, 5),)},
        observation(happened, 5),
        DuplicatePosition,
    ),
}


@pytest.mark.parametrize("what", INTERFERENCE)
def test_the_guard_alone_refuses_and_says_why(place: Place, what: str) -> None:
    """A writer that was overtaken between its reading and its update, as after a lock that failed."""
    before, interfering, wanted, error = INTERFERENCE[what]
    lock = NoLock()
    with closing(OxigraphStore(place.connection(), "contract", lock)) as other:
        put(other, *before)

        def overtake() -> None:
            connection.meanwhile = lambda: None
            put(other, *interfering.get("objects", ()), event=interfering.get("event"))  # type: ignore[arg-type, misc]

        connection = Meeting(place.connection(), meanwhile=overtake)
        with closing(OxigraphStore(connection, "contract", lock)) as store:
            extra = notion()
            with pytest.raises(error):
                put(store, extra, wanted)
            assert store.existing([extra.ref]) == set()
            assert len(store.receipts(0, 10)) == len(before) + 1


def test_a_writer_whose_number_was_fenced_off_writes_nothing(place: Place) -> None:
    with closing(place.open()) as store:
        with store.writing() as writer:
            store.raise_head(writer.token + 10)
            with pytest.raises(StoreUnavailable, match="taken over"):
                writer.apply(WriteBatch("commit", "plan", NOON, (held,)))
        assert store.existing([held.ref]) == set()
        assert store.receipts(0, 50) == []
        late = Meeting(place.connection())
        overtaken = OxigraphStore(late, "contract", place.lock())
        late.meanwhile = lambda: store.raise_head(1_000)
        with pytest.raises(StoreUnavailable, match="taken over by 1000"):
            put(overtaken, held)
        assert store.existing([held.ref]) == set()
        overtaken.close()


def test_a_collection_that_moved_takes_no_commit(place: Place) -> None:
    with closing(place.connection()) as connection, closing(place.open()) as store:
        put(store, happened)
        moved = f"INSERT DATA {{ GRAPH {GRAPH} {{ {GRAPH} {cm.MOVED_TO} <http://localhost:1/> }} }}"
        late = Meeting(place.connection(), meanwhile=lambda: connection.update(moved))
        with closing(place.over(late)) as overtaken:
            for one in (overtaken, store):
                with pytest.raises(StoreUnavailable, match="moved"):
                    put(one, held)
            assert store.existing([held.ref, happened.ref]) == {happened.ref}


@pytest.mark.parametrize("in_flight", [True, False])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_lost_answer_is_found_out(on_rocksdb: Place, in_flight: bool, moment: str) -> None:
    """The receipt decides; what did not take effect never will, and may be tried again."""
    connection = RecordingConnection(on_rocksdb.connection(), in_flight=in_flight)
    with closing(on_rocksdb.over(connection)) as store:
        put(store, happened)
        connection.next_faults["update"] = Fault(moment, lose_response=True)  # type: ignore[arg-type]
        if moment == "after":
            assert put(store, held) == 2
            assert put(store, held) is None
        else:
            with pytest.raises(StoreUnavailable) as caught:
                put(store, held)
            assert not isinstance(caught.value, CommitOutcomeUnknown)
            assert store.existing([held.ref]) == set()
            token = put(store, held)
            assert token is not None and token >= 2
        assert store.read([held.ref])[held.ref].object == held
        assert len(store.receipts(0, 9)) == 2


def test_what_cannot_be_found_out_is_settled_by_the_next_writer(served: Place) -> None:
    """The caller learns that it is unknown, and a replay tells."""
    connection = RecordingConnection(served.connection())
    with closing(served.over(connection)) as store:
        connection.next_faults["ask"] = Fault(error=StoreUnavailable(store="graph store", detail="gone"))
        with pytest.raises(CommitOutcomeUnknown):
            put(store, held)
        assert put(store, held) is None
        assert store.read([held.ref])[held.ref].object == held


@pytest.mark.parametrize(
    "error", [DatabaseError(detail="refused"), StoreUnavailable(store="s", detail="down")]
)
def test_a_refused_update_leaves_the_way_free(place: Place, error: Exception) -> None:
    connection = RecordingConnection(place.connection())
    with closing(place.over(connection)) as store:
        connection.next_faults["update"] = Fault("before", error=error)
        with pytest.raises(type(error)):
            put(store, held)
        assert store.existing([held.ref]) == set()
        assert put(store, held) is not None
        assert connection.names().count("update") == 2


def test_a_commit_is_synced_after_the_lock_is_free(embedded: Place) -> None:
    """Once; a replay and a refusal sync nothing."""
    connection = RecordingConnection(embedded.connection())
    with closing(embedded.over(connection)) as store:
        put(store, held)
        assert connection.names()[-2:] == ["ask", "sync"]
        put(store, held)
        with pytest.raises(UnknownObjectRef):
            put(store, notion(), requires=(("a", unknown_ref()),))
        assert connection.names().count("sync") == 1
        with pytest.raises(ZeroDivisionError), store.writing() as writer:
            writer.apply(WriteBatch("commit", "plan", NOON, (happened,)))
            raise ZeroDivisionError
        assert connection.names().count("sync") == 2
        store.sync()
        assert connection.names()[-1] == "sync"


def test_a_failed_sync_asks_what_survived(embedded: Place) -> None:
    connection = RecordingConnection(embedded.connection(), in_flight=False)
    with closing(embedded.over(connection)) as store:
        connection.next_faults["sync"] = Fault("before", lose_response=True)
        assert put(store, held) == 1
        assert store.existing([held.ref]) == {held.ref}

        def lose_everything() -> None:
            connection.inner.update(f"CLEAR GRAPH {GRAPH}")

        connection.next_faults["sync"] = Fault("before", lose_response=True)
        with pytest.raises(StoreUnavailable, match="undone"), store.writing() as writer:
            writer.apply(WriteBatch("commit", "plan", NOON, (happened,)))
            lose_everything()
        connection.next_faults["sync"] = Fault("before", lose_response=True)
        with pytest.raises(StoreUnavailable):
            store.sync()


def test_what_did_not_survive_is_not_known_any_more(embedded: Place) -> None:
    """Neither to the store that wrote it, nor to another once it meets what was written instead."""
    connection = RecordingConnection(embedded.connection(), in_flight=False)
    said = [observation(happened, n) for n in range(2)]
    swapped = [observation(happened, 1 - n, id=item.id) for n, item in enumerate(said)]
    with closing(embedded.over(connection)) as store, closing(embedded.open()) as other:
        connection.next_faults["sync"] = Fault("before", lose_response=True)
        with pytest.raises(StoreUnavailable, match="undone"), store.writing() as writer:
            writer.apply(WriteBatch("commit", "plan", NOON, (happened, *said)))
            assert len(other.places([item.ref for item in said])) == 2
            assert len(other.read([item.ref for item in said])) == 2
            connection.inner.update(f"CLEAR GRAPH {GRAPH}")
        assert store.existing([happened.ref]) == set()
        assert store.places([said[0].ref]) == {}
        put(store, happened, *swapped)
        assert other.read([said[0].ref])[said[0].ref].object == swapped[0]
        assert other.places([said[1].ref]) == {said[1].ref: (happened.ref, 0, None)}


def test_a_lower_number_never_follows_a_greater_one(on_rocksdb: Place) -> None:
    """Also in a store opened anew, which remembers nothing."""
    with closing(on_rocksdb.open()) as store:
        put(store, happened)
        store.raise_head(20)
    with closing(on_rocksdb.open()) as again:
        token = put(again, held)
        assert token is not None and token > 20


def test_a_writer_waits_for_its_turn(embedded: Place) -> None:
    """Reads do not."""
    with closing(embedded.open()) as store, closing(embedded.open()) as other:
        done = threading.Event()

        def write() -> None:
            put(other, held)
            done.set()

        thread = threading.Thread(target=write)
        with store.writing() as writer:
            thread.start()
            assert not done.wait(0.1)
            assert other.read([held.ref]) == {}
            assert writer.apply(WriteBatch("commit", "plan", NOON, (happened,))) == 1
        thread.join()
        assert store.head() == 2


def test_settling_an_own_update_sets_a_fence_that_is_no_head(on_rocksdb: Place) -> None:
    node = NamedNode("urn:charactermemory:fence:2")
    connection = RecordingConnection(on_rocksdb.connection(), in_flight=True)
    with closing(on_rocksdb.over(connection)) as store:
        connection.next_faults["update"] = Fault("before", lose_response=True)
        with pytest.raises(StoreUnavailable):
            put(store, held)
        assert connection.ask(f"ASK {{ GRAPH {GRAPH} {{ {node} {cm.TYPE} {cm.FENCE_CLASS} }} }}")
        assert store.head() == 0
        put(store, belief(created_at=at(1)))
        assert store.head() >= 2
