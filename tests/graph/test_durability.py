"""An acknowledged commit of the embedded graph survives: syncing the log, its fall-back, and failures."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from charactermemory.adapters.oxigraph import embedded, log_sync
from charactermemory.adapters.oxigraph.connection import ResponseLost
from charactermemory.adapters.oxigraph.embedded import EmbeddedConnection
from charactermemory.adapters.oxigraph.log_sync import LogSync
from charactermemory.adapters.oxigraph.service import ServiceConnection
from charactermemory.errors import DatabaseError, StoreUnavailable
from charactermemory.testing.recording import Fault, RecordingConnection
from charactermemory.testing.servers import OxigraphServer
from tests.graph.processes import Script, run

COUNT = "SELECT ?s WHERE { GRAPH <urn:g> { ?s <urn:p> ?o } }"


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[EmbeddedConnection]:
    opened = EmbeddedConnection(tmp_path, "ada")
    yield opened
    opened.close()


def add(connection: EmbeddedConnection | RecordingConnection, number: int, size: int = 20) -> None:
    triples = f"<urn:s{number}> <urn:p> {number} ; <urn:text> '{'x' * size}'"
    connection.update(f"INSERT DATA {{ GRAPH <urn:g> {{ {triples} }} }}")


class Syncs:
    """Every fdatasync of the module under test: the file's name, and its length when the sync began."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.files: list[tuple[str, int]] = []
        self.folders: list[Path] = []
        self.failure: OSError | None = None
        self.gate: threading.Event | None = None
        self.started = threading.Event()
        real = os.fdatasync

        def fdatasync(descriptor: int) -> None:
            self.files.append(
                (Path(os.readlink(f"/proc/self/fd/{descriptor}")).name, os.fstat(descriptor).st_size)
            )
            self.started.set()
            if self.gate is not None:
                assert self.gate.wait(10)
            if self.failure is not None:
                raise self.failure
            real(descriptor)

        monkeypatch.setattr(log_sync.os, "fdatasync", fdatasync)
        monkeypatch.setattr(log_sync, "sync_folder", self.folders.append)


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> Syncs:
    return Syncs(monkeypatch)


def logs(folder: Path) -> dict[str, int]:
    sizes = {}
    for path in folder.glob("*.log"):
        with suppress(FileNotFoundError):  # the engine drops logs in its own time
            sizes[path.name] = path.stat().st_size
    return sizes


def test_sync_covers_what_the_update_wrote(connection: EmbeddedConnection, syncs: Syncs) -> None:
    before = logs(connection.folder)
    add(connection, 1)
    after = logs(connection.folder)
    [grown] = [name for name in after if after[name] > before.get(name, 0)]
    connection.sync()
    assert (grown, after[grown]) in syncs.files
    assert syncs.folders == [connection.folder], "the log is new to us: its name must survive too"
    syncs.files.clear()
    connection.sync()
    assert syncs.files == [], "nothing pending, nothing synced"
    add(connection, 2)
    connection.sync()
    assert syncs.files == [(grown, logs(connection.folder)[grown])], "only what grew"
    assert syncs.folders == [connection.folder]


def test_a_new_log_file_is_synced_with_the_folder(connection: EmbeddedConnection, syncs: Syncs) -> None:
    add(connection, 1)
    connection.sync()
    with connection._shared().use() as opened:
        opened.engine.store.flush()  # the engine turns to a new log
    syncs.files.clear()
    syncs.folders.clear()
    add(connection, 2)
    connection.sync()
    assert max(logs(connection.folder)) in [name for name, _ in syncs.files]
    assert syncs.folders == [connection.folder]


def test_commits_that_arrive_during_a_sync_share_the_next_one(
    connection: EmbeddedConnection, syncs: Syncs
) -> None:
    add(connection, 0)
    connection.sync()
    syncs.files.clear()
    syncs.started.clear()
    syncs.gate = threading.Event()
    done: list[int] = []

    def commit(number: int) -> None:
        add(connection, number)
        connection.sync()
        done.append(number)

    threads = [threading.Thread(target=commit, args=(number,)) for number in range(1, 7)]
    threads[0].start()
    assert syncs.started.wait(10)
    for thread in threads[1:]:
        thread.start()
    while len(connection.query(COUNT)) < 7:
        time.sleep(0.01)
    time.sleep(0.1)
    assert done == [], "nobody is acknowledged by a sync that began before its update"
    written = sum(logs(connection.folder).values())
    syncs.gate.set()
    for thread in threads:
        thread.join()
    assert sorted(done) == [1, 2, 3, 4, 5, 6]
    assert len(syncs.files) == 2
    assert syncs.files[1][1] > syncs.files[0][1]
    assert written >= syncs.files[1][1]


