"""A process keeps 16 shards open; the others rest unnoticed (consistency.md §7)."""

import os
import random
import signal
import threading
import time
from contextlib import ExitStack, contextmanager

import pytest

from charactermemory.adapters import handles
from charactermemory.adapters.embedding import HashingEmbedding
from charactermemory.adapters.handles import OwnerLock
from charactermemory.adapters.qdrant import edge as edge_module
from charactermemory.adapters.resting import MOST_OPEN, OpenStores
from charactermemory.errors import StoreForkedError, StoreInUse, VectorDatabaseError
from charactermemory.memory import CharacterMemory
from charactermemory.ports.vectors import Cursor
from charactermemory.recall.context import RetrievalContext
from charactermemory.testing.vector_samples import EVERY_TYPE, numbers, record, ref
from tests.graph.test_connections import in_child
from tests.support.plans import episode, observation, plan

from .test_edge import ONE, Spy
from .test_processes import run

DEADLINE_SECONDS = 20


@pytest.fixture
def limit(monkeypatch):
    """Lets fewer shards be open than a process does."""

    def set_limit(most):
        made = OpenStores(most)
        monkeypatch.setattr(edge_module, "_open_stores", made)
        return made

    return set_limit


def held(index):
    """The files of the index that the process has open or mapped, their paths within its folder."""
    folder = f"{index._folder.resolve()}/"
    paths = [path for _, path in handles._descriptor_paths()]
    with open("/proc/self/maps") as maps:
        paths += [line.split(maxsplit=5)[-1].rstrip("\n") for line in maps]
    return {path.removeprefix(folder) for path in paths if path.startswith(folder)}


def resting(index):
    """Whether the process holds only the lock by which the folder is its own."""
    names = held(index)
    assert "owner.lock" in names
    return names == {"owner.lock"}


def use(index):
    """Read from the engine."""
    return index.count()


def test_a_process_keeps_sixteen_open():
    assert edge_module._open_stores.most == MOST_OPEN == 16


def test_those_used_longest_ago_rest_and_wake_by_turns(open_edge, limit):
    opened = limit(2)
    indexes = [open_edge(name) for name in "abcd"]
    assert [resting(index) for index in indexes] == [True, True, False, False]
    for index in (indexes[2], indexes[0]):
        use(index)
    assert [resting(index) for index in indexes] == [False, True, False, True], "d was used before c"
    assert len(opened) == 2
    for index in indexes:
        index.close()
    assert len(opened) == 0


def test_of_many_collections_only_the_locks_stay_open(open_edge, limit):
    """The engine's threads end, and with them their descriptors, some time after a shard was closed."""
    limit(2)

    def descriptors():
        return len(os.listdir("/proc/self/fd"))

    def settle(most):
        ends = time.monotonic() + DEADLINE_SECONDS
        while descriptors() > most and time.monotonic() < ends:
            time.sleep(0.01)
        return descriptors()

    before = descriptors()
    indexes = [open_edge(f"c{number}") for number in range(2)]
    open_ones = descriptors() - before - len(indexes)
    assert open_ones > 0
    for number in range(2, 33):
        indexes.append(open_edge(f"c{number}"))
    for number, index in enumerate(indexes):
        index.write([record(number + 1, ONE, "dog")], [], 1)
    most = before + len(indexes) + open_ones
    assert settle(most) <= most
    assert [numbers(index.search(ONE, "dog", 5, EVERY_TYPE).dense) for index in indexes] == [
        [number + 1] for number in range(33)
    ]
    assert settle(most) <= most


def test_a_woken_index_answers_writes_and_counts_as_one_that_never_rested(open_edge, limit):
    limit(1)
    index, awake = open_edge("a"), open_edge("b")

    def state():
        hits = index.search(ONE, "dog", 9, EVERY_TYPE)
        return index.cursor(), index.count(), hits.dense.completeness.scanned, numbers(hits.lexical)

    def rest():
        use(awake)
        assert resting(index)

    index.write([record(n, ONE, "dog") for n in (1, 2, 3)], [], 1)
    assert state() == (Cursor(0, 1), 3, 3, [1, 2, 3])
    rest()
    assert state() == (Cursor(0, 1), 3, 3, [1, 2, 3])
    rest()
    index.write([record(2, ONE, "cat"), record(4, ONE, "dog")], [ref(1)], 2)
    assert state() == (Cursor(0, 2), 3, 3, [3, 4])
    rest()
    index.flush(applied=2)
    assert state() == (Cursor(2, 2), 3, 3, [3, 4])
    rest()
    index.close()
    again = open_edge("a")
    assert (again.cursor(), set(again.present([ref(n) for n in range(1, 5)]))) == (
        Cursor(2, 2),
        {ref(2), ref(3), ref(4)},
    )


