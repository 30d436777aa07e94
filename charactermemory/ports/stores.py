"""The bundle of ports of one collection, handed to every use case."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from charactermemory.clock import Clock
from charactermemory.ids import MemoryObjectRef
from charactermemory.ports.embedding import EmbeddingProvider
from charactermemory.ports.graph import GraphStore
from charactermemory.ports.ledger import Ledger
from charactermemory.ports.statistics import StatisticsStore
from charactermemory.ports.vectors import VectorIndex

Postpone = Callable[[Sequence[MemoryObjectRef]], bool]
"""Asked before the statistics of some objects are written; True when it has taken them over for later."""


def _never(refs: Sequence[MemoryObjectRef]) -> bool:
    return False


@dataclass(frozen=True)
class Stores:
    """The stores of one collection. One bundle per process and collection, shared by all its facades.

    Attributes:
        graph: the authority.
        vectors: candidate recall, derived.
        statistics: counters and states, derived.
        embedder: makes the vectors; every failure is an `EmbeddingError`.
        clock: the present instant.
        shared: whether other processes write the same stores (service mode); decides when a derived
            store's place in the commit log may move (consistency.md R5).
        postpone_statistics: lets a host put statistics off while it has a database transaction open
            (consistency.md §8); what is put off and then forgotten is found by a sweep.
        deriving: held around {read lifecycle, sync the graph's log, write a derived store}.
        vector_ledger: which commits this process still owes the vector index.
        statistics_ledger: the same for the statistics.
    """

    graph: GraphStore
    vectors: VectorIndex
    statistics: StatisticsStore
    embedder: EmbeddingProvider
    clock: Clock
    vector_ledger: Ledger
    statistics_ledger: Ledger
    shared: bool = False
    postpone_statistics: Postpone = _never
    deriving: threading.RLock = field(default_factory=threading.RLock)

    def owe(self, token: int, refs: Iterable[MemoryObjectRef]) -> None:
        """Record what commit `token` owes both derived stores; called while the writer lock is held.

        Under the lock, since a later commit that is registered and derived first would otherwise let the
        marks pass this one.
        """
        touched = tuple(refs)
        self.vector_ledger.owe(token, touched)
        self.statistics_ledger.owe(token, touched)