def test_without_a_log_that_grows_every_commit_flushes_and_it_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    flushes: list[int] = []
    fallback = LogSync(tmp_path, lambda: flushes.append(1))
    (tmp_path / "000004.log").write_bytes(b"old")
    with caplog.at_level(logging.WARNING):
        unmoved = LogSync(tmp_path, lambda: flushes.append(2))
        for _ in range(3):
            unmoved.sync()
    assert flushes == [2, 2, 2]
    assert len(caplog.records) == 1 and str(tmp_path) in caplog.text
    fallback.sync()
    assert flushes == [2, 2, 2], "a log that appeared is as good as one that grew"
    with open(tmp_path / "000004.log", "ab") as log:
        log.write(b"grown")
    unmoved.sync()
    assert flushes == [2, 2, 2]
    for one in (fallback, unmoved):
        one.close()


def test_an_engine_whose_logs_are_elsewhere_flushes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setattr(embedded, "LogSync", lambda folder, flush: LogSync(elsewhere, flush))
    connection = EmbeddedConnection(tmp_path, "ada")
    tables = len(list(connection.folder.glob("*.sst")))
    add(connection, 1)
    connection.sync()
    assert len(list(connection.folder.glob("*.sst"))) > tables, "flushed into tables"
    assert "flushes the graph store" in caplog.text
    connection.close()


def test_much_written_is_flushed_in_the_background(tmp_path: Path) -> None:
    flushed = threading.Event()
    sync = LogSync(tmp_path, flushed.set, log_limit_bytes=3_000)
    five = "INSERT DATA { " + " . ".join(f"<urn:s> <urn:p> {number}" for number in range(5)) + " }"
    sync.wrote(five)
    assert not flushed.wait(0.1)
    sync.wrote(five)
    assert flushed.wait(5)
    sync.close()
    flushed.clear()
    sync.wrote(five)
    assert not flushed.wait(0.1), "counted anew"
    sync.wrote("x" * 3_000)
    assert flushed.wait(5), "long texts count too"
    sync.close()


def test_the_engines_log_is_bounded_by_flushes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        embedded, "LogSync", lambda folder, flush: LogSync(folder, flush, log_limit_bytes=1_000_000)
    )
    connection = EmbeddedConnection(tmp_path, "ada")
    written = 0
    for number in range(100):
        triples = " . ".join(f"<urn:s{number}> <urn:text{part}> 'text {number} {part}'" for part in range(60))
        connection.update(f"INSERT DATA {{ GRAPH <urn:g> {{ <urn:s{number}> <urn:p> 1 . {triples} }} }}")
        connection.sync()
        written += 60 * 600
    assert written > 2_000_000
    assert sum(logs(connection.folder).values()) < written
    assert len(connection.query(COUNT)) == 100
    connection.close()


def test_a_recycled_log_is_synced_though_it_does_not_grow(
    connection: EmbeddedConnection, syncs: Syncs
) -> None:
    """The engine overwrites an old log in place once its content is in tables."""
    for _ in range(3):
        for number in range(5):
            add(connection, number, 5_000)
        connection.sync()
        with connection._shared().use() as opened:
            opened.engine.store.flush()
    add(connection, 6)
    connection.sync()
    before = logs(connection.folder)
    syncs.files.clear()
    add(connection, 7)
    assert logs(connection.folder) == before, "written in place"
    connection.sync()
    assert syncs.files == [(max(before), before[max(before)])]


def test_closing_flushes(tmp_path: Path) -> None:
    connection = EmbeddedConnection(tmp_path, "ada")
    tables = set(connection.folder.glob("*.sst"))
    add(connection, 1)
    connection.close()
    assert set(connection.folder.glob("*.sst")) - tables


