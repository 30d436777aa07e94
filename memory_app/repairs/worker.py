"""The worker: claims due repairs, reconciles their objects with the graph, and settles them.

A store that has not yet answered in a run is tried with one row alone; once it has, rows go in chunks. So an
outage costs two calls before the breaker opens, and one canary every cooldown after that.
"""

from __future__ import annotations

import logging
import os
import random
import socket
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import uuid4

from django.db.models import QuerySet

from charactermemory import CharacterMemory, CharacterMemoryError
from charactermemory.upkeep.derive import DeriveReport
from memory_app.errors import CollectionArchived
from memory_app.models import RepairMarker
from memory_app.repairs import breaker, lease, queue
from memory_app.repairs.backoff import full_jitter
from memory_app.repairs.clock import database_now
from memory_app.repairs.failures import Failure, StoreName, of_items, of_statistics
from memory_app.repairs.policy import Policy

logger = logging.getLogger(__name__)

CHUNK = 50
"""Objects reconciled in one call; small enough that a lease is prolonged in time."""

_GRAPH_CAUSES = ("graph_query", "graph_read")


def worker_id() -> str:
    """Return a name for a worker that no other has, at most 64 characters."""
    return f"{socket.gethostname()[:32]}:{os.getpid()}:{uuid4().hex[:12]}"


@dataclass(frozen=True)
class RunReport:
    """What a run did: rows claimed, and what became of them."""

    claimed: int = 0
    succeeded: int = 0
    retried: int = 0
    dead: int = 0
    deferred: int = 0
    cancelled: int = 0


@dataclass
class Worker:
    """Repairs what is due.

    Attributes:
        memories: opens a collection's memory.
        policy: the knobs of the queue.
        clock: the present instant; by default the database's.
        uniform: a random number in 0.0..1.0 for the jitter.
        collection: only this collection's rows; None for all.
        name: who claims.
    """

    memories: Callable[[str], CharacterMemory]
    policy: Policy = field(default_factory=Policy.configured)
    clock: Callable[[], datetime] = database_now
    uniform: Callable[[], float] = random.random
    collection: str | None = None
    name: str = field(default_factory=worker_id)

    def run(self, *, limit: int | None = None, seconds: float | None = None) -> RunReport:
        """Repair due rows until there are none, `limit` were claimed or `seconds` have passed."""
        counts: Counter[str] = Counter()
        proved: set[str] = set()
        started = time.monotonic()
        while limit is None or counts["claimed"] < limit:
            if seconds is not None and time.monotonic() - started >= seconds:
                break
            room = self.policy.batch if limit is None else min(self.policy.batch, limit - counts["claimed"])
            claim, canary = self._claim(room)
            if not claim.markers:
                break
            counts["claimed"] += len(claim.markers)
            counts.update(_Claimed(self, claim, canary, proved).work())
        return RunReport(**counts)

    def _claim(self, room: int) -> tuple[queue.Claim, StoreName | None]:
        now = self.clock()
        states = breaker.states(now)
        for store, state in states.items():
            if state == "half_open" and self._due(store, now).exists():
                if breaker.take_canary(store, now, self.policy.cooldown_seconds):
                    claim = queue.claim(
                        self.name, now, 1, self.policy, stores=[store], collection=self.collection
                    )
                    if claim.markers:
                        return claim, store
        closed = [store for store, state in states.items() if state == "closed"]
        return (
            queue.claim(self.name, now, room, self.policy, stores=closed, collection=self.collection),
            None,
        )

    def _due(self, store: StoreName, now: datetime) -> QuerySet[RepairMarker]:
        rows = RepairMarker.objects.filter(queue.due(now), store=store)
        return rows if self.collection is None else rows.filter(collection=self.collection)


