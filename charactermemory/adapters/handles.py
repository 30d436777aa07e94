"""Who owns an embedded store: the owner's lock file, what a fork does to it, and shared handles.

One process owns a store folder. It holds `flock`
on our own `owner.lock` from before the engine opens until after it closed, since RocksDB's own lock vanishes
as soon as anything in the owning process opens and closes its `LOCK` file. Within the process all facades of
a folder share one handle.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar
from weakref import WeakSet

from charactermemory.errors import StoreClosedError, StoreForkedError, StoreInUse, StoreUnavailable

OWNER_LOCK_NAME = "owner.lock"
"""Name of the lock file inside a store folder."""

LOCK_TRIES = 21
LOCK_PAUSE_SECONDS = 0.05
"""How long an opener waits for the lock: 21 tries, 50 ms apart (recall.md §11.10)."""

_NOTE_LIMIT = 4096

_folders: dict[str, int] = {}
"""Real paths of the store folders that this process owns, with the number of their locks."""

_registries: WeakSet[HandleRegistry[Any]] = WeakSet()

_abandoned: list[object] = []
"""Handles inherited through a fork; kept so that no destructor of an engine runs in the child."""

_forks = 0


def fork_count() -> int:
    """Return how many forks lie between the first process of this line and this one; pids may recur."""
    return _forks


class OwnerLock:
    """The right of this process to open one store folder, and the guard every use passes.

    The lock decides; what stands in the file only names the holder in another process's error.
    """

    def __init__(self, folder: str, store_name: str, descriptor: int) -> None:
        self.folder = folder
        self.store_name = store_name
        self.pid = os.getpid()
        self._descriptor: int | None = descriptor
        self._forks = _forks

    @classmethod
    def acquire(cls, path: Path, store_name: str) -> OwnerLock:
        """Take the lock of the existing store folder `path`, waiting up to about one second.

        Call it before the engine opens. `store_name` is what errors call the store, e.g. `graph store`.

        Raises:
            StoreInUse: another process, or another lock of this one, holds it; says which.
            StoreUnavailable: the lock file cannot be made or locked.
        """
        folder = os.path.realpath(path)
        lock_path = os.path.join(folder, OWNER_LOCK_NAME)
        try:
            descriptor = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreUnavailable(store=store_name, detail=f"{lock_path}: {error.strerror}") from error
        try:
            if not _lock_patiently(descriptor):
                holder = _read_holder(descriptor)
                raise StoreInUse(
                    store=store_name, detail="the owner's lock is held", path=folder, holder=holder
                )
            if not os.path.samestat(os.fstat(descriptor), os.stat(lock_path)):
                raise StoreUnavailable(store=store_name, detail=f"{folder} was replaced while opening")
            _write_holder(descriptor)
        except BaseException as error:
            os.close(descriptor)
            if isinstance(error, OSError):
                detail = f"{lock_path}: {error.strerror}"
                raise StoreUnavailable(store=store_name, detail=detail) from error
            raise
        _folders[folder] = _folders.get(folder, 0) + 1
        return cls(folder, store_name, descriptor)

    @property
    def forked(self) -> bool:
        """Whether this process inherited the lock through a fork, and so does not own it."""
        return self._forks != _forks or self.pid != os.getpid()

    @property
    def released(self) -> bool:
        """Whether `release` was called."""
        return self._descriptor is None

    def check(self) -> None:
        """Guard a use of the store; takes no lock, so that it cannot hang in a forked child.

        Raises:
            StoreForkedError: the store was opened before a fork that made this process.
            StoreClosedError: the lock was released.
        """
        if self.forked:
            raise StoreForkedError(store=self.store_name, owner_pid=self.pid)
        if self.released:
            raise StoreClosedError(store=self.store_name)

    def release(self) -> None:
        """Give the folder back; call it after the engine closed.

        A second call, or one in a forked child, does nothing.
        """
        if self.released or self.forked:
            return
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        _folders[self.folder] -= 1
        if not _folders[self.folder]:
            del _folders[self.folder]
        os.close(descriptor)


def _lock_patiently(descriptor: int) -> bool:
    """Try to lock `descriptor`; False when it stays held by another."""
    for attempt in range(LOCK_TRIES):
        if attempt:
            time.sleep(LOCK_PAUSE_SECONDS)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise
        else:
            return True
    return False


def _write_holder(descriptor: int) -> None:
    """Say in the locked file who holds it.

    Written only after the lock is held: written before it, 88 of 88 losers named a wrong holder
    (consistency.md §4).
    """
    note = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": " ".join(sys.argv)[:200],
    }
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(note).encode(), 0)


def _read_holder(descriptor: int) -> str:
    try:
        note = json.loads(os.pread(descriptor, _NOTE_LIMIT, 0))
        return f"pid {note['pid']} on {note['host']} since {note['since']} ({note['command']})"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


class Closeable(Protocol):
    """A handle that a registry can share."""

    def close(self) -> None:
        """Release what the handle holds."""
        ...


Handle = TypeVar("Handle", bound=Closeable)


@dataclass
class _Entry(Generic[Handle]):
    lock: threading.Lock = field(default_factory=threading.Lock)
    handle: Handle | None = None
    users: int = 0
    gone: bool = False


class HandleRegistry(Generic[Handle]):
    """One handle a store folder and process, counted by its users; make one registry a kind of store."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry[Handle]] = {}
        _registries.add(self)

    def acquire(self, path: Path, factory: Callable[[], Handle]) -> Handle:
        """Return the open handle of `path`, made by `factory` if there is none.

        What the factory raises passes through. Pair it with one `release`. Folders are told apart by
        real path.
        """
        key = os.path.realpath(path)
        while True:
            with self._lock:
                entry = self._entries.setdefault(key, _Entry())
            with entry.lock:
                if entry.gone:
                    continue
                if entry.handle is None:
                    try:
                        entry.handle = factory()
                    except BaseException:
                        self._remove(key, entry)
                        raise
                entry.users += 1
                return entry.handle

    def release(self, path: Path, handle: Handle) -> None:
        """Give one use of `handle` back; the last one closes it before anyone can open the folder again.

        Does nothing for a handle that is not registered, as one inherited through a fork.
        """
        key = os.path.realpath(path)
        with self._lock:
            entry = self._entries.get(key)
        if entry is None:
            return
        with entry.lock:
            if entry.gone or entry.handle is not handle:
                return
            entry.users -= 1
            if entry.users:
                return
            try:
                handle.close()
            finally:
                self._remove(key, entry)

    def _remove(self, key: str, entry: _Entry[Handle]) -> None:
        entry.gone = True
        with self._lock:
            del self._entries[key]

    def _abandon(self) -> None:
        """In a forked child: forget every handle and make the locks new."""
        _abandoned.append(self._entries)
        self._lock = threading.Lock()
        self._entries = {}


