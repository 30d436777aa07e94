"""Sweeps: receipts beyond a derived store's place in the log become repairs done, or rows (consistency.md R5)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime

from charactermemory import CharacterMemory, CharacterMemoryError
from charactermemory.errors import RetrievalStatsStoreError
from charactermemory.upkeep.sweep import SweepReport
from memory_app.models import RepairMarker
from memory_app.repairs import breaker, lease, queue
from memory_app.repairs.clock import database_now
from memory_app.repairs.failures import of_markers
from memory_app.repairs.policy import Policy
from memory_app.repairs.worker import worker_id

logger = logging.getLogger(__name__)

LEASE_SECONDS = 600.0
"""How long a sweep may take before another may start beside it; beyond every task's time limit."""


@dataclass
class Sweeper:
    """Sweeps collections, one holder a collection at a time.

    Attributes:
        memories: opens a collection's memory.
        policy: the knobs of the queue.
        clock: the present instant; by default the database's.
        name: who sweeps.
    """

    memories: Callable[[str], CharacterMemory]
    policy: Policy = field(default_factory=Policy.configured)
    clock: Callable[[], datetime] = database_now
    name: str = field(default_factory=worker_id)

    def sweep_all(self, collections: Iterable[str]) -> dict[str, SweepReport | None]:
        """Sweep each collection; None for one that was not swept. One that fails holds up no other."""
        reports: dict[str, SweepReport | None] = {}
        for collection in collections:
            try:
                reports[collection] = self.sweep(collection)
            except CharacterMemoryError as error:
                logger.warning("collection %s could not be swept: %s", collection, error.code)
                reports[collection] = None
        return reports

    def sweep(self, collection: str) -> SweepReport | None:
        """Catch one collection up and record what still fails; None if another sweeps or its index is out.

        In an outage nothing is swept as long as a row waits that can be the canary: a sweep would ask the
        provider for everything at once.

        Raises:
            CharacterMemoryError: the memory could not be opened, read or its marks not be written.
        """
        now = self.clock()
        with lease.held(f"sweep:{collection}", self.name, now, LEASE_SECONDS) as mine:
            if not mine or self._out(now):
                return None
            memory = self.memories(collection)
            stores = memory.stores
            if stores.statistics.health(stores.graph.head()).state == "unhealthy":
                self._heal(memory)
            dead = queue.objects(collection, "vector", RepairMarker.Status.DEAD)
            waiting = queue.objects(collection, "vector", *RepairMarker.OPEN)
            report = memory.upkeep.sweep(parked=dead, waiting=waiting)
            self._record(collection, report)
            return report

    def _heal(self, memory: CharacterMemory) -> None:
        """Rebuild statistics that are not to be trusted; a file that stays in the way keeps nothing else back."""
        try:
            memory.upkeep.rebuild_statistics()
        except RetrievalStatsStoreError as error:
            logger.warning("statistics of collection %s could not be rebuilt: %s", memory.collection, error)

    def _out(self, now: datetime) -> bool:
        state = breaker.states(now, ("vector",))["vector"]
        if state == "half_open":
            return RepairMarker.objects.filter(store="vector", status__in=RepairMarker.OPEN).exists()
        return state == "open"

    def _record(self, collection: str, report: SweepReport) -> None:
        failures = list(of_markers(report.repair_needed))
        if not failures:
            return
        now = self.clock()
        queue.record(collection, failures, "sweep", now, self.policy)
        outages = [item for item in failures if item.store == "vector" and item.fault == "outage"]
        if outages:
            asked = self.policy.asked_for(*outages)
            count = breaker.trip if asked else breaker.outage
            count("vector", now, max(self.policy.cooldown_seconds, asked))
