"""Opening the statistics so that the memory always starts (recall.md §13.4); a rebuild goes back to their file."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Literal

from charactermemory.adapters.statistics.damage import is_damage, set_aside
from charactermemory.adapters.statistics.database import MEMORY, Database
from charactermemory.adapters.statistics.sqlite import SqliteStatistics
from charactermemory.errors import RetrievalStatsStoreError
from charactermemory.ports.statistics import Projection

logger = logging.getLogger(__name__)

STORE_INITIALIZATION = "store_initialization"
"""Health cause of a store that replaces one that could not be opened."""

_setting_aside = threading.Lock()
"""Held while a file is set aside: what keeps processes apart there does not keep threads apart."""


def open_statistics(
    mode: Literal["sqlite", "in_memory"], path: str | PathLike[str], collection: str
) -> SqliteStatistics:
    """Open a collection's statistics; `path` is used by mode `sqlite` only.

    A file that cannot be opened never stops the memory, for statistics only steer: an empty store in memory
    stands in, unhealthy until it is rebuilt, and the cause is logged. To rebuild it goes back to the file, and
    sets a damaged one aside.
    """
    if mode == "in_memory":
        return SqliteStatistics(MEMORY, collection)
    try:
        return SqliteStatistics(path, collection)
    except RetrievalStatsStoreError as error:
        logger.warning("statistics of collection %s are kept in memory: %s", collection, error)
        return _StandIn(Path(path), collection)


class _StandIn(SqliteStatistics):
    """Statistics in memory for a file that could not be opened, and in the file once `rebuild` can open it."""

    def __init__(self, path: Path, collection: str) -> None:
        super().__init__(MEMORY, collection)
        self._path = path
        self._returning = threading.Lock()
        self._left: Database | None = None
        self.mark_unhealthy(STORE_INITIALIZATION)

    def rebuild(self, projections: Iterable[Projection], applied: int) -> None:
        """Go back to the file, and replace everything; see the port.

        Raises:
            RetrievalStatsStoreError: also when the file still cannot be used; says what to do. This process then
                goes on with what was rebuilt in memory.
        """
        problem = self._go_back()
        super().rebuild(projections, applied)
        if problem is not None:
            raise RetrievalStatsStoreError(
                problem.kind,
                f"{problem.detail}. Rebuilt in memory, for this process alone: mend that, then rebuild again",
            ) from problem

    def close(self) -> None:
        """Release; a second call does nothing."""
        super().close()
        if self._left is not None:
            self._left.close()

    def _go_back(self) -> RetrievalStatsStoreError | None:
        """Let the file take over from the rows in memory, unhealthy until it is filled; return what is in the way.

        Whoever reads or writes the rows in memory at this moment is let finish: they stay until `close`. What is
        written to them last is in the graph already, from which the file is then filled.
        """
        self.cursor()  # refuses a forked child, and what was closed, before the file is touched
        with self._returning:
            if self._left is not None:
                return None
            try:
                store = _opened_again(self._path, self._collection)
            except RetrievalStatsStoreError as error:
                return error
            self._left, self._database = self._database, store._database
        return None


def _opened_again(path: Path, collection: str) -> SqliteStatistics:
    """Open the file, after it was set aside if it is damaged, and mark the collection's rows unhealthy."""
    with _setting_aside:
        try:
            store = SqliteStatistics(path, collection)
        except RetrievalStatsStoreError as error:
            if not is_damage(error):
                raise
            try:
                aside = set_aside(path)
            except OSError as failed:
                raise RetrievalStatsStoreError(
                    "filesystem", f"{path} is damaged and cannot be set aside ({failed}); move it away"
                ) from failed
            logger.warning("the damaged statistics file %s was set aside as %s", path, aside)
            store = SqliteStatistics(path, collection)
    try:
        store.mark_unhealthy(STORE_INITIALIZATION)
    except BaseException:
        store.close()
        raise
    return store
