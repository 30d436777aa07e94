"""What is SQLite's own: opening, refusing, forks, generations, and cost that does not grow with a hub."""

import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from charactermemory.adapters.statistics import SqliteStatistics, open_statistics
from charactermemory.errors import RetrievalStatsStoreError, StoreClosedError
from charactermemory.ports.statistics import Count, Health, Projection
from charactermemory.testing.statistics_model import (
    ABOUT,
    DERIVED,
    about,
    assert_equal_to_recount,
    best_of,
    memory,
    notion,
    overall_of,
    random_projections,
    state,
)


def refused(path: Path) -> str:
    with pytest.raises(RetrievalStatsStoreError) as caught:
        SqliteStatistics(path, "main")
    return caught.value.kind


def run(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own, with the store's names at hand."""
    head = """
        import os, signal, sys, threading
        from charactermemory.adapters.statistics import SqliteStatistics
        from charactermemory.errors import StoreForkedError
        from charactermemory.testing.statistics_model import *
    """
    text = textwrap.dedent(head) + textwrap.dedent(script)
    command = [sys.executable, "-c", text, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


# --- opening -----------------------------------------------------------------------------------------


def test_missing_folders_are_made(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "statistics.sqlite3"
    SqliteStatistics(path, "main").close()
    assert path.exists()


def test_a_path_that_cannot_be_one_is_a_filesystem_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    assert refused(tmp_path / "file" / "statistics.sqlite3") == "filesystem"
    (tmp_path / "folder").mkdir()
    assert refused(tmp_path / "folder") == "filesystem"


def test_another_programs_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "db.sqlite3"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE django_session (id INTEGER)")
    connection.close()
    before = path.read_bytes()
    assert refused(path) == "sqlite"
    assert path.read_bytes() == before


def test_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "statistics.sqlite3"
    SqliteStatistics(path, "main").close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(RetrievalStatsStoreError, match="version 99, expected 1"):
        SqliteStatistics(path, "main")


def test_damage_is_a_sqlite_error(tmp_path: Path) -> None:
    path = tmp_path / "statistics.sqlite3"
    path.write_bytes(b"no database at all" * 100)
    assert refused(path) == "sqlite"
    path.unlink()
    store = SqliteStatistics(path, "main")
    store.apply(about(notion(7), *(state(memory(n)) for n in range(1, 200))), 1)
    store.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    assert refused(path) == "sqlite"


def test_a_store_that_cannot_be_opened_is_replaced_by_an_unhealthy_one_in_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("not a folder")
    store = open_statistics("sqlite", tmp_path / "file" / "statistics.sqlite3", "main")
    assert store.health(0) == Health("unhealthy", "store_initialization")
    assert "statistics of collection main are kept in memory" in caplog.text
    store.apply(about(notion(7), state(memory(1))), 1)
    assert store.health(1).state == "unhealthy"
    with pytest.raises(RetrievalStatsStoreError, match="for this process alone"):
        store.rebuild([about(notion(7), state(memory(1)))], 1)
    assert store.health(1) == Health("healthy")
    store.close()


def test_each_mode_keeps_its_rows_where_it_says(tmp_path: Path) -> None:
    path = tmp_path / "statistics.sqlite3"
    store = open_statistics("in_memory", path, "main")
    assert store.health(0) == Health("healthy")
    store.close()
    assert not path.exists()
    open_statistics("sqlite", path, "main").close()
    assert path.exists()


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    for path in (":memory:", tmp_path / "statistics.sqlite3"):
        store = SqliteStatistics(path, "main")
        store.close()
        with pytest.raises(StoreClosedError):
            store.cursor()
        with pytest.raises(StoreClosedError):
            store.advance(1)


# --- processes ---------------------------------------------------------------------------------------


def test_processes_share_a_file_from_its_first_moment_on(tmp_path: Path) -> None:
    path = tmp_path / "statistics.sqlite3"
    script = """
        store = SqliteStatistics(sys.argv[1], "main")
        for token, projection in enumerate(random_projections(5, 60), 1):
            if token % 3 == int(sys.argv[2]):
                store.apply(projection, token)
        store.close()
    """
    head = "import sys\nfrom charactermemory.adapters.statistics import SqliteStatistics\n"
    head += "from charactermemory.testing.statistics_model import random_projections\n"
    text = head + textwrap.dedent(script)
    workers = [subprocess.Popen([sys.executable, "-c", text, str(path), str(number)]) for number in range(3)]
    assert [worker.wait(60) for worker in workers] == [0, 0, 0]
    store = SqliteStatistics(path, "main")
    assert_equal_to_recount(store, random_projections(5, 60))
    assert store.cursor().high == 60
    store.close()


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_a_forked_child_is_refused_even_if_a_write_was_under_way(tmp_path: Path, kind: str) -> None:
    done = run(
        """
        store = SqliteStatistics(sys.argv[1], "main")
        store.apply(about(notion(7), state(memory(1))), 1)
        forked, inside = threading.Event(), threading.Event()
        def hold():
            with store._database.writing():
                inside.set()
                forked.wait()
        holder = threading.Thread(target=hold)
        holder.start()
        inside.wait()
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            try:
                store.cursor()
            except StoreForkedError as error:
                store.close()
                os._exit(7 if error.owner_pid == os.getppid() else 8)
            os._exit(9)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        forked.set()
        holder.join()
        store.apply(about(notion(7), state(memory(2))), 2)
        print(overall_of(store, ABOUT, DERIVED).total)
        """,
        tmp_path / "statistics.sqlite3" if kind == "file" else ":memory:",
    )
    assert (done.stdout, done.stderr) == ("2\n", "")


def test_a_read_waits_for_no_write(tmp_path: Path) -> None:
    store = SqliteStatistics(tmp_path / "statistics.sqlite3", "main")
    store.apply(about(notion(7), state(memory(1))), 1)
    with store._database.writing(), ThreadPoolExecutor(1) as reader:
        assert reader.submit(overall_of, store, ABOUT, DERIVED).result(timeout=5) == Count(1, 1, 1)
    store.close()


# --- generations -------------------------------------------------------------------------------------


def rows(path: Path) -> dict[str, set[int]]:
    """Return which generations have rows, by table."""
    connection = sqlite3.connect(path)
    found = {
        table: {row[0] for row in connection.execute(f"SELECT DISTINCT {column} FROM {table}")}
        for table, column in (
            ("generation", "id"),
            ("state", "generation"),
            ("edge", "generation"),
            ("hub_count", "generation"),
            ("global_count", "generation"),
        )
    }
    connection.close()
    return found


def test_a_rebuild_leaves_no_old_rows(tmp_path: Path) -> None:
    path = tmp_path / "statistics.sqlite3"
    store = SqliteStatistics(path, "main")
    many = [about(notion(7), *(state(memory(n)) for n in range(1, 2_500)))]
    store.apply(many[0], 1)
    store.rebuild(many, 1)
    assert {len(generations) for generations in rows(path).values()} == {1}
    store.close()


def test_a_killed_rebuild_changes_nothing_and_the_next_one_removes_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "statistics.sqlite3"
    done = run(
        """
        store = SqliteStatistics(sys.argv[1], "main")
        store.apply(about(notion(7), state(memory(1))), 1)
        store.mark_unhealthy("drift")
        def projections():
            for n in range(2, 3_000):
                yield about(notion(7), state(memory(n)))
            os.kill(os.getpid(), signal.SIGKILL)
        store.rebuild(projections(), 1)
        """,
        path,
    )
    assert done.returncode == -9
    store = SqliteStatistics(path, "main")
    assert len(rows(path)["edge"]) == 2
    assert overall_of(store, ABOUT, DERIVED) == Count(1, 1, 1)
    assert store.health(1) == Health("unhealthy", "drift")
    store.rebuild([about(notion(7), state(memory(2)))], 1)
    assert {len(generations) for generations in rows(path).values()} == {1}
    assert best_of(store, notion(7), ABOUT, DERIVED, "total", 5) == [memory(2)]
    store.close()


def test_of_two_rebuilds_the_later_one_wins(tmp_path: Path) -> None:
    path = tmp_path / "statistics.sqlite3"
    store = SqliteStatistics(path, "main")

    def projections() -> Iterator[Projection]:
        yield about(notion(7), state(memory(1)))
        store.rebuild([about(notion(7), state(memory(2)))], 2)

    with pytest.raises(RetrievalStatsStoreError, match="another rebuild of main has begun"):
        store.rebuild(projections(), 1)
    assert best_of(store, notion(7), ABOUT, DERIVED, "total", 5) == [memory(2)]
    assert store.cursor().applied == 2
    assert {len(generations) for generations in rows(path).values()} == {1}
    store.close()


# --- cost --------------------------------------------------------------------------------------------


def test_neither_reading_nor_writing_grows_with_the_hub() -> None:
    small, large = steps_at_a_hub_of(50), steps_at_a_hub_of(5_000)
    for name, count in large.items():
        assert count <= 1.3 * small[name], (name, small, large)


def steps_at_a_hub_of(size: int) -> dict[str, int]:
    """Count SQLite's own steps for each call, by tens."""
    store = SqliteStatistics(":memory:", "main")
    numbers = range(1, size + 1)
    store.apply(about(notion(7), *(state(memory(n), superseded=n % 9 > 0, minutes=n) for n in numbers)), 1)
    connection = store._database._reader._connection
    count = 0

    def tick() -> None:
        nonlocal count
        count += 1

    def steps(call: object, *arguments: object) -> int:
        nonlocal count
        count = 0
        call(*arguments)  # type: ignore[operator]
        return count

    connection.set_progress_handler(tick, 10)
    new = about(notion(7), *(state(memory(n)) for n in (9_001, 9_002, 9_003)))
    changed = about(notion(7), state(memory(9), suppressed=True))
    found = {
        "best": steps(best_of, store, notion(7), ABOUT, DERIVED, "current", 5),
        "best of all": steps(best_of, store, notion(7), ABOUT, DERIVED, "total", 5),
        "counts": steps(store.counts, [notion(7)], [(ABOUT, DERIVED)]),
        "edges": steps(store.edges_of, [memory(3)]),
        "page": steps(store.scan, memory(5), 10),
        "new": steps(store.apply, new, 2),
        "changed": steps(store.apply, changed, 3),
    }
    store.close()
    return found