def _descriptor_paths() -> Iterator[tuple[int, str]]:
    """Yield (descriptor, path) of what this process has open."""
    listing = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"
    for name in os.listdir(listing):
        descriptor = int(name)
        try:
            if listing == "/dev/fd":
                raw = fcntl.fcntl(descriptor, getattr(fcntl, "F_GETPATH"), bytes(1024))  # noqa: B009 - macOS only
                yield descriptor, os.fsdecode(raw.rstrip(b"\0"))
            else:
                yield descriptor, os.readlink(f"{listing}/{name}")
        except OSError:
            continue


def after_fork_in_child() -> None:
    """Cut a forked child off from its parent's stores; registered with `os.register_at_fork`.

    Every descriptor under a store folder becomes `/dev/null` (its number stays taken, so the engine cannot
    write into a file that gets the number later). Otherwise the child would hold the `flock` on after its
    parent's death, and the next process could not open (consistency.md §4).
    """
    global _forks
    _forks += 1
    for registry in list(_registries):
        registry._abandon()
    folders = tuple(folder + os.sep for folder in _folders)
    _folders.clear()
    if not folders:
        return
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for descriptor, path in list(_descriptor_paths()):
        if path.startswith(folders):
            os.dup2(null, descriptor, inheritable=False)
    os.close(null)


os.register_at_fork(after_in_child=after_fork_in_child)
