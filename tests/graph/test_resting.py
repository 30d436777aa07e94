"""A process keeps 16 embedded graphs open; the others rest unnoticed (consistency.md §7)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from random import Random

import pytest

from charactermemory.adapters import handles
from charactermemory.adapters.embedding import HashingEmbedding
from charactermemory.adapters.handles import OwnerLock
from charactermemory.adapters.oxigraph import embedded
from charactermemory.adapters.oxigraph.connection import ResponseLost
from charactermemory.adapters.oxigraph.embedded import EmbeddedConnection
from charactermemory.adapters.oxigraph.engine import Engine
from charactermemory.adapters.resting import MOST_OPEN, OpenStores
from charactermemory.errors import StoreInUse, StoreUnavailable
from charactermemory.memory import CharacterMemory
from charactermemory.recall.context import RetrievalContext
from tests.graph.test_connections import in_child
from tests.support.plans import episode, episode_ref, observation, plan

NUMBERS = "SELECT ?o WHERE { GRAPH <urn:g> { <urn:s> <urn:p> ?o } }"

Limit = Callable[[int], OpenStores]


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> Limit:
    """Lets fewer stores be open than a process does."""

    def set_limit(most: int) -> OpenStores:
        made = OpenStores(most)
        monkeypatch.setattr(embedded, "_open_stores", made)
        return made

    return set_limit


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[Callable[[str], EmbeddedConnection]]:
    with ExitStack() as opened:

        def open_(name: str) -> EmbeddedConnection:
            return opened.enter_context(closing(EmbeddedConnection(tmp_path, name)))

        yield open_


def add(connection: EmbeddedConnection, number: int) -> None:
    connection.update(f"INSERT DATA {{ GRAPH <urn:g> {{ <urn:s> <urn:p> {number} }} }}")


def numbers(connection: EmbeddedConnection) -> set[int]:
    return {int(row[0].value) for row in connection.query(NUMBERS)}  # type: ignore[union-attr]


def resting(connection: EmbeddedConnection) -> bool:
    """Whether the process has no file of the engine open, only the lock by which the folder is its own."""
    folder = str(connection.folder.resolve())
    paths = {path.rpartition("/") for _, path in handles._descriptor_paths() if path.startswith(f"{folder}/")}
    names = {name for _, _, name in paths}
    assert "owner.lock" in names
    return names == {"owner.lock"}


def test_a_process_keeps_sixteen_open() -> None:
    assert embedded._open_stores.most == MOST_OPEN == 16


def test_a_store_that_is_opened_again_and_again_does_not_fill_the_disk_with_diaries(
    limit: Limit, connect: Callable[[str], EmbeddedConnection]
) -> None:
    limit(1)
    stores = [connect(name) for name in ("a", "b")]
    add(stores[0], 1)
    for _ in range(6):
        assert [numbers(store) for store in stores] == [{1}, set()]
    for store in stores:
        diaries = {path.name for path in store.folder.glob("LOG*")}
        assert "LOG" in diaries and len(diaries) == 1 + embedded.DIARIES_KEPT


def test_of_the_diaries_the_last_stay(tmp_path: Path) -> None:
    with closing(EmbeddedConnection(tmp_path, "ada")) as connection:
        folder = connection.folder
    for number in range(3):
        (folder / f"LOG.old.1{number}").touch()
    for _ in range(2):
        with closing(EmbeddedConnection(tmp_path, "ada")):
            pass
    assert not {f"LOG.old.1{number}" for number in range(3)} & {path.name for path in folder.iterdir()}


def test_those_used_longest_ago_rest_and_wake_with_all_they_hold(
    limit: Limit, connect: Callable[[str], EmbeddedConnection]
) -> None:
    opened = limit(2)
    stores = [connect(name) for name in ("a", "b", "c", "d")]
    assert [resting(store) for store in stores] == [True, True, False, False]
    for number, store in enumerate(stores):
        add(store, number)
        store.sync()
    assert [resting(store) for store in stores] == [True, True, False, False]
    assert numbers(stores[2]) == {2}
    assert numbers(stores[0]) == {0}
    assert [resting(store) for store in stores] == [False, True, False, True], "d was used before c"
    assert len(opened) == 2
    versions = [store.version() for store in stores]
    assert [numbers(store) for store in stores] == [{0}, {1}, {2}, {3}]
    assert [store.version() for store in stores] == versions, "what was read before a rest still holds"
    for store in stores:
        store.close()
    assert len(opened) == 0


def test_a_resting_folder_stays_its_owners(
    limit: Limit, connect: Callable[[str], EmbeddedConnection], monkeypatch: pytest.MonkeyPatch
) -> None:
    limit(1)
    first, _ = connect("a"), connect("b")
    assert resting(first)
    monkeypatch.setattr(handles, "LOCK_TRIES", 1)
    with pytest.raises(StoreInUse):
        OwnerLock.acquire(first.folder, "graph store")


def test_a_store_in_use_is_not_closed_under_its_user(
    limit: Limit, connect: Callable[[str], EmbeddedConnection]
) -> None:
    opened = limit(1)
    first = connect("a")
    add(first, 1)
    with first._shared().use() as engine:
        second = connect("b")
        add(second, 2)
        assert not resting(first) and not resting(second)
        assert engine.engine.ask("ASK { GRAPH <urn:g> { <urn:s> <urn:p> 1 } }")
    assert len(opened) == 2
    assert numbers(second) == {2}
    assert resting(first), "idle now, and used longest ago"


def test_what_was_written_before_a_rest_is_as_good_as_synced(
    limit: Limit, connect: Callable[[str], EmbeddedConnection]
) -> None:
    limit(1)
    first, second = connect("a"), connect("b")
    add(first, 1)
    add(second, 2)
    assert resting(first)
    first.sync()
    assert numbers(first) == {1}


def test_a_rest_that_cannot_save_what_was_written_is_told(
    limit: Limit, connect: Callable[[str], EmbeddedConnection], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sync after it says that what became of the write is not known; the next caller finds the store whole."""
    limit(1)
    first, second = connect("a"), connect("b")
    add(first, 1)
    real = Engine.store.fget
    assert real is not None

    class Full:
        """A store on a disk without room."""

        def flush(self) -> None:
            raise OSError("no space left")

    monkeypatch.setattr(Engine, "store", property(lambda engine: Full()))
    with second._shared().use():
        pass
    monkeypatch.setattr(Engine, "store", property(real))
    assert resting(first)
    with pytest.raises(ResponseLost):
        first.sync()
    assert numbers(first) == {1}
    first.sync()


