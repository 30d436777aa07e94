"""Reading a shard's files into the system's page cache, so that no search waits for the disk.

Left to itself the engine maps whole files when it loads a shard, holes too: 96 MiB for the smallest memory. Told
to keep out of the cache it reads page by page, 9 ms a search. So it is told that, and what they hold is read here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

LARGE = 4 << 20
"""Bytes of a file that is worth reading; the engine makes those it searches 32 MiB large, and reads the others."""

_AT_ONCE = 1 << 20
_CAN_SKIP_HOLES = hasattr(os, "SEEK_DATA")


def read_through(folder: Path) -> None:
    """Read what the large files under `folder` hold, which the system then keeps as long as it has room.

    What cannot be read is passed over: the engine will say so when it needs it.
    """
    buffer = memoryview(bytearray(_AT_ONCE))
    for inside, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                _read(os.path.join(inside, name), buffer)


def _read(path: str, buffer: memoryview) -> None:
    if os.stat(path).st_size < LARGE:
        return
    with open(path, "rb", buffering=0) as file:
        for start, end in _extents(file.fileno()):
            file.seek(start)
            while start < end and (count := file.readinto(buffer[: end - start])):
                start += count


def _extents(file: int) -> Iterator[tuple[int, int]]:
    """Yield where a file holds data, as start and end; all of it where the system does not tell."""
    size = os.fstat(file).st_size
    if not _CAN_SKIP_HOLES:
        yield 0, size
        return
    end = 0
    while end < size:
        try:
            start = os.lseek(file, end, os.SEEK_DATA)
        except OSError:
            return  # nothing but a hole up to the end
        end = os.lseek(file, start, os.SEEK_HOLE)
        yield start, end