def test_its_place_in_the_log_wakes_no_index_unless_it_moves(open_edge, limit):
    """A sweep asks every collection every half minute."""
    limit(1)
    index, awake = open_edge("a"), open_edge("b")
    index.write([record(1, ONE)], [], 3)
    index.flush(applied=2)
    use(awake)
    assert index.cursor() == Cursor(2, 3)
    index.flush()
    index.flush(applied=2)
    assert resting(index)
    index.flush(applied=3)
    assert not resting(index)
    assert index.cursor() == Cursor(3, 3)


def test_a_resting_folder_stays_its_owners(open_edge, limit, monkeypatch):
    limit(1)
    index, _ = open_edge("a"), open_edge("b")
    assert resting(index)
    monkeypatch.setattr(handles, "LOCK_TRIES", 1)
    with pytest.raises(StoreInUse):
        OwnerLock.acquire(index._folder, "vector store")


@contextmanager
def in_a_call(index):
    """Another thread is in the midst of a call on `index`."""
    begun, end = threading.Event(), threading.Event()

    def call():
        with index._use() as store:
            store.generation.count()
            begun.set()
            end.wait(DEADLINE_SECONDS)
            counted.append(store.generation.count())

    counted = []
    thread = threading.Thread(target=call)
    thread.start()
    assert begun.wait(DEADLINE_SECONDS)
    try:
        yield
    finally:
        end.set()
        thread.join()
    assert counted == [0]


def test_nothing_rests_under_a_call(open_edge, limit):
    limit(1)
    index, other = open_edge("a"), open_edge("b")
    with in_a_call(index):
        use(other)
        assert not resting(index)
    use(other)
    assert resting(index)


@pytest.mark.parametrize("ending", ["switch", "leave"])
def test_nothing_rests_while_it_is_rebuilt(open_edge, limit, ending):
    limit(1)
    index, other = open_edge("a"), open_edge("b")
    index.write([record(1, ONE, "old")], [], 1)
    rebuild = index.begin_rebuild()
    rebuild.write([record(1, ONE, "new")], [], 2)
    use(other)
    assert {name.partition("/")[0] for name in held(index)} == {"gen-000001", "gen-000002", "owner.lock"}
    assert rebuild.present([ref(1)]) == {ref(1): "Label: new"}
    assert index.present([ref(1)]) == {ref(1): "Label: old"}
    rebuild.switch(applied=2) if ending == "switch" else rebuild.leave()
    use(other)
    assert resting(index)
    assert index.present([ref(1)]) == {ref(1): "Label: new" if ending == "switch" else "Label: old"}
    assert index.cursor() == (Cursor(2, 2) if ending == "switch" else Cursor(0, 1))


def test_a_rebuild_of_what_rests_need_not_wake_it(open_edge, limit):
    limit(1)
    index, other = open_edge("a"), open_edge("b")
    index.write([record(1, ONE, "old")], [], 1)
    use(other)
    rebuild = index.begin_rebuild()
    rebuild.write([record(2, ONE, "new")], [], 2)
    rebuild.switch(applied=2)
    assert (index.cursor(), index.count()) == (Cursor(2, 2), 1)
    assert sorted(entry.name for entry in index._folder.glob("gen-*")) == ["gen-000002"]
    assert resting(other)


def test_a_copy_of_what_rests_is_whole(open_edge, limit, tmp_path):
    limit(1)
    index, other = open_edge("a"), open_edge("b")
    index.write([record(1, ONE, "dog")], [], 1)
    use(other)
    index.backup(tmp_path / "a")
    assert resting(index)
    with ExitStack() as closing:
        copy = edge_module.EdgeVectorIndex(tmp_path, "a", 4, index._build.fingerprint)
        closing.callback(copy.close)
        assert (copy.cursor(), copy.count()) == (Cursor(0, 1), 1)


def test_a_flush_that_fails_on_the_way_to_rest_loses_nothing(open_edge, limit, caplog):
    """The caller whose turn it was does not suffer; the next one finds what the engine's log has."""
    limit(1)
    index, other = open_edge("a"), open_edge("b")
    index.write([record(1, ONE, "dog")], [], 4)
    generation = index._store.generation

    class Full(Spy):
        def flush(self):
            raise Exception("no space left")

    generation._shard = Full(generation._shard)
    assert use(other) == 0
    assert "no space left" in caplog.text
    assert resting(index)
    assert index.cursor() == Cursor(0, 4)
    assert not resting(index), "the engine was asked, for its last flush is not known to be whole"
    assert index.present([ref(1)]) == {ref(1): "Label: dog"}
    index.flush(applied=4)
    assert index.cursor() == Cursor(4, 4)


