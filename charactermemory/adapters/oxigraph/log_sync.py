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
"""Length of log at which a flush starts in the background; bounds memory, and the time to reopen to about 1 s
per 50 MB (consistency.md §1)."""

LOG_BYTES_PER_TRIPLE = 530
"""Log written per triple, beside the text once: measured alike on commits of short and of long texts (six index
entries a triple). The files' lengths do not tell, for the engine recycles them: after two flushes they are
overwritten in place."""

_logger = logging.getLogger(__name__)


class LogSync:
    """Syncs the logs of one open engine; concurrent callers share one sync.

    Call `wrote` after every update. Until a log has been seen to change with an update, `flush` is called
    instead of a sync: where the log cannot be found, or lies elsewhere, nothing else makes a commit durable.
    """

    def __init__(
        self, folder: Path, flush: Callable[[], None], *, log_limit_bytes: int = LOG_LIMIT_BYTES
    ) -> None:
        self._folder = folder
        self._flush = flush
        self._limit = log_limit_bytes
        self._at_open = self._logs()
        self._proven = False
        self._warned = False
        self._files: dict[str, int] = {}
        self._known: set[str] = set()
        self._newest = 0
        self._turn = threading.Condition()
        self._running = False
        self._next = 1
        self._done = 0
        self._failure: OSError | None = None
        self._unflushed = 0
        self._flusher: threading.Thread | None = None

    def wrote(self, update: str) -> None:
        """Count what an update wrote, by its text; a flush starts when enough has come together."""
        triples = update.count("> ") // 2  # subject and predicate
        with self._turn:
            self._unflushed += len(update) + triples * LOG_BYTES_PER_TRIPLE
            if self._unflushed <= self._limit or (self._flusher is not None and self._flusher.is_alive()):
                return
            self._unflushed = 0
            self._flusher = threading.Thread(
                target=self._flush_in_background, name="graph-flush", daemon=True
            )
            self._flusher.start()

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

    def _logs(self) -> dict[str, tuple[int, int]]:
        """Return length and time of change of each log, by name."""
        found = {}
        with os.scandir(self._folder) as entries:
            for entry in entries:
                stem, dot, ending = entry.name.partition(".")
                if dot and ending == "log" and stem.isdigit():
                    try:
                        state = entry.stat()
                    except FileNotFoundError:
                        continue  # removed by the engine: what it held is in its tables, and those are synced
                    found[entry.name] = (state.st_size, state.st_mtime_ns)
        return found

    def _sync_now(self) -> None:
        logs = self._logs()
        self._proven = self._proven or logs != self._at_open
        if not self._proven:
            self._fall_back()
            return
        for name in self._files.keys() - logs.keys():
            os.close(self._files.pop(name))
        for name in logs:
            # Logs are written in the order of their numbers. The one that was newest last time may have been
            # written to since; whether it was, neither its length (recycled) nor its time (coarse) can tell.
            if _number(name) >= self._newest:
                self._sync_file(name)
        if logs.keys() - self._known:
            sync_folder(self._folder)
        self._known = set(logs)
        self._newest = max(map(_number, logs), default=0)

    def _sync_file(self, name: str) -> None:
        descriptor = self._files.get(name)
        if descriptor is None:
            try:
                descriptor = os.open(self._folder / name, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return
            self._files[name] = descriptor
        os.fdatasync(descriptor)

    def _fall_back(self) -> None:
        self._flush()
        if not self._warned:
            self._warned = True
            _logger.warning(
                "no log under %s changed with the last update: each commit flushes the graph store (slower)",
                self._folder,
            )

    def _flush_in_background(self) -> None:
        try:
            self._flush()
        except OSError as error:
            _logger.warning("flushing the graph store under %s failed: %s", self._folder, error)


def _number(name: str) -> int:
    return int(name.partition(".")[0])
