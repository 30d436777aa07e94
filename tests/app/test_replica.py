"""A host whose routers read from a replica: what processes agree by is read where it is written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_app.errors import CollectionArchived
from memory_app.models import ApiKey, ExternalKey, IdempotencyRecord, MemoryCollection, RepairMarker
from memory_app.repairs import breaker, lease, queue
from memory_app.runtime import close_memories, get_memory
from tests.repairs.world import OUTAGE, POLICY, START, failure
from tests.support.plans import episode_ref


class LaggingReplica:
    """Writes go to PostgreSQL, reads to a database that has the tables and none of the rows yet."""

    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        return "default" if model._meta.app_label == "memory_app" else None

    def db_for_write(self, model: Any, **hints: Any) -> str | None:
        return "postgres" if model._meta.app_label == "memory_app" else None


@pytest.fixture(autouse=True)
def replicated(transactional_db: None, postgres: str, settings: Any, tmp_path: Path) -> Iterator[None]:
    settings.DATABASE_ROUTERS = ["tests.app.test_replica.LaggingReplica"]
    settings.CHARACTER_MEMORY = {
        "GRAPH_STORE_MODE": "in_memory",
        "VECTOR_STORE_PATH": str(tmp_path),
        "EMBEDDING_PROVIDER": "hashing",
        "DISPATCH": "none",
    }
    yield
    close_memories()


def test_what_is_claimed_is_repaired() -> None:
    queue.record("ada", [failure(episode_ref(1), OUTAGE)], "commit", START, POLICY)
    claim = queue.claim("w", START, 10, POLICY)
    assert [queue.ref_of(row) for row in claim.markers] == [episode_ref(1)]
    assert queue.succeeded(claim, claim.markers, START) == 1
    assert RepairMarker.objects.get().status == "succeeded"


def test_a_breaker_that_opened_is_open_and_a_lease_that_is_held_is_held() -> None:
    breaker.trip("vector", START, 60)
    assert breaker.states(START)["vector"] == "open"
    with lease.held("sweep:ada", "a", START, 60) as first, lease.held("sweep:ada", "b", START, 60) as second:
        assert (first, second) == (True, False)


def test_a_collection_is_archived_at_once() -> None:
    get_memory("shed").remember("The heater ticks.")
    MemoryCollection.objects.update(archived=True)
    with pytest.raises(CollectionArchived):
        get_memory("shed")


def test_keys_are_looked_up_where_they_were_made() -> None:
    for model in (ApiKey, ExternalKey, IdempotencyRecord):
        assert model.objects.all().db == "postgres", model
        assert model.objects.using("default").all().db == "default", "a host may still ask the other"
