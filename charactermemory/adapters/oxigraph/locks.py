"""The two writer locks of the core: of one process, and of all processes of one machine (consistency.md R4).

The embedded stores have one owner, so a lock between threads is enough there, and an update's fate is always
known. An endpoint has many writers, one of which may die while its update is being evaluated: the file lock
remembers that, and the next holder settles it before it writes.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from urllib.parse import quote

from charactermemory.adapters.folders import sync_folder
from charactermemory.adapters.handles import fork_count
from charactermemory.errors import StoreUnavailable
from charactermemory.ports.locks import Grant

WAIT_SECONDS = 10.0
"""How long a writer waits for its turn (decisions.md "To R4")."""

_LOCK_NAME = "writer lock"
_POLL_SECONDS = (0.001, 0.025)
"""Shortest and longest pause between two tries for the file; a twentieth of the time already waited."""

_RECORD_BYTES = 128
"""The record has one length, so that it is overwritten in place and lies in one disk sector."""


@dataclass
class _Turn:
    """The lock of one collection in this process, and the last number used under it."""

    lock: threading.Lock
    used: int = 0


_turns: dict[tuple[str, str], _Turn] = {}
_turns_lock = threading.Lock()
_held_descriptors: set[int] = set()


@contextmanager
def _turn(key: str, collection: str, wait_seconds: float) -> Iterator[_Turn]:
    with _turns_lock:
        turn = _turns.setdefault((key, collection), _Turn(threading.Lock()))
    forks = fork_count()
    if not turn.lock.acquire(timeout=wait_seconds):
        raise _not_free(collection, wait_seconds)
    try:
        yield turn
    finally:
        if forks == fork_count():
            turn.lock.release()


def _not_free(collection: str, wait_seconds: float) -> StoreUnavailable:
    detail = f"collection {collection}: another writer held it for {wait_seconds:g} s"
    return StoreUnavailable(store=_LOCK_NAME, detail=detail)


def _after_fork_in_child() -> None:
    """No thread of the parent lives here to give a lock back, and its files are its own."""
    global _turns_lock
    _turns_lock = threading.Lock()
    _turns.clear()
    for descriptor in _held_descriptors:
        os.close(descriptor)
    _held_descriptors.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)


class ThreadWriterLock:
    """A `WriterLock` between the threads of this process, for a store that this process owns.

    All locks with the same `store_key` are one lock; the key names the store, e.g. its folder's real path.
    The token is the next number after the graph's head and after every one used here.
    """

    def __init__(self, store_key: str, *, wait_seconds: float = WAIT_SECONDS) -> None:
        self._key = f"store:{store_key}"
        self._wait_seconds = wait_seconds

    @contextmanager
    def hold(
        self, collection: str, settle: Callable[[int, int], bool], head: Callable[[], int]
    ) -> Iterator[Grant]:
        """See `WriterLock`; never settles, for no update outlives its call."""
        with _turn(self._key, collection, self._wait_seconds) as turn:
            grant = _ThreadGrant(max(turn.used, head()) + 1)
            try:
                yield grant
            finally:
                if grant.used:
                    turn.used = grant.token

    def last_settled(self, collection: str) -> int | None:
        """See `WriterLock`: nothing is remembered beyond the process."""
        return None


class _ThreadGrant:
    def __init__(self, token: int) -> None:
        self.token = token
        self.used = False

    def sending(self) -> None:
        self.used = True

    def settled(self, committed: bool) -> None:
        self.used = committed


@dataclass(frozen=True, slots=True)
class _State:
    """What the lock file remembers: the last granted token, the one left open, the last known committed."""

    token: int = 0
    open: int | None = None
    last_settled: int = 0


class FileWriterLock:
    """A `WriterLock` between all processes of one machine: an `flock`ed file per collection in `folder`.

    The kernel frees the lock when its holder dies; the file then still says that an update was under way.
    Not for network file systems.
    """

    def __init__(self, folder: Path, *, wait_seconds: float = WAIT_SECONDS) -> None:
        self.folder = folder
        self._wait_seconds = wait_seconds

    @contextmanager
    def hold(
        self, collection: str, settle: Callable[[int, int], bool], head: Callable[[], int]
    ) -> Iterator[Grant]:
        """See `WriterLock`."""
        deadline = time.monotonic() + self._wait_seconds
        turn = _turn(f"file:{os.path.realpath(self.folder)}", collection, self._wait_seconds)
        with turn, self._locked_file(collection, deadline) as descriptor:
            grant = _FileGrant(descriptor, self._path(collection))
            grant.renew(head())
            if (old := grant.state.open) is not None:
                grant.close(old, _settled(settle, old, grant.token))
            yield grant

    def last_settled(self, collection: str) -> int | None:
        """See `WriterLock`; takes no lock, 0 before the first commit."""
        try:
            descriptor = os.open(self._path(collection), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return 0
        try:
            before = os.pread(descriptor, _RECORD_BYTES, 0)
            # A record that is being written may be read half old, half new: two equal readings are whole.
            while (after := os.pread(descriptor, _RECORD_BYTES, 0)) != before:
                before = after
        finally:
            os.close(descriptor)
        # Its first holder makes the file, then writes the record: nothing is settled before that.
        return _parse(after, self._path(collection)).last_settled if after else 0

    def _path(self, collection: str) -> Path:
        return self.folder / f"{quote(collection, safe='')}.lock"

    @contextmanager
    def _locked_file(self, collection: str, deadline: float) -> Iterator[int]:
        path = self._path(collection)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            while True:
                descriptor = _open(path)
                try:
                    if not _lock_patiently(descriptor, deadline):
                        raise _not_free(collection, self._wait_seconds)
                    if _still_there(descriptor, path):
                        break
                except BaseException:
                    _close(descriptor)
                    raise
                _close(descriptor)
        except OSError as error:
            raise StoreUnavailable(store=_LOCK_NAME, detail=f"{path}: {error.strerror}") from error
        forks = fork_count()
        try:
            yield descriptor
        finally:
            if forks == fork_count():
                # A forked child may hold the descriptor too; closing ours would leave the lock with it.
                fcntl.flock(descriptor, fcntl.LOCK_UN)
                _close(descriptor)


def _settled(settle: Callable[[int, int], bool], old: int, own: int) -> bool:
    try:
        return settle(old, own)
    except StoreUnavailable as error:
        # Not the caller's own commit: that has not begun, so its outcome is known.
        detail = f"an earlier writer's commit {old} cannot be settled now: {error.detail}"
        raise StoreUnavailable(store=error.store, detail=detail) from error


class _FileGrant:
    """The held file and its record."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor = descriptor
        record = os.pread(descriptor, _RECORD_BYTES, 0)
        if record:
            self.state = _parse(record, path)
        else:
            self.state = _State()
            sync_folder(path.parent)

    @property
    def token(self) -> int:
        return self.state.token

    def renew(self, head: int) -> None:
        """Take the next number; it is on disk before anyone uses it, so no crash grants it twice."""
        self._write(replace(self.state, token=max(self.state.token, head) + 1), durable=True)

    def sending(self) -> None:
        self._write(replace(self.state, open=self.token), durable=True)

    def settled(self, committed: bool) -> None:
        self.close(self.token, committed)

    def close(self, token: int, committed: bool) -> None:
        """Forget that `token` is open. Not synced: a power cut here costs the next writer a needless wait."""
        last = max(self.state.last_settled, token) if committed else self.state.last_settled
        self._write(replace(self.state, open=None, last_settled=last), durable=False)

    def _write(self, state: _State, *, durable: bool) -> None:
        record = json.dumps(asdict(state)).encode().ljust(_RECORD_BYTES - 1) + b"\n"
        try:
            os.pwrite(self._descriptor, record, 0)
            if durable:
                os.fdatasync(self._descriptor)
        except OSError as error:
            raise StoreUnavailable(store=_LOCK_NAME, detail=f"cannot be written: {error.strerror}") from error
        self.state = state


def _parse(record: bytes, path: Path) -> _State:
    try:
        values = json.loads(record)
        opened = values["open"]
        return _State(
            token=int(values["token"]),
            open=None if opened is None else int(opened),
            last_settled=int(values["last_settled"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        detail = f"{path} cannot be read; when no writer has run for a minute, remove it"
        raise StoreUnavailable(store=_LOCK_NAME, detail=detail) from error


def _open(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o660)
    _held_descriptors.add(descriptor)
    return descriptor


def _close(descriptor: int) -> None:
    _held_descriptors.discard(descriptor)
    os.close(descriptor)


def _lock_patiently(descriptor: int, deadline: float) -> bool:
    """Try for the file until `deadline` (monotonic seconds); a blocking `flock` knows no time-out."""
    started = time.monotonic()
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            now = time.monotonic()
            if now >= deadline:
                return False
        shortest, longest = _POLL_SECONDS
        time.sleep(min(max((now - started) / 20, shortest), longest))


def _still_there(descriptor: int, path: Path) -> bool:
    """Whether the locked file is the one that others find; someone may have removed it meanwhile."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False
