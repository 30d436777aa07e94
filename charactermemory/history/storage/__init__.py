"""Where threads are kept."""

from charactermemory.history.storage.base import BaseStorage, Writing
from charactermemory.history.storage.memory import MemoryStorage
from charactermemory.history.storage.search import SearchQuery
from charactermemory.history.storage.sqlite import SQLiteStorage

__all__ = ["BaseStorage", "MemoryStorage", "SQLiteStorage", "SearchQuery", "Writing"]
