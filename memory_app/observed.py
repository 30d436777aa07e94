"""The memory as the app opens it: every write's outcome leaves its repairs in the queue and tells the host.

One place observes them all, so that no way of writing forgets to. What is recorded here is only sooner than the
sweep would find it: the receipts beyond the stores' own marks are the truth (consistency.md R5).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

from django.utils.asyncio import async_unsafe

from charactermemory import (
    CharacterMemory,
    CommitOptions,
    CorrectMemoryDraft,
    ForgetMemoryDraft,
    LifecycleMutationOutcome,
    LinkOutcome,
    MemoryLinkDraft,
    MemoryObjectRef,
    RememberOutcome,
    RememberWritePlan,
    RetrievalContext,
    RetrievalOutcome,
)
from charactermemory.domain.repair import RepairMarker as Marker
from memory_app import retrievals, signals
from memory_app.afterwards import outside_transactions
from memory_app.models import RepairMarker
from memory_app.repairs import queue
from memory_app.repairs.clock import database_now
from memory_app.repairs.dispatch import dispatcher
from memory_app.repairs.failures import of_markers
from memory_app.repairs.policy import Policy
from memory_app.transactions import reconnect_where_lost

logger = logging.getLogger(__name__)


@async_unsafe(
    "A memory waits for its stores: in async code `await sync_to_async(memory.retrieve)(...)`, and so on."
)
def _begin() -> None:
    """See to the thread's connections before an operation; refuse, before anything is done, to hold up a loop."""
    reconnect_where_lost()


class ObservedMemory(CharacterMemory):
    """A `CharacterMemory` whose outcomes are observed; used in no other way.

    Its operations raise Django's `SynchronousOnlyOperation` where a loop runs.
    """

    def commit(
        self,
        plan: RememberWritePlan,
        options: CommitOptions = CommitOptions(),  # noqa: B008 - frozen
    ) -> RememberOutcome:
        """See `CharacterMemory.commit`."""
        _begin()
        outcome = super().commit(plan, options)
        observe(
            self.collection,
            "commit",
            (*outcome.persisted_object_ids, *outcome.persisted_link_ids),
            outcome.repair_needed,
            outcome.complete,
        )
        return outcome

    def link(self, draft: MemoryLinkDraft) -> LinkOutcome:
        """See `CharacterMemory.link`."""
        _begin()
        outcome = super().link(draft)
        observe(self.collection, "link", (outcome.link.ref,), outcome.repair_needed, outcome.complete)
        return outcome

    def correct(self, draft: CorrectMemoryDraft) -> LifecycleMutationOutcome:
        """See `CharacterMemory.correct`."""
        _begin()
        return self._observed("correct", super().correct(draft))

    def forget(self, draft: ForgetMemoryDraft) -> LifecycleMutationOutcome:
        """See `CharacterMemory.forget`."""
        _begin()
        return self._observed("forget", super().forget(draft))

    def retrieve(self, context: RetrievalContext | str) -> RetrievalOutcome:
        """See `CharacterMemory.retrieve`."""
        _begin()
        started = time.perf_counter()
        outcome = super().retrieve(context)
        duration_ms = (time.perf_counter() - started) * 1000
        retrievals.record(self.collection, outcome, duration_ms)
        signals.send(
            signals.retrieval_performed,
            collection=self.collection,
            objects=tuple(admission.object for admission in outcome.pack.admissions),
            duration_ms=duration_ms,
            degraded=retrievals.degraded_roads(outcome),
        )
        return outcome

    def _observed(self, operation: str, outcome: LifecycleMutationOutcome) -> LifecycleMutationOutcome:
        changed = (*outcome.graph_mutated_object_ids, *outcome.graph_mutated_link_ids)
        observe(self.collection, operation, changed, outcome.repair_needed, outcome.complete)
        return outcome


def observe(
    collection: str,
    operation: str,
    changed: tuple[MemoryObjectRef, ...],
    markers: Iterable[Marker],
    complete: bool,
) -> None:
    """Take note of one write: its repairs go into the queue, its receivers are told. Never raises."""
    failed = tuple(markers)
    if failed:
        outside_transactions(RepairMarker, lambda: _record(collection, operation, failed))
    lifecycle = operation in ("correct", "forget")
    signals.send(
        signals.memory_lifecycle_changed if lifecycle else signals.memory_committed,
        collection=collection,
        operation=operation,
        objects=changed,
        complete=complete,
    )


def _record(collection: str, operation: str, markers: tuple[Marker, ...]) -> None:
    try:
        queue.record(collection, of_markers(markers), operation, database_now(), Policy.configured())
    except Exception:
        logger.exception("repairs of collection %s were not queued; the next sweep finds them", collection)
        return
    dispatcher().nudge()
