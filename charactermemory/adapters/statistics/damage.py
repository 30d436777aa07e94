"""Setting a damaged statistics file aside, so that a new one can be filled from the graph.

A file is shared by collections, and by processes. What others of them have in it is copied with it, and each
finds in the new file that it reflects nothing yet, which its next sweep makes up for.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import sqlite3
from contextlib import suppress
from pathlib import Path

from charactermemory.adapters.statistics.database import APPLICATION_ID, SCHEMA_VERSION, is_open
from charactermemory.errors import RetrievalStatsStoreError

_SHARED_FIRST, _SHARED_SIZE = 0x40000002, 510
"""The bytes that every connection to a file in WAL mode holds a lock on (SQLite's os.h)."""
_HEADER = 100
"""Bytes of a SQLite file's header; the two numbers that are ours stand in it at 60 and 68 (fileformat2)."""


def is_damage(error: RetrievalStatsStoreError) -> bool:
    """Tell whether SQLite could not make sense of what is in the file."""
    code = getattr(error.__cause__, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def set_aside(path: Path) -> Path | None:
    """Copy a damaged file to `<name>.damaged`, or `.damaged-2` and so on, and empty it; return the copy's path.

    None if another process did so meanwhile.

    It is emptied where it is, instead of being renamed: a process that is just opening it waits for our lock and
    then finds a new file, never one that goes by another name while its log goes by the old one. Killed in
    between, it leaves the damaged file and a copy.

    Raises:
        RetrievalStatsStoreError: another has it open, or it does not say that it is ours and of this version;
            nothing was changed.
        OSError: it cannot be read or copied; it was left as it is.
    """
    # Looked at before the file is opened here: to close it would drop the locks that this process has on it.
    if is_open(path):
        raise RetrievalStatsStoreError(
            "sqlite", f"{path} is damaged, and other memories of this process use it; restart the process"
        )
    descriptor = os.open(path, os.O_RDWR)
    try:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, _SHARED_SIZE, _SHARED_FIRST)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            raise RetrievalStatsStoreError(
                "sqlite", f"{path} is damaged, and another process uses it; stop all that do"
            ) from error
        header = os.pread(descriptor, _HEADER, 0)
        if not header:
            return None
        if not _is_ours(header):
            raise RetrievalStatsStoreError(
                "sqlite",
                f"{path} cannot be read, and does not say that it holds statistics of this release, so it was left"
                " alone; move it away, or name another file in RETRIEVAL_STATS_PATH",
            )
        aside = _copy(descriptor, path)
        for suffix in ("-wal", "-shm"):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
        os.ftruncate(descriptor, 0)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return aside


def _is_ours(header: bytes) -> bool:
    """Tell by the header; of nothing but zeros is what a power cut can leave of one."""
    version, application = header[60:64], header[68:72]
    ours = APPLICATION_ID.to_bytes(4, "big"), SCHEMA_VERSION.to_bytes(4, "big")
    return (application, version) == ours or not any(header)


def _copy(descriptor: int, path: Path) -> Path:
    """Copy an open file, and the log beside it, under a name that is free; whole or not at all.

    It is read by its descriptor: opened by its name, and closed again, our lock on it would be gone.
    """
    number = 1
    while (aside := Path(f"{path}.damaged{f'-{number}' if number > 1 else ''}")).exists():
        number += 1
    beside = Path(f"{aside}-wal")
    try:
        with os.fdopen(descriptor, "rb", closefd=False) as source, aside.open("xb") as target:
            shutil.copyfileobj(source, target)
            target.flush()
            os.fsync(target.fileno())
        with suppress(FileNotFoundError):
            shutil.copyfile(f"{path}-wal", beside)
    except BaseException:
        aside.unlink(missing_ok=True)
        beside.unlink(missing_ok=True)
        raise
    return aside
