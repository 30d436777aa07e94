"""Statistics in SQLite, in a file or in memory."""

from charactermemory.adapters.statistics.opening import open_statistics
from charactermemory.adapters.statistics.sqlite import SqliteStatistics

__all__ = ["SqliteStatistics", "open_statistics"]
