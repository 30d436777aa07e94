"""The retrieval statistics in the host's database."""

from memory_app.statistics.store import OrmStatistics

__all__ = ["OrmStatistics"]
