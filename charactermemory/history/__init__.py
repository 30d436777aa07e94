"""The chat window: every message stored once, and an algorithm that chooses what the model is sent."""

from charactermemory.errors import (
    AlgorithmError,
    ConfigurationError,
    HistoryError,
    MessageIdTaken,
    StorageError,
    ThreadNotFoundError,
    ValidationError,
)
from charactermemory.history.algorithms import (
    FIFO,
    BaseAlgorithm,
    Composite,
    Importance,
    KeepSystem,
    NotRecalled,
    Summarizing,
    TimeWindow,
    TokenBudget,
)
from charactermemory.history.asynchronous import AsyncHistoryManager
from charactermemory.history.manager import HistoryManager
from charactermemory.history.models import ROLES, Message, MessageRole, Thread
from charactermemory.history.recalled import Recalled, recalled
from charactermemory.history.sequence import Selection, ThreadMessages
from charactermemory.history.signals import processing_failed, saving_failed
from charactermemory.history.storage import BaseStorage, MemoryStorage, SearchQuery, SQLiteStorage, Writing
from charactermemory.history.tokens import TokenCounter, approximate_tokens

__all__ = [
    "FIFO",
    "ROLES",
    "AlgorithmError",
    "AsyncHistoryManager",
    "BaseAlgorithm",
    "BaseStorage",
    "Composite",
    "ConfigurationError",
    "HistoryError",
    "HistoryManager",
    "Importance",
    "KeepSystem",
    "MemoryStorage",
    "Message",
    "MessageIdTaken",
    "MessageRole",
    "SQLiteStorage",
    "SearchQuery",
    "NotRecalled",
    "Recalled",
    "Selection",
    "StorageError",
    "Summarizing",
    "Thread",
    "ThreadMessages",
    "ThreadNotFoundError",
    "TimeWindow",
    "TokenBudget",
    "TokenCounter",
    "ValidationError",
    "Writing",
    "approximate_tokens",
    "processing_failed",
    "recalled",
    "saving_failed",
]
