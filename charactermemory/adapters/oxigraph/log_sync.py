"""Durability of the embedded graph: sync RocksDB's write-ahead log, not the whole engine (consistency.md §1).

`update()` hands its record to the kernel, so nothing is lost when the process dies; a power cut takes what
the log was not synced for. `Store.flush()` would do it too, at 11 ms on an empty store and 59 ms (p95 119) at
100,000 objects; syncing the log costs 0.4 ms at any size.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path

from charactermemory.adapters.folders import sync_folder

LOG_LIMIT_BYTES = 32 * 1024 * 1024
"""Size of the live logs at which a flush starts in the background; bounds memory, and the time to reopen to
about 1 s per 50 MB (consistency.md §1)."""

_logger = logging.getLogger(__name__)


class LogSync:
    """Syncs the logs of one open engine; concurrent callers share one sync.

    Until the log has been seen to grow with an update, `flush` is called instead: where the log cannot be
    found, or lies elsewhere, that is the only thing that makes a commit durable.
    """

    def __init__(
        self, folder: Path, flush: Callable[[], None], *, log_limit_bytes: int = LOG_LIMIT_BYTES
    ) -> None:
        self._folder = folder
        self._flush = flush
        self._limit = log_limit_bytes
        self._files: dict[str, int] = {}
        self._at_open = self._sizes()
        self._synced: dict[str, int] = {}
        self._proven = False
        self._warned = False
        self._turn = threading.Condition()
        self._running = False
        self._next = 1
        self._done = 0
        self._failure: OSError | None = None
        self._flush_at = log_limit_bytes
        self._flusher: threading.Thread | None = None

    def sync(self) -> None:
        """Make every update that returned before this call durable.

        A caller that finds a sync running waits for the next one, for the running one may have looked at the
        log before the caller's update.

        Raises:
            OSError: the sync failed; so will every later one. The pages may be lost, close the engine.
        """
        with self._turn:
            mine = self._next
            while self._running and self._done < mine:
                self._turn.wait()
            if self._failure is not None:
                raise OSError(f"an earlier sync of the log failed: {self._failure}") from self._failure
            if self._done >= mine:
                return
            self._running = True
            self._next = mine + 1
        try:
            self._sync_now()
        except OSError as error:
            self._finish(mine, error)
            raise
        except BaseException:
            self._finish(mine - 1, None)
            raise
        self._finish(mine, None)

    def _finish(self, done: int, failure: OSError | None) -> None:
        with self._turn:
            self._running = False
            self._done = done
            self._failure = failure
            self._turn.notify_all()

    def close(self) -> None:
        """Wait for a flush in the background and let go of the log files."""
        if self._flusher is not None:
            self._flusher.join()
        for descriptor in self._files.values():
            os.close(descriptor)
        self._files.clear()

    def _sizes(self) -> dict[str, int]:
        sizes = {}
        with os.scandir(self._folder) as entries:
            for entry in entries:
                if entry.name.endswith(".log"):
                    try:
                        sizes[entry.name] = entry.stat().st_size
                    except FileNotFoundError:
                        continue  # removed by the engine: what it held is in its tables, and those are synced
        return sizes

    def _sync_now(self) -> None:
        sizes = self._sizes()
        if not self._proven:
            self._proven = any(size > self._at_open.get(name, 0) for name, size in sizes.items())
        if not self._proven:
            self._fall_back()
            return
        appeared = False
        for name, size in sizes.items():
            if size <= self._synced.get(name, 0):
                continue
            appeared = appeared or name not in self._synced
            if self._sync_file(name):
                self._synced[name] = size
        if appeared:
            sync_folder(self._folder)
        for name in self._files.keys() - sizes.keys():
            os.close(self._files.pop(name))
            self._synced.pop(name, None)
        self._flush_if_long(sum(sizes.values()))

    def _sync_file(self, name: str) -> bool:
        descriptor = self._files.get(name)
        if descriptor is None:
            try:
                descriptor = os.open(self._folder / name, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return False
            self._files[name] = descriptor
        os.fdatasync(descriptor)
        return True

    def _fall_back(self) -> None:
        self._flush()
        if not self._warned:
            self._warned = True
            _logger.warning(
                "no log under %s grew with the last update: each commit flushes the graph store (slower)",
                self._folder,
            )

    def _flush_if_long(self, length: int) -> None:
        if length <= self._flush_at or (self._flusher is not None and self._flusher.is_alive()):
            return
        self._flusher = threading.Thread(target=self._flush_in_background, name="graph-flush", daemon=True)
        self._flusher.start()

    def _flush_in_background(self) -> None:
        try:
            self._flush()
            left = sum(self._sizes().values())
        except OSError as error:
            _logger.warning("flushing the graph store under %s failed: %s", self._folder, error)
            return
        self._flush_at = self._limit if left <= self._limit else left + self._limit
