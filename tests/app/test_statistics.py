"""The statistics in the host's database: the contract of every statistics store, on SQLite and PostgreSQL."""

from __future__ import annotations

import pytest

from charactermemory.errors import RetrievalStatsStoreError
from charactermemory.testing.statistics_contract import (
    OpenStore,
    PersistentStatisticsContract,
    about,
    notion,
    state,
)
from memory_app.models import EntityRelationCount
from memory_app.statistics import OrmStatistics
from tests.support.plans import memory_ref


class TestContract(PersistentStatisticsContract):
    @pytest.fixture
    def open_store(self, database: str, closing_threads: None) -> OpenStore:
        return lambda collection="contract": OrmStatistics(collection, database)


def test_a_counter_that_was_lost_is_not_lowered_in_silence(database: str, closing_threads: None) -> None:
    store = OrmStatistics("contract", database)
    store.apply(about(notion(7), state(memory_ref(1))), 1)
    EntityRelationCount.objects.using(database).all().delete()
    with pytest.raises(RetrievalStatsStoreError, match="lacks rows to subtract from; rebuild the statistics"):
        store.apply(about(notion(7), state(memory_ref(1), suppressed=True)), 2)
    assert not store.states([memory_ref(1)])[memory_ref(1)].suppressed, "nothing of it was written"
