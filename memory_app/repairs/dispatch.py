"""Who runs the repairs: a thread of this process, Celery, the caller, or somebody's cron (`DISPATCH`).

A nudge is a hint that there is something to do. It may be lost: the rows stay, and the next round finds them.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from math import inf
from typing import Protocol

from django.db import close_old_connections

from memory_app.conf import app_settings

logger = logging.getLogger(__name__)

ROUND_SECONDS = 30.0
"""The thread looks for work this often without a nudge, as the beat does for Celery."""
PRUNE_SECONDS = 24 * 3600.0
"""The thread deletes what is kept no longer this often, as the beat does for Celery."""
RUN_SECONDS = 200.0
"""How long one run repairs before it makes room for a sweep; below Celery's soft time limit."""
NUDGE_SECONDS = 2.0
"""How long a process that ends waits for a message on its way to the broker."""


class Dispatcher(Protocol):
    """Gets repairs run."""

    def start(self) -> None:
        """A memory was opened in this process: begin to look after it, where that is this process's work."""
        ...

    def nudge(self) -> None:
        """Something waits to be repaired. Never raises."""
        ...

    def stop(self) -> None:
        """The process ends, or its memories are closed."""
        ...


class NoDispatcher:
    """Leaves the repairs to `manage.py memory_repair`."""

    def start(self) -> None:
        """Nothing to do."""

    def nudge(self) -> None:
        """Nothing to do."""

    def stop(self) -> None:
        """Nothing to do."""


class InlineDispatcher(NoDispatcher):
    """Repairs at once in the calling thread; for scripts and tests."""

    def nudge(self) -> None:
        """See `Dispatcher`."""
        try:
            _run()
        except Exception:
            logger.exception("a repair run failed")


class CeleryDispatcher(NoDispatcher):
    """Asks a Celery worker; the beat's sweep finds what a lost message was about.

    A thread sends the message and ends: a broker that refuses costs its client seconds, one that hangs does so
    without end, and no write may wait for either.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._again = False

    def nudge(self) -> None:
        """See `Dispatcher`; nudges that come while a message is on its way share the next one."""
        with self._lock:
            self._again = True
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._tell, name="memory-nudge", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """See `Dispatcher`; gives a message on its way a little time, for a short-lived process."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(timeout=NUDGE_SECONDS)

    def _tell(self) -> None:
        from memory_app.tasks import run

        while True:
            with self._lock:
                if not self._again:
                    self._thread = None
                    return
                self._again = False
            try:
                run.apply_async(retry=False)
            except Exception as error:
                logger.warning(
                    "the repair worker was not told, the next sweep tells it: %s", type(error).__name__
                )


class ThreadDispatcher:
    """One daemon thread of this process, for embedded stores, which no other process can open.

    It sweeps the memories that this process has open, and prunes once a day. It starts with the first of them,
    never in a forked child's inherited state, and ends with the process.
    """

    def __init__(self, round_seconds: float = ROUND_SECONDS) -> None:
        self._round_seconds = round_seconds
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._pid = 0

    def start(self) -> None:
        """See `Dispatcher`."""
        with self._lock:
            if self._thread is not None and self._thread.is_alive() and self._pid == os.getpid():
                return
            self._wake, self._stopping, self._pid = threading.Event(), threading.Event(), os.getpid()
            self._thread = threading.Thread(target=self._loop, name="memory-repair", daemon=True)
            self._thread.start()

    def nudge(self) -> None:
        """See `Dispatcher`."""
        self.start()
        self._wake.set()

    def stop(self) -> None:
        """See `Dispatcher`; waits for the row in hand."""
        with self._lock:
            thread, self._thread = self._thread, None
            self._stopping.set()
            self._wake.set()
        if thread is not None and thread is not threading.current_thread() and self._pid == os.getpid():
            thread.join(timeout=10)

    def _loop(self) -> None:
        wake, stopping, pruned = self._wake, self._stopping, -inf
        round_at = time.monotonic() + self._round_seconds
        while not stopping.is_set():
            wake.wait(max(0.0, round_at - time.monotonic()))
            wake.clear()
            if stopping.is_set():
                return
            # By the clock, for nudges may come more often than rounds.
            whole_round = time.monotonic() >= round_at
            if whole_round:
                round_at = time.monotonic() + self._round_seconds
            try:
                close_old_connections()
                try:
                    _run()
                    if whole_round:
                        _sweep_open()
                        if time.monotonic() - pruned >= PRUNE_SECONDS:
                            pruned = time.monotonic()
                            _prune()
                finally:
                    close_old_connections()
            except Exception:
                logger.exception("a repair round failed; the next one goes on")


def _run() -> None:
    from memory_app.operations.repair import run_due

    run_due(seconds=RUN_SECONDS)


def _sweep_open() -> None:
    from memory_app.operations.repair import sweep_open

    sweep_open()


def _prune() -> None:
    from memory_app.operations.repair import prune

    prune()


_lock = threading.Lock()
_chosen: tuple[str, Dispatcher] | None = None


def _after_fork_in_child() -> None:
    """Neither the parent's thread nor whoever held a lock of its is here."""
    global _lock, _chosen
    _lock, _chosen = threading.Lock(), None


os.register_at_fork(after_in_child=_after_fork_in_child)


def dispatcher() -> Dispatcher:
    """Return the dispatcher that `DISPATCH` names."""
    global _chosen
    name = _configured()
    with _lock:
        if _chosen is None or _chosen[0] != name:
            if _chosen is not None:
                _chosen[1].stop()
            _chosen = name, _make(name)
        return _chosen[1]


def stop() -> None:
    """Stop the dispatcher of this process, if one runs."""
    with _lock:
        chosen = _chosen
    if chosen is not None:
        chosen[1].stop()


atexit.register(stop)


def _configured() -> str:
    return app_settings().dispatch


def _make(name: str) -> Dispatcher:
    match name:
        case "thread":
            return ThreadDispatcher()
        case "celery":
            return CeleryDispatcher()
        case "inline":
            return InlineDispatcher()
        case "none":
            return NoDispatcher()
    raise ValueError(f"DISPATCH: expected thread, celery, inline or none, got {name!r}")