def test_a_store_that_cannot_be_woken_is_unavailable_until_it_can(
    limit: Limit, connect: Callable[[str], EmbeddedConnection], monkeypatch: pytest.MonkeyPatch
) -> None:
    limit(1)
    first, _ = connect("a"), connect("b")

    def refuse(folder: str) -> Engine:
        raise OSError("too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(embedded, "Engine", refuse)
        with pytest.raises(StoreUnavailable, match="too many open files"):
            numbers(first)
    assert numbers(first) == set()


def test_threads_that_use_more_stores_than_may_be_open_lose_nothing(
    limit: Limit, connect: Callable[[str], EmbeddedConnection]
) -> None:
    opened = limit(2)
    stores = [connect(name) for name in "abcde"]
    written: list[set[int]] = [set() for _ in stores]
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        random = Random(seed)
        try:
            for turn in range(12):
                which, number = random.randrange(len(stores)), seed * 100 + turn
                add(stores[which], number)
                stores[which].sync()
                written[which].add(number)
                assert number in numbers(stores[which])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert [numbers(store) for store in stores] == written
    assert len(opened) == 2


def test_a_forked_child_lets_nothing_of_its_parent_rest() -> None:
    class Store:
        def __init__(self) -> None:
            self.rested = False

        def rest(self) -> None:
            self.rested = True

    opened, inherited, own = OpenStores(1), Store(), Store()
    opened.used(inherited)

    def in_the_child() -> str:
        opened.used(own)
        opened.relieve()
        return f"{len(opened)} {inherited.rested} {own.rested}"

    with opened._lock:  # as if another thread of the parent had it
        word = in_child(in_the_child)
    assert word == "1 False False"


def test_memories_take_turns_behind_the_facade(limit: Limit, tmp_path: Path) -> None:
    opened = limit(1)
    settings = {
        "OXIGRAPH_PATH": str(tmp_path / "graph"),
        "VECTOR_STORE_PATH": str(tmp_path / "index"),
        "RETRIEVAL_STATS_STORE_MODE": "in_memory",
    }
    with ExitStack() as open_:
        memories = {
            name: open_.enter_context(
                CharacterMemory.open(settings, name, embedding_provider=HashingEmbedding(8))
            )
            for name in ("ada", "bob", "eve")
        }
        for round_ in (1, 2):
            for name, memory in memories.items():
                memory.commit(
                    plan(episode(round_), observation(round_ + 8, round_, f"{name} sings {round_}"))
                )
        for name, memory in memories.items():
            pack = memory.retrieve(RetrievalContext(topic="sings")).pack
            assert {item.text for item in pack.salient_observations} == {
                f"{name} sings 1",
                f"{name} sings 2",
            }
            assert memory.stores.graph.head() == 2
            assert set(memory.stores.graph.read([episode_ref(1), episode_ref(2)])) == {
                episode_ref(1),
                episode_ref(2),
            }
        assert len(opened) == 1
