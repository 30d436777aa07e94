"""The contract of a graph store, as tests: subclass, say how to open one, and run pytest.

    class TestMyStore(GraphStoreContract):
        @pytest.fixture
        def open_store(self, tmp_path):
            return lambda collection="contract": MyStore(tmp_path, collection)

Races, fences and takeover are no part of it: they need the real engine (consistency.md R4).
"""

from __future__ import annotations

from charactermemory.testing.graph_contract_lifecycle import GraphLifecycleContract
from charactermemory.testing.graph_contract_reads import GraphReadsContract
from charactermemory.testing.graph_contract_writes import GraphWritesContract, OpenStore, put

__all__ = ["GraphStoreContract", "OpenStore", "put"]


class GraphStoreContract(GraphWritesContract, GraphLifecycleContract, GraphReadsContract):
    """Everything the port promises, asked of one implementation."""