def test_a_failed_sync_is_told_to_all_who_waited_and_the_engine_is_reopened(
    connection: EmbeddedConnection, syncs: Syncs
) -> None:
    add(connection, 0)
    connection.sync()
    syncs.started.clear()
    syncs.gate = threading.Event()
    syncs.failure = OSError(5, "Input/output error")
    lost: list[ResponseLost] = []

    def commit(number: int) -> None:
        add(connection, number)
        try:
            connection.sync()
        except ResponseLost as error:
            lost.append(error)

    threads = [threading.Thread(target=commit, args=(number,)) for number in range(1, 4)]
    threads[0].start()
    assert syncs.started.wait(10)
    for thread in threads[1:]:
        thread.start()
    while len(connection.query(COUNT)) < 4:
        time.sleep(0.01)
    syncs.gate.set()
    for thread in threads:
        thread.join()
    assert len(lost) == 3
    assert not any(error.in_flight for error in lost), "reading the receipt tells"
    syncs.failure = None
    assert len(connection.query(COUNT)) == 4, "the next call opens the engine again"
    add(connection, 4)
    connection.sync()
    assert len(connection.query(COUNT)) == 5


def test_a_commit_written_before_another_calls_failure_is_not_acknowledged_unseen(
    connection: EmbeddedConnection, syncs: Syncs
) -> None:
    add(connection, 0)

    def fail() -> None:
        with pytest.raises(ResponseLost):
            connection.update("LOAD <file:///nothing-there>")

    other = threading.Thread(target=fail)
    other.start()
    other.join()
    with pytest.raises(ResponseLost, match="another call"):
        connection.sync()
    assert len(connection.query(COUNT)) == 1
    connection.sync()


