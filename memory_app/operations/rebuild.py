"""Filling a derived store anew from the graph, while the old one serves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from charactermemory.domain.repair import Cause
from charactermemory.ids import MemoryObjectRef, ObjectType
from memory_app import runtime
from memory_app.operations import opening
from memory_app.operations.opening import Refused
from memory_app.repairs import desk, lease, queue
from memory_app.repairs.clock import database_now
from memory_app.repairs.failures import Failure
from memory_app.repairs.policy import Policy
from memory_app.repairs.worker import worker_id

LEASE_SECONDS = 6 * 3600.0
"""How long a rebuild keeps others from starting one beside it, if it is killed."""


@dataclass(frozen=True)
class Rebuilt:
    """A rebuild of one collection's index."""

    collection: str
    objects: int
    kept: int = 0
    failed: tuple[MemoryObjectRef, ...] = ()

    def summary(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "collection": self.collection,
            "objects": self.objects,
            "kept": self.kept,
            "failed": len(self.failed),
            "first": [str(ref) for ref in self.failed[:20]],
        }


def rebuild_vectors(
    collection: str, progress: Callable[[int], None] = lambda done: None, anew: bool = False
) -> Rebuilt:
    """Fill a new index generation and switch to it; what could not be embedded goes into the queue.

    An interrupted rebuild is gone on with, unless `anew`.

    Raises:
        Refused: no such collection, or it is being rebuilt already.
        CharacterMemoryError: a store failed; the old index serves on.
    """
    opening.require(collection)
    started = database_now()
    with lease.held(f"rebuild-vectors:{collection}", worker_id(), started, LEASE_SECONDS) as mine:
        if not mine:
            raise Refused(f"collection {collection} is being rebuilt already")
        with runtime.open_for_rebuild(collection) as memory:
            report = memory.upkeep.rebuild_vectors(progress, anew=anew)
    now = database_now()
    desk.settled_by_rebuild(collection, "vector", started, report.failed, now)
    cause = Cause(cause="embedding", detail="not indexed by the rebuild")
    failures = [Failure("vector", ref, cause, alone=False) for ref in report.failed]
    queue.record(collection, failures, "rebuild", now, Policy.configured())
    return Rebuilt(collection, report.objects, report.kept, report.failed)


def rebuild_statistics(collection: str) -> int:
    """Fill the statistics anew and make them healthy; return the commit they reflect.

    Raises:
        Refused, CharacterMemoryError: as above; the old rows serve on.
    """
    started = database_now()
    opening.require(collection)
    with lease.held(f"rebuild-statistics:{collection}", worker_id(), started, LEASE_SECONDS) as mine:
        if not mine:
            raise Refused(f"the statistics of {collection} are being rebuilt already")
        with opening.existing(collection) as memory:
            applied = memory.upkeep.rebuild_statistics()
    desk.settled_by_rebuild(collection, "statistics", started, (), database_now())
    return applied


def count_objects(collection: str) -> dict[str, int]:
    """Return what a rebuild would read, by object type; nothing is written."""
    counts = dict.fromkeys((kind.value for kind in ObjectType), 0)
    after: str | None = None
    with opening.existing(collection) as memory:
        while True:
            refs, after = memory.stores.graph.scan(after, 1000)
            for ref in refs:
                counts[ref.object_type.value] += 1
            if after is None:
                return counts
