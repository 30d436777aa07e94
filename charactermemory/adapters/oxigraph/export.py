"""The export: a collection's graph as sorted N-Quads, whatever its size, in bounded memory."""

from __future__ import annotations

import heapq
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import islice

RUN_LINES = 200_000
"""Lines sorted in memory at a time, about 40 MB; the sorted runs wait in unnamed files and are merged."""


def sorted_lines(lines: Iterable[bytes], run_lines: int = RUN_LINES) -> Iterator[bytes]:
    """Yield `lines`, each ending in a line feed, in the order of their bytes, repeats left out."""
    source = iter(lines)
    with ExitStack() as files:
        runs: list[Iterable[bytes]] = []
        while run := sorted(islice(source, run_lines)):
            if not runs and len(run) < run_lines:
                runs.append(run)
                break
            file = files.enter_context(tempfile.TemporaryFile())
            file.writelines(run)
            file.seek(0)
            runs.append(file)
        last = None
        for line in heapq.merge(*runs):
            if line != last:
                yield line
            last = line
