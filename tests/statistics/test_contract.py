"""The SQLite store, in a file and in memory, against the contract of every statistics store."""

from pathlib import Path

import pytest

from charactermemory.adapters.statistics import SqliteStatistics
from charactermemory.testing.statistics_contract import (
    OpenStore,
    PersistentStatisticsContract,
    StatisticsContract,
)


class TestFile(PersistentStatisticsContract):
    @pytest.fixture
    def open_store(self, tmp_path: Path) -> OpenStore:
        return lambda collection="contract": SqliteStatistics(tmp_path / "statistics.sqlite3", collection)


class TestMemory(StatisticsContract):
    @pytest.fixture
    def open_store(self) -> OpenStore:
        return lambda collection="contract": SqliteStatistics(":memory:", collection)
