"""What other processes see: kills, forks, a second opener, a crash around the switch."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from charactermemory.adapters.qdrant.edge import EdgeVectorIndex
from charactermemory.errors import StoreForkedError, StoreInUse
from charactermemory.ports.vectors import Cursor
from charactermemory.testing.vector_samples import EVERY_TYPE, numbers, ref

from .conftest import FINGERPRINT

ONE = [1.0, 0.0, 0.0, 0.0]

PROJECT = Path(__file__).parents[2]

PRELUDE = """
import os, signal, sys, time
from pathlib import Path
from charactermemory.adapters.qdrant import edge
from charactermemory.errors import StoreForkedError, StoreInUse
from charactermemory.testing.vector_samples import EVERY_TYPE, numbers, record, ref

ONE = [1.0, 0.0, 0.0, 0.0]

def open_index():
    return edge.EdgeVectorIndex(Path(sys.argv[1]), "contract", 4, sys.argv[2])

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def say(word):
    print(word, flush=True)
"""


def start(root: Path, body: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(body), str(root), FINGERPRINT],
        cwd=PROJECT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def run(root: Path, body: str) -> tuple[int, list[str]]:
    with start(root, body) as process:
        output, _ = process.communicate(timeout=60)
    return process.returncode, output.split()


@pytest.mark.spec("recall-85")
def test_what_was_written_survives_a_hard_kill(open_edge, root):
    """Flushed or not it is there, for the engine replays its log; only what was flushed is vouched for."""
    code, said = run(
        root,
        """
        index = open_index()
        index.write([record(n, ONE, "dog") for n in range(1, 201)], [], 1)
        index.flush(applied=1)
        index.write([record(n, ONE, "dog") for n in range(201, 401)], [ref(1)], 2)
        say("written")
        die()
        """,
    )
    assert (code, said) == (-signal.SIGKILL, ["written"])
    index = open_edge()
    assert index.cursor() == Cursor(applied=1, high=2)
    assert set(index.present([ref(n) for n in range(1, 500)])) == {ref(n) for n in range(2, 401)}
    assert index.count() == 399
    hits = index.search(ONE, "dog", 400, EVERY_TYPE)
    assert numbers(hits.dense) == numbers(hits.lexical) == list(range(2, 401))


def test_a_second_process_is_told_who_holds_the_store(open_edge, root):
    """Also after the holder copied its own live folder, which would drop RocksDB's kind of lock."""
    with start(
        root,
        """
        import shutil
        index = open_index()
        shutil.copytree(sys.argv[1], sys.argv[1] + "-copy")
        say("open")
        sys.stdin.read(1)
        index.close()
        """,
    ) as holder:
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(StoreInUse, match=f"pid {holder.pid} on ") as caught:
            open_edge()
        assert caught.value.path == os.path.realpath(root / "contract")
        holder.communicate("x", timeout=60)
    assert open_edge().count() == 0


def test_a_note_left_by_a_dead_owner_means_nothing(open_edge, root):
    run(root, "open_index(); die()")
    assert '"pid"' in (root / "contract" / "owner.lock").read_text()
    assert open_edge().count() == 0


def test_a_forked_child_is_refused_and_disturbs_nobody(open_edge, root):
    """Every use raises in the child, even while a thread of the parent held the lock; the parent goes on."""
    code, said = run(
        root,
        """
        index = open_index()
        rebuild = index.begin_rebuild()
        index._store.lock.acquire()
        child = os.fork()
        if child == 0:
            index._store.lock = None
            uses = [
                lambda: index.search(ONE, "dog", 5, EVERY_TYPE),
                lambda: index.search(ONE, "dog", 0, ()),
                lambda: index.write([record(1, ONE)], [], 1),
                lambda: index.write([], [], 1),
                lambda: index.present([]),
                index.cursor, index.flush, index.count, index.begin_rebuild,
                lambda: index.scan(None, 1),
                lambda: rebuild.switch(1),
                rebuild.leave,
            ]
            for use in uses:
                try:
                    use()
                except StoreForkedError as error:
                    assert error.owner_pid == os.getppid()
                else:
                    os._exit(3)
            index.close()
            try:
                open_index()
            except StoreInUse:
                sys.exit(7)
            os._exit(4)
        index._store.lock.release()
        say(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        rebuild.leave()
        index.write([record(1, ONE, "dog")], [], 1)
        index.flush(applied=1)
        say(index.count())
        index.close()
        """,
    )
    assert (code, said) == (0, ["7", "1"])
    assert open_edge().cursor() == Cursor(applied=1, high=1)


def test_a_child_that_outlives_its_parent_does_not_hold_the_store(open_edge, root):
    """The child inherited the lock's descriptor; the parent is killed while the child lives on."""
    with start(
        root,
        """
        index = open_index()
        index.write([record(1, ONE, "dog")], [], 1)
        child = os.fork()
        if child == 0:
            say(os.getpid())
            sys.stdin.read(1)
            os._exit(0)
        time.sleep(60)
        """,
    ) as parent:
        child = int(parent.stdout.readline())
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait(timeout=60)
        os.kill(child, 0)
        assert open_edge().count() == 1
        parent.stdin.write("x")
        parent.stdin.close()


@pytest.mark.parametrize(
    ("moment", "texts", "cursor"),
    [
        ("before the rename", {ref(1): "Label: old"}, Cursor(applied=1, high=1)),
        ("after the rename", {ref(1): "Label: new"}, Cursor(applied=2, high=2)),
    ],
)
def test_a_crash_around_the_switch_leaves_one_whole_generation(open_edge, root, moment, texts, cursor):
    """Before the rename of CURRENT the old one serves and the new can be gone on with; after it the old goes."""
    code, _ = run(
        root,
        f"""
        index = open_index()
        index.write([record(1, ONE, "old")], [], 1)
        index.flush(applied=1)
        rebuild = index.begin_rebuild()
        rebuild.write([record(1, ONE, "new")], [], 2)
        replace = os.replace

        def dying_replace(source, target):
            if {moment == "after the rename"!r}:
                replace(source, target)
            die()

        os.replace = dying_replace
        rebuild.switch(applied=2)
        """,
    )
    assert code == -signal.SIGKILL
    folders = root / "contract"
    assert len(list(folders.glob("gen-*"))) == 2
    index = open_edge()
    assert index.present([ref(1)]) == texts
    assert index.cursor() == cursor
    left = moment == "before the rename"
    assert len(list(folders.glob("gen-*"))) == 1 + left
    rebuild = index.begin_rebuild()
    assert rebuild.present([ref(1)]) == ({ref(1): "Label: new"} if left else {})
    rebuild.switch(applied=3)
    assert index.cursor().applied == 3
    assert len(list(folders.glob("gen-*"))) == 1


def test_a_rebuild_that_was_killed_is_gone_on_with(open_edge, root):
    """What was written and not flushed is there too: the engine replays its log."""
    code, _ = run(
        root,
        """
        index = open_index()
        index.begin_rebuild().write([record(1, ONE, "new")], [], 2)
        die()
        """,
    )
    assert code == -signal.SIGKILL
    assert open_edge().begin_rebuild().present([ref(1)]) == {ref(1): "Label: new"}


def test_a_fork_in_this_process_is_noticed_without_a_pid(open_edge):
    """The count of forks decides, since pids recur."""
    index: EdgeVectorIndex = open_edge()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            index._store.owner.pid = os.getpid()
            index.count()
        except StoreForkedError:
            os.write(writer, b"forked")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        assert pipe.read() == b"forked"
