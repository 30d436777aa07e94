"""Derived state and bookkeeping of the memory in the host's database, and the chat window's threads.

No memory text and no vectors; what was said stands in `ChatMessage` alone.
"""

from memory_app.models.apikeys import ApiKey
from memory_app.models.chat import ChatMessage, ChatThread
from memory_app.models.collections import MemoryCollection, WriterLease
from memory_app.models.keys import ExternalKey, IdempotencyRecord
from memory_app.models.repairs import RepairLease, RepairMarker
from memory_app.models.retrievals import RetrievalEvent
from memory_app.models.statistics import (
    EntityEdge,
    EntityRelationCount,
    GlobalRelationCount,
    MemoryState,
    StatisticsHealth,
)

__all__ = [
    "ApiKey",
    "ChatMessage",
    "ChatThread",
    "EntityEdge",
    "EntityRelationCount",
    "ExternalKey",
    "GlobalRelationCount",
    "IdempotencyRecord",
    "MemoryCollection",
    "MemoryState",
    "RepairLease",
    "RepairMarker",
    "RetrievalEvent",
    "StatisticsHealth",
    "WriterLease",
]
