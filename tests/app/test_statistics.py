"""The statistics in the host's database: the contract of every statistics store, on SQLite and PostgreSQL."""

from __future__ import annotations

import pytest

from charactermemory.testing.statistics_contract import OpenStore, PersistentStatisticsContract
from memory_app.statistics import OrmStatistics


class TestContract(PersistentStatisticsContract):
    @pytest.fixture
    def open_store(self, database: str, closing_threads: None) -> OpenStore:
        return lambda collection="contract": OrmStatistics(collection, database)
