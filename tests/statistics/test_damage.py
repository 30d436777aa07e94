"""A rebuild goes back to a file that could not be opened; a damaged one is set aside, and nothing else is."""

from __future__ import annotations

import errno
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from charactermemory.adapters.statistics import SqliteStatistics, damage, database, open_statistics
from charactermemory.errors import RetrievalStatsStoreError, StoreClosedError
from charactermemory.ports.statistics import Health
from charactermemory.testing.statistics_model import about, memory, notion, state

HEALTHY = Health("healthy")
STOOD_IN = Health("unhealthy", "store_initialization")
LIVED = about(notion(7), *(state(memory(n)) for n in range(1, 50)))
Open = Callable[[str], SqliteStatistics]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file in which two collections have rows."""
    path = tmp_path / "statistics.sqlite3"
    for name in ("ada", "bob"):
        store = SqliteStatistics(path, name)
        store.apply(LIVED, 3, 3)
        store.close()
    return path


@pytest.fixture
def opened(path: Path) -> Iterator[Open]:
    """Open a collection's statistics in the file; all are closed at the end."""
    stores: list[SqliteStatistics] = []

    def one(name: str) -> SqliteStatistics:
        stores.append(open_statistics("sqlite", path, name))
        return stores[-1]

    yield one
    for store in stores:
        store.close()


def spoil(path: Path, beginning: bytes = b"") -> bytes:
    """Damage the file, all pages but the first, or its beginning; return what is in it then."""
    whole = path.read_bytes()
    path.write_bytes(beginning + whole[len(beginning) :] if beginning else whole[:4096] + b"\xff" * 9000)
    return path.read_bytes()


def beside(path: Path) -> list[str]:
    return sorted(name for name in os.listdir(path.parent) if "damaged" in name)


def refused(store: SqliteStatistics, path: Path, match: str) -> None:
    """See that a rebuild says what is in the way, touches nothing, and serves this process all the same."""
    before = path.read_bytes()
    with pytest.raises(RetrievalStatsStoreError, match=match) as raised:
        store.rebuild([LIVED], 3)
    assert "Rebuilt in memory, for this process alone" in str(raised.value)
    assert store.health(3) == HEALTHY
    assert len(store.scan(None, 100)) == 49
    assert path.read_bytes() == before
    assert beside(path) == []