def test_an_engine_that_cannot_be_reopened_is_unavailable_until_it_can(
    connection: EmbeddedConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(connection, 0)
    with pytest.raises(ResponseLost):
        connection.update("LOAD <file:///nothing-there>")
    real = embedded.Engine

    def full(path: str) -> None:
        raise OSError("IO error: No space left on device")

    monkeypatch.setattr(embedded, "Engine", full)
    with pytest.raises(StoreUnavailable, match="No space left"):
        connection.query(COUNT)
    monkeypatch.setattr(embedded, "Engine", real)
    assert len(connection.query(COUNT)) == 1


FULL = """
import resource
from charactermemory.adapters.oxigraph.connection import ResponseLost
from charactermemory.adapters.oxigraph.embedded import EmbeddedConnection
connection = EmbeddedConnection(Path(sys.argv[1]), "ada")
def add(n, size):
    connection.update("INSERT DATA { GRAPH <urn:g> { <urn:s%d> <urn:p> '%s' } }" % (n, "x" * size))
    connection.sync()
def count():
    return len(connection.query("SELECT * { GRAPH <urn:g> { ?s ?p ?o } }"))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
add(0, 10)
resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, resource.RLIM_INFINITY))
outcomes = []
for n in range(1, 12):
    try:
        add(n, 10_000)
        outcomes.append("ok")
    except ResponseLost as lost:
        assert not lost.in_flight
        outcomes.append("lost")
        break
assert outcomes[0] == "ok" and outcomes[-1] == "lost", outcomes
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
before = count()
assert before in (len(outcomes), len(outcomes) + 1), (before, outcomes)
add(99, 10_000)
assert count() == before + 1
connection.close()
say("went on")
"""


def test_a_write_that_finds_no_room_is_lost_and_the_store_goes_on_when_there_is(tmp_path: Path) -> None:
    """The engine refuses every write after a failed one until it is opened again (consistency.md §1)."""
    assert run(FULL, tmp_path) == "went on"


COMMITTER = """
from charactermemory.adapters.oxigraph.embedded import EmbeddedConnection
connection = EmbeddedConnection(Path(sys.argv[1]), "ada")
for n in range(100_000):
    triples = " . ".join("<urn:%d> <urn:part> %d" % (n, part) for part in range(10))
    connection.update("INSERT DATA { GRAPH <urn:g> { <urn:%d> <urn:p> %d . %s } }" % (n, n, triples))
    connection.sync()
    say(n)
"""


def test_kill_9_loses_nothing_acknowledged_and_leaves_nothing_half_done(tmp_path: Path) -> None:
    for _ in range(2):
        with Script(COMMITTER, tmp_path) as committer:
            last = -1
            while last < 40:
                last = int(committer.hear())
            committer.kill()
        connection = EmbeddedConnection(tmp_path, "ada")
        kept = len(connection.query(COUNT))
        parts = len(connection.query("SELECT * WHERE { GRAPH <urn:g> { ?s <urn:part> ?o } }"))
        connection.close()
        assert kept >= last + 1
        assert parts == 10 * kept


def test_a_recording_connection_numbers_its_calls_and_fails_where_it_is_told(
    connection: EmbeddedConnection,
) -> None:
    recording = RecordingConnection(connection)
    recording.faults[2] = Fault(error=StoreUnavailable(store="graph store", detail="told to"))
    recording.next_faults["sync"] = Fault(moment="after", lose_response=True)
    add(recording, 1)
    with pytest.raises(StoreUnavailable, match="told to"):
        add(recording, 2)
    with pytest.raises(ResponseLost):
        recording.sync()
    recording.sync()
    assert len(recording.query(COUNT)) == 1
    assert [(call.number, call.name) for call in recording.calls] == [
        (1, "update"),
        (2, "update"),
        (3, "sync"),
        (4, "sync"),
        (5, "query"),
    ]
    assert "<urn:s2>" in recording.calls[1].text


def test_a_recording_connection_kills_its_process_once_the_call_has_taken_effect() -> None:
    with OxigraphServer() as server:
        child = os.fork()
        if not child:
            recording = RecordingConnection(ServiceConnection(server.url))
            recording.faults[1] = Fault(moment="after", kill=True)
            add(recording, 1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        connection = ServiceConnection(server.url)
        assert len(connection.query(COUNT)) == 1
        connection.close()


STRACE = ("-f", "-y", "-e", "trace=write,writev,pwrite64,fdatasync,fsync")

TRACED = """
from charactermemory.adapters.oxigraph.embedded import EmbeddedConnection
connection = EmbeddedConnection(Path(sys.argv[1]), "ada")
for n in range(5):
    connection.update("INSERT DATA { GRAPH <urn:g> { <urn:s%d> <urn:p> %d } }" % (n, n))
    connection.sync()
    say("acknowledged")
os._exit(0)
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_the_kernel_is_asked_to_sync_the_log_before_each_acknowledgement(tmp_path: Path) -> None:
    """What strace sees of the whole process, engine included."""
    trace = tmp_path / "trace"
    with Script(TRACED, tmp_path / "store", before=("strace", *STRACE, "-o", str(trace))) as script:
        script.end()
    state = "acknowledged"
    acknowledged = 0
    for line in trace.read_text().splitlines():
        if ".log>" in line and "write" in line:
            state = "written"
        elif ".log>" in line and "fdatasync(" in line and state == "written":
            state = "synced"
        elif '"acknowledged' in line:
            assert state == "synced", "acknowledged before the log was synced"
            acknowledged += 1
            state = "acknowledged"
    assert acknowledged == 5


POWER = """
from charactermemory.adapters.oxigraph import embedded
from charactermemory.adapters.oxigraph.log_sync import LogSync
embedded.LogSync = lambda folder, flush: LogSync(folder, flush, log_limit_bytes=400_000)
connection = embedded.EmbeddedConnection(Path(sys.argv[1]), "ada")
start = len(connection.query("SELECT ?s WHERE { GRAPH <urn:g> { ?s <urn:p> ?o } }"))
for n in range(start, 100_000):
    triples = " . ".join("<urn:s%d> <urn:part> 'part %d of %d'" % (n, part, n) for part in range(20))
    connection.update("INSERT DATA { GRAPH <urn:g> { <urn:s%d> <urn:p> %d . %s } }" % (n, n, triples))
    connection.sync()
    say(n)
"""


@contextmanager
def mounted(image: Path, place: Path) -> Iterator[Path]:
    place.mkdir(exist_ok=True)
    subprocess.run(["mount", "-o", "loop", image, place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("mkfs.ext4") is None, reason="needs root and ext4")
def test_a_power_cut_takes_no_acknowledged_commit(tmp_path: Path) -> None:
    """A copy of the disk's image while the writer stands still is what a cut leaves (consistency.md §1)."""
    image = tmp_path / "disk"
    with open(image, "wb") as file:
        file.truncate(256 * 1024 * 1024)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    for number in range(5):
        cut = tmp_path / f"cut{number}"
        with mounted(image, tmp_path / "live") as live, Script(POWER, live) as committer:
            first = int(committer.hear())
            last = first
            while last < first + 150 + 40 * number:
                last = int(committer.hear())
            committer.process.send_signal(signal.SIGSTOP)
            subprocess.run(["cp", "--sparse=always", image, cut], check=True)
            committer.kill()
        with mounted(cut, tmp_path / "after") as after:
            connection = EmbeddedConnection(after, "ada")
            kept = {int(value.value) for (value,) in connection.query(COUNT.replace("?s W", "?o W"))}
            parts = connection.query("SELECT * WHERE { GRAPH <urn:g> { ?s <urn:part> ?o } }")
            connection.close()
            assert kept >= set(range(last + 1))
            assert len(parts) == 20 * len(kept), "nothing is torn"
        cut.unlink()


@pytest.mark.slow
def test_ten_thousand_commits_keep_the_log_and_the_time_to_reopen_bounded(tmp_path: Path) -> None:
    connection = EmbeddedConnection(tmp_path, "ada")
    for number in range(10_000):
        triples = " . ".join(f"<urn:s{number}> <urn:p{part}> 'text {number} {part}'" for part in range(70))
        connection.update(f"INSERT DATA {{ GRAPH <urn:g> {{ {triples} }} }}")
        connection.sync()
        if not number % 100:
            assert sum(logs(connection.folder).values()) < 3 * log_sync.LOG_LIMIT_BYTES
    connection.close()
    started = time.monotonic()
    EmbeddedConnection(tmp_path, "ada").close()
    assert time.monotonic() - started < 5


# --- damage ---


def _without_current(folder: Path) -> None:
    (folder / "CURRENT").unlink()


def _with_a_cut_manifest(folder: Path) -> None:
    [manifest] = folder.glob("MANIFEST-*")
    os.truncate(manifest, 50)


def _with_an_overwritten_table(folder: Path) -> None:
    for table in folder.glob("*.sst"):
        table.write_bytes(b"x" * table.stat().st_size)


@pytest.mark.parametrize("damage", [_without_current, _with_a_cut_manifest, _with_an_overwritten_table])
def test_a_damaged_folder_is_told_by_name_and_nothing_in_it_is_touched(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    with closing(EmbeddedConnection(tmp_path / "stores", "ada")) as connection:
        connection.update("INSERT DATA { GRAPH <urn:g> { <urn:s> <urn:p> 1 } }")
    folder, sound = tmp_path / "stores" / "ada", tmp_path / "sound"
    shutil.copytree(folder, sound)
    damage(folder)
    tables = {path.name: path.read_bytes() for path in folder.glob("*.sst")}
    assert tables
    for _ in range(2):  # the engine would take a folder without CURRENT for a new one when asked again
        with pytest.raises(DatabaseError, match=f"{folder} is damaged: .+ backup"):
            EmbeddedConnection(tmp_path / "stores", "ada")
    assert {path.name: path.read_bytes() for path in folder.glob("*.sst")} == tables
    shutil.rmtree(folder)
    shutil.copytree(sound, folder)
    with closing(EmbeddedConnection(tmp_path / "stores", "ada")) as connection:
        assert connection.ask("ASK { GRAPH <urn:g> { <urn:s> <urn:p> 1 } }")


def test_what_only_the_log_holds_is_no_new_store_either(tmp_path: Path) -> None:
    with closing(EmbeddedConnection(tmp_path, "ada")) as connection:
        connection.update("INSERT DATA { GRAPH <urn:g> { <urn:s> <urn:p> 1 } }")
    folder = tmp_path / "ada"
    for path in (folder / "CURRENT", *folder.glob("*.sst")):
        path.unlink()
    logs = {path.name: path.read_bytes() for path in folder.glob("[0-9]*.log")}
    assert any(logs.values())
    for _ in range(2):  # the engine would refuse it once
        with pytest.raises(DatabaseError, match=f"{folder} is damaged: .+ backup"):
            EmbeddedConnection(tmp_path, "ada")
    assert {path.name: path.read_bytes() for path in folder.glob("[0-9]*.log")} == logs


def test_a_folder_whose_making_was_cut_short_is_made_anew(tmp_path: Path) -> None:
    with closing(EmbeddedConnection(tmp_path, "ada")):
        pass
    for path in (tmp_path / "ada").iterdir():
        if path.suffix in (".sst", ".log") or path.name == "CURRENT":
            path.unlink()
    with closing(EmbeddedConnection(tmp_path, "ada")) as connection:
        assert not connection.ask("ASK { ?s ?p ?o }")
