"""Derived state and bookkeeping of the memory in the host's database. No memory text, no vectors."""

from memory_app.models.apikeys import ApiKey
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
