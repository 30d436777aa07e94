"""A memory whose provider fails on command, its queue of repairs, and a clock that stands until it is moved."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from charactermemory.adapters.embedding import HashingEmbedding
from charactermemory.domain.repair import Cause
from charactermemory.errors import CharacterMemoryError, EmbeddingError, StoreUnavailable
from charactermemory.ids import MemoryObjectRef
from charactermemory.memory import CharacterMemory
from memory_app.models import RepairMarker
from memory_app.observed import ObservedMemory
from memory_app.repairs.failures import Failure, StoreName
from memory_app.repairs.policy import Policy
from memory_app.repairs.sweeping import Sweeper
from memory_app.repairs.worker import RunReport, Worker

COLLECTION = "ada"
START = datetime(2026, 1, 1, 12, tzinfo=UTC)
POLICY = Policy()

OUTAGE = EmbeddingError("transport", "refused", (("transport_kind", "connect"),))
RATE_LIMIT = EmbeddingError("http_status", details=(("status", 429), ("body", "")))
LATER = EmbeddingError("http_status", "", (("status", 429), ("body", "")), retry_after_seconds=120)
"""Answered with `Retry-After: 120`."""
TOO_LONG = EmbeddingError("http_status", details=(("status", 400), ("body", "")))
UNCLEAR = EmbeddingError("unrecognized", "who knows")


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now

    def forward(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


class Provider(HashingEmbedding):
    """Counts its calls; `error` fails every call, `poison` those that hold a text with one of its words."""

    def __init__(self) -> None:
        super().__init__(16)
        self.calls = 0
        self.error: Exception | None = None
        self.poison: dict[str, Exception] = {}

    def bulk_generate_embeddings(self, texts: Sequence[str]) -> list[list[float]]:
        self.calls += 1
        if self.error is not None:
            raise self.error
        for word, error in self.poison.items():
            if any(word in text for text in texts):
                raise error
        return super().bulk_generate_embeddings(texts)


class World:
    def __init__(
        self, mapping: Any, collection: str, provider: Provider, clock: Clock, **options: Any
    ) -> None:
        self.provider, self.clock = provider, clock
        self.unreachable: dict[str, CharacterMemoryError] = {}
        self.memory = ObservedMemory.open(
            mapping, collection, embedding_provider=provider, clock=clock, **options
        )

    def memories(self, collection: str) -> CharacterMemory:
        if collection in self.unreachable:
            raise self.unreachable[collection]
        if collection != self.memory.collection:
            raise StoreUnavailable(store="graph store", detail="gone")
        return self.memory

    def worker(self, **fields: Any) -> Worker:
        return Worker(self.memories, policy=POLICY, clock=self.clock, uniform=lambda: 1.0, **fields)

    def run(self, **options: Any) -> RunReport:
        return self.worker().run(**options)

    def sweeper(self) -> Sweeper:
        return Sweeper(self.memories, policy=POLICY, clock=self.clock)

    def differences(self) -> int:
        return self.memory.upkeep.verify().differences

    def statuses(self) -> dict[str, int]:
        counted = {status: RepairMarker.objects.filter(status=status).count() for status in STATUSES}
        return {status: count for status, count in counted.items() if count}


STATUSES = tuple(RepairMarker.Status.values)


def failure(
    ref: MemoryObjectRef, error: Exception = OUTAGE, store: StoreName = "vector", alone: bool = True
) -> Failure:
    kind = "embedding" if store == "vector" else "stats_write"
    return Failure(store, ref, Cause.of(kind, error), alone)


class Routed:
    """A database router that puts the app's rows into `alias`."""

    alias: ClassVar[str] = "default"

    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        return self.alias if model._meta.app_label == "memory_app" else None

    db_for_write = db_for_read
