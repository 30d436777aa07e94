"""Whether the statistics may be relied on in one retrieve (recall.md §12.4, §13.5)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from charactermemory.errors import RetrievalStatsStoreError
from charactermemory.ids import MemoryObjectRef
from charactermemory.ports.statistics import Counts, Health, Pair, StatisticsStore

NOTHING = Counts(Health("unhealthy"))
"""What is known where nothing may be relied on."""


class Trust:
    """Asks for the statistics' health once, at the first need, and marks them unhealthy when a read fails."""

    def __init__(self, statistics: StatisticsStore) -> None:
        """Take the store; nothing is read yet."""
        self.statistics = statistics
        self._healthy: bool | None = None

    def counts(self, hubs: Collection[MemoryObjectRef], pairs: Sequence[Pair]) -> Counts:
        """Return how common hubs are, with the statistics' health; nothing if they cannot be relied on."""
        try:
            found = self.statistics.counts(hubs, pairs)
        except RetrievalStatsStoreError as error:
            self._healthy = False
            self.lost("health_check", error)
            return NOTHING
        self._healthy = found.health.state != "unhealthy"
        if self._healthy and found.error:
            self.lost("counter_read", found.error)
        return found if self._healthy else NOTHING

    def __bool__(self) -> bool:
        if self._healthy is None:
            try:
                # Recall takes no notice of lag, so it need not ask the graph for its head.
                self._healthy = self.statistics.health(0).state != "unhealthy"
            except RetrievalStatsStoreError as error:
                self._healthy = False
                self.lost("health_check", error)
        return self._healthy

    def lost(self, step: str, error: RetrievalStatsStoreError) -> None:
        """Mark the statistics unhealthy because `step` failed; that this may fail too changes nothing."""
        try:
            self.statistics.mark_unhealthy(f"{step}: {error.kind}")
        except RetrievalStatsStoreError:
            return