def test_an_index_that_cannot_be_woken_is_refused_until_it_can(open_edge, limit, monkeypatch):
    import qdrant_edge

    limit(1)
    index, other = open_edge("a"), open_edge("b")
    index.write([record(1, ONE)], [], 1)
    use(other)

    class Exhausted:
        @staticmethod
        def load(folder):
            raise Exception("Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(qdrant_edge, "EdgeShard", Exhausted)
        for _ in range(2):
            with pytest.raises(VectorDatabaseError, match="Too many open files") as caught:
                index.count()
            assert caught.value.kind == "engine"
    assert index.count() == 1


def test_an_index_whose_files_went_while_it_rested_is_told(open_edge, limit):
    limit(1)
    index, other = open_edge("a"), open_edge("b")
    use(other)
    shard = index._folder / "gen-000001" / "shard"
    shard.rename(shard.with_name("away"))
    with pytest.raises(VectorDatabaseError, match="gen-000001"):
        index.count()
    shard.with_name("away").rename(shard)
    assert index.count() == 0


def test_threads_that_use_more_indexes_than_may_be_open_answer_as_one_by_one(open_edge, limit):
    opened = limit(2)
    indexes = [open_edge(f"c{number}") for number in range(30)]
    threads, failures = 3, []

    def work(thread):
        order = random.Random(thread).sample(range(len(indexes)), len(indexes))
        try:
            for which in order:
                number = which * threads + thread + 1
                indexes[which].write([record(number, ONE, "dog")], [], number)
                hits = indexes[which].search(ONE, "dog", 9, EVERY_TYPE)
                assert number in numbers(hits.dense)
                assert number in numbers(hits.lexical)
        except BaseException as error:
            failures.append(error)

    running = [threading.Thread(target=work, args=(thread,)) for thread in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert failures == []
    use(indexes[0])
    assert len(opened) == 2
    for which, index in enumerate(indexes):
        written = [which * threads + thread + 1 for thread in range(threads)]
        hits = index.search(ONE, "dog", 9, EVERY_TYPE)
        assert (numbers(hits.dense), numbers(hits.lexical)) == (written, written)
        assert hits.dense.completeness.scanned == index.count() == threads
        assert index.cursor() == Cursor(0, written[-1])


def test_a_forked_child_lets_nothing_of_its_parent_rest(open_edge, limit, root):
    opened = limit(1)
    index = open_edge("a")
    index.write([record(1, ONE, "dog")], [], 1)

    def in_the_child():
        signal.alarm(DEADLINE_SECONDS)  # which ends a child that waits
        own = [edge_module.EdgeVectorIndex(root, name, 4, "own") for name in "cd"]
        counts = [one.count() for one in own]
        awake = index._store._serving is not None
        try:
            index.count()
        except StoreForkedError:
            return f"{counts} {len(opened)} {awake}"
        return "not refused"

    with index._store.lock, opened._lock:  # as if other threads of the parent had them
        assert in_child(in_the_child) == "[0, 0] 1 True"
    assert index.present([ref(1)]) == {ref(1): "Label: dog"}


def test_a_hard_kill_leaves_what_rested_and_what_was_awake(open_edge, root):
    code, said = run(
        root,
        """
        edge._open_stores.most = 1
        first = open_index()
        second = edge.EdgeVectorIndex(Path(sys.argv[1]), "second", 4, sys.argv[2])
        for number in (1, 2):
            for index in (first, second):
                index.write([record(number, ONE, "dog")], [], number)
        say(first._store._serving is None)
        die()
        """,
    )
    assert (code, said) == (-signal.SIGKILL, ["True"])
    for name in ("contract", "second"):
        index = open_edge(name)
        assert (index.cursor(), set(index.present([ref(1), ref(2)]))) == (Cursor(0, 2), {ref(1), ref(2)})


def test_memories_take_turns_behind_the_facade(limit, root):
    opened = limit(1)
    settings = {
        "GRAPH_STORE_MODE": "in_memory",
        "VECTOR_STORE_PATH": str(root),
        "RETRIEVAL_STATS_STORE_MODE": "in_memory",
    }
    with ExitStack() as open_:
        memories = [
            open_.enter_context(CharacterMemory.open(settings, name, embedding_provider=HashingEmbedding(8)))
            for name in ("ada", "bob", "eve")
        ]
        for round_ in (1, 2):
            for memory in memories:
                memory.commit(plan(episode(round_), observation(round_ + 8, round_, f"She sings {round_}")))
        for memory in memories:
            pack = memory.retrieve(RetrievalContext(topic="sings")).pack
            assert {item.text for item in pack.salient_observations} == {"She sings 1", "She sings 2"}
            assert memory.upkeep.sweep().complete
            assert memory.upkeep.verify().found == ()
        memories[0].upkeep.rebuild_vectors()
        assert memories[0].stores.vectors.cursor().applied == 2
        for memory in memories:
            assert memory.upkeep.sweep().complete
        assert resting(memories[1].stores.vectors), "a sweep that finds nothing wakes none"
        assert len(opened) == 1
