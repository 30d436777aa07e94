"""The statistics in the host's database: the contract of every statistics store, on SQLite and PostgreSQL."""

from __future__ import annotations

import re

import pytest
from django.db import connections, transaction
from django.test.utils import CaptureQueriesContext

from charactermemory.domain.kinds import RelationType
from charactermemory.errors import RetrievalStatsStoreError
from charactermemory.ids import ObjectType
from charactermemory.testing.statistics_contract import (
    OpenStore,
    PersistentStatisticsContract,
    about,
    notion,
    state,
)
from memory_app.models import EntityRelationCount
from memory_app.statistics import OrmStatistics, rebuilding
from memory_app.statistics.merging import merge
from memory_app.statistics.rows import Generation
from memory_app.transactions import writing
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


def test_a_call_is_one_query_whatever_the_number_of_hubs(database: str, closing_threads: None) -> None:
    """`counts` asks for the health and the counters, `best` for edges and for states of others."""
    store = OrmStatistics("contract", database)
    hubs = [notion(number) for number in range(1, 41)]
    for hub in hubs:
        store.apply(about(hub, *(state(memory_ref(hub.id.int * 100 + n)) for n in range(3))), 1)
    pair = (RelationType.ABOUT, ObjectType.DERIVED_MEMORY)
    others = [memory_ref(100 + n) for n in range(3)] + [memory_ref(n) for n in range(5_000, 6_000)]
    asked = []
    for some in (hubs[:1], hubs):
        with CaptureQueriesContext(connections[database]) as queries:
            counts = store.counts(some, [pair])
            best = store.best([(hub, *pair) for hub in some], "active", 2, others)
            hints = store.hints(others)
        assert len(counts.at) == len(best.objects) == len(some)
        assert all(len(refs) == 2 for refs in best.objects.values())
        assert set(hints) == set(others[:3]) <= set(best.hints)
        asked.append(len(queries))
    assert asked == [3, 3]


def test_a_rebuild_that_gives_up_takes_no_rows_of_one_that_began_since(
    database: str, closing_threads: None
) -> None:
    store = OrmStatistics("contract", database)
    first = rebuilding._begin(database, "contract")
    second = rebuilding._begin(database, "contract")
    with writing(database):
        merge(Generation(database, "contract", second), about(notion(7), state(memory_ref(1))))
    rebuilding._abandon(database, "contract", first)
    rebuilding._switch(database, "contract", second, 1)
    assert store.states([memory_ref(1)]).keys() == {memory_ref(1)}


def test_the_best_of_a_hub_are_read_off_the_index_in_order(database: str, closing_threads: None) -> None:
    """No hub is read whole and sorted, on neither database."""
    store, pair = OrmStatistics("contract", database), (RelationType.ABOUT, ObjectType.DERIVED_MEMORY)
    crowd = [state(memory_ref(n), salience=n % 10 / 10, minutes=n) for n in range(1, 2_001)]
    store.rebuild([about(notion(number), *crowd) for number in (7, 8)], 1)
    connection = connections[database]
    with CaptureQueriesContext(connection) as queries:
        store.best([(notion(number), *pair) for number in (7, 8)], "active", 3, [memory_ref(9)])
    with transaction.atomic(using=database), connection.cursor() as cursor:
        cursor.execute("ANALYZE")
        explain = "EXPLAIN" if connection.vendor == "postgresql" else "EXPLAIN QUERY PLAN"
        cursor.execute(f"{explain} {queries[0]['sql']}")
        plan = "\n".join(str(row) for row in cursor.fetchall())
        transaction.set_rollback(True, using=database)
    assert plan.count("cm_edge_best") == 4, plan
    assert not re.search("(?i)sort|temp b-tree|scan (on )?memory_app_entityedge", plan), plan
