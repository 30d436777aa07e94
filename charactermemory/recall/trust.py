"""Whether the statistics may be relied on in one retrieve (recall.md §12.4, §13.5)."""

from __future__ import annotations

from charactermemory.errors import RetrievalStatsStoreError
from charactermemory.ports.statistics import StatisticsStore


class Trust:
    """Asks for the statistics' health once, at the first need, and marks them unhealthy when a read fails."""

    def __init__(self, statistics: StatisticsStore) -> None:
        """Take the store; nothing is read yet."""
        self.statistics = statistics
        self._healthy: bool | None = None

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