@pytest.mark.parametrize("beginning", [b"", bytes(4096)], ids=["pages", "a beginning of zeros"])
def test_a_rebuild_sets_a_damaged_file_aside_and_fills_a_new_one(
    path: Path, opened: Open, beginning: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    content = spoil(path, beginning)
    ada, bob = opened("ada"), opened("bob")
    assert (ada.health(3), bob.health(3)) == (STOOD_IN, STOOD_IN)
    ada.rebuild([LIVED], 3)
    aside = Path(f"{path}.damaged")
    assert aside.read_bytes() == content, "what others have in it is kept"
    assert f"{path} was set aside as {aside}" in caplog.text
    assert (ada.health(3), bob.health(3)) == (HEALTHY, STOOD_IN)
    bob.rebuild([LIVED], 3)
    for store in (ada, bob):
        store.apply(about(notion(8), state(memory(60))), 4, 4)
        store.close()
    for name in ("ada", "bob"):
        found = opened(name)
        assert found.health(4) == HEALTHY, "as the next process meets it"
        assert len(found.scan(None, 100)) == 50
    assert beside(path) == [aside.name]


def test_a_collection_that_was_in_the_damaged_file_finds_that_the_new_one_reflects_nothing(
    path: Path, opened: Open
) -> None:
    spoil(path)
    opened("ada").rebuild([LIVED], 3)
    bob = opened("bob")
    assert bob.cursor().applied == 0
    assert bob.health(3) == Health("lagging"), "until its sweep"


def test_each_damaged_file_is_kept(path: Path, opened: Open) -> None:
    contents = []
    for _ in range(2):
        contents.append(spoil(path))
        store = opened("ada")
        store.rebuild([LIVED], 3)
        store.close()
    assert [Path(f"{path}.damaged{n}").read_bytes() for n in ("", "-2")] == contents


def test_a_file_that_is_not_known_to_be_ours_is_left_alone(path: Path, opened: Open) -> None:
    path.write_text("SECRET_KEY = 1\n" * 100)
    refused(opened("ada"), path, "move it away, or name another file in RETRIEVAL_STATS_PATH")


@pytest.mark.parametrize("damaged", [False, True])
def test_the_file_of_another_release_is_left_alone(path: Path, opened: Open, damaged: bool) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 2")
    connection.close()
    if damaged:
        spoil(path, b"SQLite format ?")
    refused(opened("ada"), path, "of this release" if damaged else "version 2, expected 1; use the release")


def test_a_locked_file_is_gone_back_to_once_it_is_free(
    path: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.0)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    store = opened("ada")
    assert store.health(3) == STOOD_IN
    with pytest.raises(RetrievalStatsStoreError, match="locked. Rebuilt in memory, for this process alone"):
        store.rebuild([LIVED], 3)
    other.execute("COMMIT")
    other.close()
    store.rebuild([LIVED], 3)
    store.close()
    assert [opened(name).health(3) for name in ("ada", "bob")] == [HEALTHY, HEALTHY]
    assert beside(path) == []


def test_a_damaged_file_that_another_process_uses_is_left_to_it(path: Path, opened: Open) -> None:
    program = (
        "import sqlite3, sys\n"
        "connection = sqlite3.connect(sys.argv[1])\n"
        "connection.execute('SELECT count(*) FROM generation').fetchone()\n"
        "print('open', flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", program, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout and other.stdout.readline() == b"open\n"
        spoil(path, b"SQLite format ?")
        store = opened("ada")
        refused(store, path, "another process uses it; stop all that do")
        other.kill()
    store.rebuild([LIVED], 3)
    assert beside(path) == ["statistics.sqlite3.damaged", "statistics.sqlite3.damaged-wal"]


def test_a_damaged_file_that_this_process_uses_is_left_to_it(path: Path, opened: Open) -> None:
    bob = opened("bob")
    spoil(path, b"SQLite format ?")
    ada = opened("ada")
    assert ada.health(3) == STOOD_IN
    refused(ada, path, "other memories of this process use it; restart the process")
    bob.close()
    ada.rebuild([LIVED], 3)
    assert beside(path)[0] == "statistics.sqlite3.damaged"


def test_what_cannot_be_copied_stays_as_it_is(
    path: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil(path)

    def full(*args: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    store = opened("ada")
    with monkeypatch.context() as patch:
        patch.setattr(damage.shutil, "copyfileobj", full)
        refused(store, path, "cannot be set aside .*No space left on device.*; move it away")
    store.rebuild([LIVED], 3)
    assert beside(path) == ["statistics.sqlite3.damaged"]


def test_damage_that_only_a_rebuild_meets_says_what_to_do(path: Path, opened: Open) -> None:
    store = opened("ada")
    with sqlite3.connect(path) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'state'").fetchone()
    connection.close()
    store.close()
    content = bytearray(path.read_bytes())
    content[(page - 1) * 4096 : page * 4096] = b"\xff" * 4096
    path.write_bytes(content)
    store = opened("ada")
    assert store.health(3) == HEALTHY
    with pytest.raises(RetrievalStatsStoreError, match="stop what uses this file, move it away and rebuild"):
        store.rebuild([LIVED], 3)


def test_a_closed_stand_in_touches_no_file(path: Path, opened: Open) -> None:
    content = spoil(path)
    store = opened("ada")
    store.close()
    with pytest.raises(StoreClosedError):
        store.rebuild([LIVED], 3)
    assert path.read_bytes() == content
