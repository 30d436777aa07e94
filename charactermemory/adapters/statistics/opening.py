"""Opening the statistics so that the memory always starts (recall.md §13.4)."""

from __future__ import annotations

import logging
from os import PathLike
from typing import Literal

from charactermemory.adapters.statistics.sqlite import MEMORY, SqliteStatistics
from charactermemory.errors import RetrievalStatsStoreError

logger = logging.getLogger(__name__)

STORE_INITIALIZATION = "store_initialization"
"""Health cause of a store that replaces one that could not be opened."""


def open_statistics(
    mode: Literal["sqlite", "in_memory"], path: str | PathLike[str], collection: str
) -> SqliteStatistics:
    """Open a collection's statistics; `path` is used by mode `sqlite` only.

    A file that cannot be opened never stops the memory, for statistics only steer: an empty store in memory
    stands in, unhealthy until it is rebuilt, and the cause is logged.
    """
    if mode == "in_memory":
        return SqliteStatistics(MEMORY, collection)
    try:
        return SqliteStatistics(path, collection)
    except RetrievalStatsStoreError as error:
        logger.warning("statistics of collection %s are kept in memory: %s", collection, error)
        store = SqliteStatistics(MEMORY, collection)
        store.mark_unhealthy(STORE_INITIALIZATION)
        return store
