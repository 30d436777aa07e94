"""The retrieval statistics in the host's database (DESIGN R11, consistency.md §8)."""

from memory_app.statistics.store import OrmStatistics

__all__ = ["OrmStatistics"]