class _Claimed:
    """One claim on its way through the stores."""

    def __init__(
        self, worker: Worker, claim: queue.Claim, canary: StoreName | None, proved: set[str]
    ) -> None:
        self.worker, self.claim, self.canary, self.proved = worker, claim, canary, proved
        self.left = deque(claim.markers)
        self.counts: Counter[str] = Counter()
        self.suspects: dict[str, list[tuple[RepairMarker, Failure]]] = defaultdict(list)
        self.beat = time.monotonic()

    def work(self) -> Counter[str]:
        """Attempt every row of the claim, then settle what looked like an outage and was none."""
        while self.left:
            self._keep_lease()
            self._attempt(self._next())
        for store in list(self.suspects):
            self._were_their_own(store)
        return self.counts

    def _keep_lease(self) -> None:
        if time.monotonic() - self.beat > self.worker.policy.lease_seconds / 2:
            queue.extend(self.claim, self.worker.clock(), self.worker.policy)
            self.beat = time.monotonic()

    def _next(self) -> list[RepairMarker]:
        """Take the next rows of one collection: one alone of a store that has not answered yet."""
        first = self.left.popleft()
        if first.store not in self.proved:
            return [first]
        batch, rest = [first], deque[RepairMarker]()
        for row in self.left:
            fits = row.collection == first.collection and row.store in self.proved
            (batch if fits and len(batch) < CHUNK else rest).append(row)
        self.left = rest
        return batch

    def _attempt(self, batch: Sequence[RepairMarker]) -> None:
        collection = batch[0].collection
        try:
            memory = self.worker.memories(collection)
            failures = _failures(memory.upkeep.reconcile(*{queue.ref_of(row) for row in batch}))
        except CollectionArchived:
            rows = self._all_of(collection, batch)
            self.counts["cancelled"] += queue.given_up(self.claim, rows, self.worker.clock())
            return
        except CharacterMemoryError as error:
            logger.warning("repairs of collection %s are put off: %s", collection, error.code)
            self._put_off(batch, error.code)
            return
        unreadable = [failure for failure in failures.values() if failure.cause.cause in _GRAPH_CAUSES]
        if any(failure.fault == "outage" for failure in unreadable):
            self._put_off(batch, unreadable[0].code)
            return
        if unreadable and len(batch) > 1:  # one object that cannot be read fails the whole read
            for row in batch:
                self._attempt([row])
            return
        for store in dict.fromkeys(row.store for row in batch):
            rows = [row for row in batch if row.store == store]
            self._settle(memory, store, rows, failures)

    def _settle(
        self,
        memory: CharacterMemory,
        store: str,
        rows: Sequence[RepairMarker],
        failures: dict[tuple[str, object], Failure],
    ) -> None:
        bad = [(row, failures[key]) for row in rows if (key := (store, queue.ref_of(row))) in failures]
        if any(failure.cause.cause == "store_unhealthy" for _, failure in bad) and not self._healed(memory):
            self._hand_back([row for row, _ in bad], self.worker.clock())
            return
        bad = [(row, failure) for row, failure in bad if failure.cause.cause != "store_unhealthy"]
        failing = {row.pk for row, _ in bad}
        good = [row for row in rows if row.pk not in failing]
        if good:
            self._answered(store, good)
        for row, failure in bad:
            if failure.fault == "permanent" or (failure.fault == "unclear" and self._their_own(store)):
                self._fail(row, failure)
            else:
                self.suspects[store].append((row, failure))
        if self.suspects[store] and bad:
            self._suspect(store, [failure for _, failure in bad])

    def _their_own(self, store: str) -> bool:
        """Whether an unclear failure is the row's own: others succeeded, or it is a canary and all are late."""
        return store in self.proved or store == self.canary

    def _suspect(self, store: str, failures: Sequence[Failure]) -> None:
        """Open the breaker at the second outage in a row, or at two rows with unclear causes and no success.

        Where the provider says how long it wants to be left alone, it opens at once and for that long.
        """
        now, policy = self.worker.clock(), self.worker.policy
        asked = policy.asked_for(*failures)
        cooldown = max(policy.cooldown_seconds, asked)
        self.proved.discard(store)
        if asked:
            breaker.trip(_store(store), now, cooldown)
            opened = True
        elif any(failure.fault == "outage" for failure in failures):
            opened = breaker.outage(_store(store), now, cooldown)
        else:
            opened = len(self.suspects[store]) >= breaker.OUTAGES_TO_OPEN
            if opened:
                breaker.trip(_store(store), now, cooldown)
        if opened:
            suspects = [row for row, _ in self.suspects.pop(store)]
            unstarted = [row for row in self.left if row.store == store]
            self.left = deque(row for row in self.left if row.store != store)
            self._hand_back([*suspects, *unstarted], now, seconds=cooldown)
            logger.warning("the %s store is out; repairs wait %.0f s", store, cooldown)

    def _answered(self, store: str, rows: Sequence[RepairMarker]) -> None:
        self.proved.add(store)
        breaker.success(_store(store))
        self._were_their_own(store)
        self.counts["succeeded"] += queue.succeeded(self.claim, rows, self.worker.clock())

    def _were_their_own(self, store: str) -> None:
        """Settle suspects as failures of their own: the store answered others, or failed only once."""
        for row, failure in self.suspects.pop(store, ()):
            self._fail(row, failure)

    def _fail(self, row: RepairMarker, failure: Failure) -> None:
        now, policy = self.worker.clock(), self.worker.policy
        wait = full_jitter(
            row.attempts,
            self.worker.uniform(),
            base=policy.backoff_base_seconds,
            cap=policy.backoff_cap_seconds,
        )
        wait = max(wait, policy.asked_for(failure))
        status = queue.failed(self.claim, row, failure, now + timedelta(seconds=wait), now)
        self.counts["dead" if status == RepairMarker.Status.DEAD else "retried"] += 1

    def _put_off(self, batch: Sequence[RepairMarker], cause: str) -> None:
        """Hand back all rows of a collection whose graph or memory cannot be used now."""
        self._hand_back(self._all_of(batch[0].collection, batch), self.worker.clock(), cause)

    def _all_of(self, collection: str, batch: Sequence[RepairMarker]) -> list[RepairMarker]:
        """Return the rows in hand of a collection with those that are left of it, which are taken."""
        rows = [*batch, *(row for row in self.left if row.collection == collection)]
        self.left = deque(row for row in self.left if row.collection != collection)
        return rows

    def _hand_back(
        self, rows: Sequence[RepairMarker], now: datetime, cause: str = "", seconds: float | None = None
    ) -> None:
        until = now + timedelta(seconds=seconds or self.worker.policy.cooldown_seconds)
        self.counts["deferred"] += queue.hand_back(self.claim, rows, until, cause)

    def _healed(self, memory: CharacterMemory) -> bool:
        """Rebuild statistics that are not to be trusted; False if that failed or another worker is at it."""
        now = self.worker.clock()
        name = f"rebuild-statistics:{memory.collection}"
        with lease.held(name, self.worker.name, now, self.worker.policy.lease_seconds) as mine:
            if mine:
                try:
                    memory.upkeep.rebuild_statistics()
                except CharacterMemoryError as error:
                    logger.warning("statistics of %s could not be rebuilt: %s", memory.collection, error.code)
                    return False
            return mine


def _failures(report: DeriveReport) -> dict[tuple[str, object], Failure]:
    failures = list(of_items(report.failures))
    if report.statistics.status == "failed":
        failures += of_statistics(report.statistics.failed_object_ids, report.statistics.causes)
    return {(failure.store, failure.ref): failure for failure in failures}


def _store(name: str) -> StoreName:
    return "vector" if name == RepairMarker.Store.VECTOR else "statistics"
