"""One open memory per collection and process, opened when first asked for."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.core.exceptions import SynchronousOnlyOperation
from django.db import OperationalError, connection, connections, transaction
from django.test.utils import CaptureQueriesContext

from charactermemory import (
    CharacterMemory,
    ForgetMemoryDraft,
    Participant,
    RetrievalContext,
    Scene,
)
from charactermemory.adapters.oxigraph.locks import FileWriterLock
from charactermemory.adapters.statistics import SqliteStatistics
from charactermemory.errors import (
    OutOfDomain,
    RetrievalStatsStoreError,
    StoreClosedError,
    StoreUnavailable,
)
from charactermemory.ports.statistics import Projection
from charactermemory.recall import GraphLimits
from charactermemory.testing.servers import OxigraphServer
from memory_app.apps import close_with_workers
from memory_app.chat.storage import DjangoStorage
from memory_app.errors import CollectionArchived
from memory_app.leases import LeaseWriterLock, close_connections
from memory_app.models import EntityEdge, MemoryCollection, MemoryState, RetrievalEvent, StatisticsHealth
from memory_app.repairs import dispatch
from memory_app.runtime import (
    close_memories,
    get_memory,
    known_collections,
    open_collections,
    open_for_rebuild,
    open_memory,
)
from memory_app.statistics import OrmStatistics
from tests.app.processes import django_script
from tests.support import plans
from tests.support.postgres import PostgresServer


@pytest.fixture(autouse=True)
def mapping(
    tmp_path: Path, settings: Any, transactional_db: None, closing_threads: None
) -> Iterator[dict[str, Any]]:
    settings.CHARACTER_MEMORY = {
        "OXIGRAPH_PATH": str(tmp_path / "oxigraph"),
        "VECTOR_STORE_PATH": str(tmp_path / "vectors"),
        "EMBEDDING_PROVIDER": "hashing",
        "DISPATCH": "none",
    }
    yield settings.CHARACTER_MEMORY
    close_memories()


# --- opening and closing ---


def test_threads_share_the_one_memory_of_a_collection() -> None:
    start, found = threading.Barrier(8), []

    def ask() -> None:
        start.wait()
        found.append(get_memory("shed"))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and len(set(map(id, found))) == 1
    assert get_memory("kitchen") is not found[0]
    assert open_collections() == ("kitchen", "shed")


def test_closing_releases_and_a_later_call_opens_anew() -> None:
    memory = get_memory("shed")
    memory.remember("The heater ticks.")
    close_memories()
    assert open_collections() == ()
    with pytest.raises(StoreClosedError):
        memory.retrieve("heater")
    again = get_memory("shed")
    assert again is not memory
    assert again.retrieve("heater").pack.salient_observations[0].text == "The heater ticks."


def test_a_memory_that_a_caller_has_closed_is_opened_anew_for_the_next() -> None:
    shared = get_memory("ada")
    with shared:
        shared.remember("The kettle whistles.")
    assert shared.closed
    again = get_memory("ada")
    assert again is not shared
    assert [seen.text for seen in again.retrieve("kettle").pack.salient_observations] == [
        "The kettle whistles."
    ]


def test_changed_settings_close_what_was_opened_with_the_old_ones(settings: Any, tmp_path: Path) -> None:
    memory = get_memory("shed")
    memory.remember("The heater ticks.")
    settings.CHARACTER_MEMORY = settings.CHARACTER_MEMORY | {"OXIGRAPH_PATH": str(tmp_path / "elsewhere")}
    with pytest.raises(StoreClosedError):
        memory.retrieve("heater")
    settings.CHARACTER_MEMORY = settings.CHARACTER_MEMORY | {"VECTOR_STORE_PATH": str(tmp_path / "others")}
    assert get_memory("shed").browse.list() == ([], None)


def test_a_bad_name_opens_nothing(mapping: dict[str, Any]) -> None:
    with pytest.raises(OutOfDomain):
        get_memory("Not a name")
    assert not Path(mapping["OXIGRAPH_PATH"]).exists()
    assert not MemoryCollection.objects.exists()


def test_known_are_the_embedded_collections_and_no_other_folder(mapping: dict[str, Any]) -> None:
    assert known_collections(mapping) == ()
    for name in ("shed", "kitchen"):
        open_memory(name).close()
    (Path(mapping["OXIGRAPH_PATH"]) / "lost+found").mkdir()
    assert known_collections(mapping) == ("kitchen", "shed")
    assert known_collections(mapping | {"GRAPH_STORE_MODE": "in_memory"}) is None


def test_a_memory_of_ones_own_shares_the_stores_and_may_be_set_otherwise() -> None:
    memory = get_memory("shed")
    with open_memory("shed", overrides={"FENCE_SECRET": "x" * 32}) as own:
        own.remember("The heater ticks.")
        assert own.settings.fence_secret != memory.settings.fence_secret
    assert len(memory.browse.list()[0]) == 2
    with open_for_rebuild("shed") as rebuilding:
        assert rebuilding.upkeep.rebuild_vectors().failed == ()


def test_a_celery_workers_process_closes_its_memories_when_it_ends() -> None:
    from celery.signals import worker_process_shutdown

    close_with_workers()
    memory = get_memory("shed")
    worker_process_shutdown.send(sender=None, pid=1, exitcode=0)
    assert open_collections() == ()
    with pytest.raises(StoreClosedError):
        memory.retrieve("heater")


QUIET = """
import threading
from django.db import connections
import memory_app.checks, memory_app.leases, memory_app.observed, memory_app.runtime, memory_app.tasks
engines = {"pyoxigraph", "qdrant_client", "qdrant_edge", "openai", "wordllama"}
connected = [item.alias for item in connections.all() if item.connection]
say([sorted(engines & set(sys.modules)), threading.active_count(), connected])
"""


def test_neither_django_nor_an_import_opens_anything(postgres_server: PostgresServer, tmp_path: Path) -> None:
    with django_script(QUIET, postgres_server, tmp_path) as script:
        assert script.end() == "[[], 1, []]"


FORKED = """
import signal
import threading
from django.conf import settings
settings.CHARACTER_MEMORY = {
    "OXIGRAPH_PATH": sys.argv[1] + "/oxigraph", "VECTOR_STORE_PATH": sys.argv[1] + "/vectors",
    "EMBEDDING_PROVIDER": "hashing", "DISPATCH": "none",
}
from django.core.management import call_command
from charactermemory.errors import StoreForkedError
from memory_app import conf
from memory_app.repairs import dispatch
from memory_app.runtime import get_memory, open_collections
if sys.argv[2] == "opened":
    get_memory("shed")
holding, done = threading.Event(), threading.Event()
def hold():
    with conf._lock, dispatch._lock:
        holding.set()
        done.wait()
threading.Thread(target=hold).start()  # reads the settings, or chooses who repairs, at that moment
holding.wait()
child = os.fork()
if not child:
    signal.alarm(20)
    try:
        get_memory("shed").remember("The heater ticks.")
        say(f"remembered {open_collections()}")
    except StoreForkedError as error:
        say(f"refused {error.owner_pid == os.getppid()} {open_collections()}")
    os._exit(0)
say(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
done.set()
"""


@pytest.mark.parametrize(
    ("parent", "said"), [("opened", ["refused True ()", "0"]), ("nothing", ["remembered ('shed',)", "0"])]
)
def test_a_child_has_none_of_its_parents_memories(
    parent: str, said: list[str], postgres: str, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    with django_script(FORKED, postgres_server, tmp_path, tmp_path, parent) as script:
        assert script.end().splitlines() == said


# --- the collection's row ---


def test_the_first_use_makes_the_row_with_what_the_index_was_made_by() -> None:
    memory = get_memory("shed")
    row = MemoryCollection.objects.get()
    assert (row.name, row.embedding_fingerprint, row.language, row.archived) == (
        "shed",
        memory.stores.embedder.fingerprint(),
        "english",
        False,
    )
    MemoryCollection.objects.all().delete()
    get_memory("shed")
    assert MemoryCollection.objects.count() == 1, "as after the rollback of a host's transaction"


def test_what_a_locked_database_kept_from_being_told_is_told_at_the_next_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    MemoryCollection.objects.create(name="shed", embedding_fingerprint="another model's")
    starts: list[str] = []
    monkeypatch.setattr(dispatch.NoDispatcher, "start", lambda self: starts.append("started"))

    def locked(execute: Any, sql: str, *others: Any) -> Any:
        if sql.startswith("UPDATE"):
            raise OperationalError("database is locked")
        return execute(sql, *others)

    with connection.execute_wrapper(locked), pytest.raises(StoreUnavailable, match="locked"):
        get_memory("shed")
    memory = get_memory("shed")
    assert MemoryCollection.objects.get().embedding_fingerprint == memory.stores.embedder.fingerprint()
    assert starts == ["started"]
    get_memory("shed")
    assert starts == ["started"]


def test_an_archived_collection_is_refused_at_once_and_comes_back() -> None:
    memory = get_memory("shed")
    MemoryCollection.objects.update(archived=True)
    with pytest.raises(CollectionArchived, match="shed is archived"):
        get_memory("shed")
    MemoryCollection.objects.update(archived=False)
    assert get_memory("shed") is memory


def test_tables_that_are_not_there_are_named_with_the_command() -> None:
    def ask_elsewhere(execute: Any, sql: str, *others: Any) -> Any:
        return execute(sql.replace(MemoryCollection._meta.db_table, "missing"), *others)

    with connections["default"].execute_wrapper(ask_elsewhere):
        with pytest.raises(StoreUnavailable, match=r"(no such table|does not exist).*manage\.py migrate"):
            get_memory("shed")


# --- statistics ---


def test_statistics_are_the_hosts_rows_unless_told_otherwise(settings: Any, tmp_path: Path) -> None:
    outcome = get_memory("shed").remember("The heater ticks.")
    assert outcome.complete
    assert {str(state.object_id) for state in MemoryState.objects.all()} == {
        str(ref.id) for ref in outcome.persisted_object_ids
    }
    assert isinstance(get_memory("shed").stores.statistics, OrmStatistics)
    settings.CHARACTER_MEMORY = settings.CHARACTER_MEMORY | {
        "STATISTICS": "core",
        "RETRIEVAL_STATS_PATH": str(tmp_path / "statistics.sqlite3"),
    }
    assert isinstance(get_memory("shed").stores.statistics, SqliteStatistics)


def test_a_hosts_transaction_gets_its_statistics_when_it_commits() -> None:
    memory = get_memory("shed")
    with transaction.atomic():
        outcome = memory.remember("The heater ticks.")
        assert outcome.stats_update_status.status == "pending"
        assert set(outcome.pending) == {*outcome.persisted_object_ids, *outcome.persisted_link_ids}
        assert memory.retrieve("heater").pack.salient_observations[0].text == "The heater ticks."
        assert not MemoryState.objects.exists()
    assert MemoryState.objects.count() == 2
    assert memory.stores.statistics.health(memory.stores.graph.head()).state == "healthy"
    assert memory.upkeep.verify().differences == 0


def test_a_hosts_rollback_takes_back_no_memory_and_leaves_its_statistics_to_the_sweep() -> None:
    memory = get_memory("shed")
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        episode, observation = memory.remember("The heater ticks.").persisted_object_ids
        memory.forget(ForgetMemoryDraft.suppress(observation, "A test."))
        raise ZeroDivisionError
    assert memory.browse.get(observation)[observation].suppressed
    assert not MemoryState.objects.exists()
    later = memory.remember("The kettle sings.")
    assert later.complete
    assert StatisticsHealth.objects.get().applied == 0, "no later commit passes the one that is owed"
    assert memory.stores.statistics.health(memory.stores.graph.head()).state == "lagging"
    assert memory.upkeep.sweep().statistics_backlog == 0
    assert memory.stores.statistics.states([observation])[observation].suppressed
    assert memory.upkeep.verify().differences == 0


def test_an_inner_block_that_is_rolled_back_leaves_its_statistics_to_the_sweep_too() -> None:
    memory = get_memory("shed")
    with transaction.atomic():
        kept = memory.remember("The heater ticks.").persisted_object_ids
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            memory.remember("The kettle sings.")
            raise ZeroDivisionError
    assert {state.object_id for state in MemoryState.objects.all()} == {ref.id for ref in kept}
    assert memory.upkeep.sweep().statistics_backlog == 0
    assert memory.upkeep.verify().differences == 0


def test_a_database_that_is_down_fails_no_commit_and_is_caught_up_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memory = get_memory("shed")
    connections.close_all()

    def down(*_: Any) -> None:
        raise OperationalError("the server closed the connection")

    monkeypatch.setattr(type(connections["default"]), "get_new_connection", down)
    outcome = memory.remember("The heater ticks.")
    assert outcome.stats_update_status.status == "failed"
    assert {cause.fault for cause in outcome.stats_update_status.causes} == {"outage"}
    assert memory.retrieve("heater").pack.salient_observations[0].text == "The heater ticks."
    monkeypatch.undo()
    assert memory.upkeep.sweep().statistics_backlog == 0
    assert memory.upkeep.verify().differences == 0


@pytest.mark.parametrize("call", ["apply", "rebuild"])
def test_statistics_refuse_to_be_written_inside_a_hosts_transaction(call: str, database: str) -> None:

    store = OrmStatistics("shed", database)
    with transaction.atomic(using=database):
        with pytest.raises(RetrievalStatsStoreError, match=r"transaction\.on_commit"):
            store.apply(Projection((), ()), 1) if call == "apply" else store.rebuild([], 1)
        assert store.cursor().high == 0


def test_a_read_that_fails_leaves_the_hosts_transaction_usable(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:

    store = OrmStatistics("shed", database)
    with transaction.atomic(using=database):
        monkeypatch.setattr(StatisticsHealth._meta, "db_table", "missing")
        with pytest.raises(RetrievalStatsStoreError, match="missing"):
            store.cursor()
        monkeypatch.undo()
        MemoryCollection.objects.using(database).create(name="kept")
    assert MemoryCollection.objects.using(database).filter(name="kept").exists()


@pytest.mark.parametrize("include_trace", [False, True], ids=["plain", "traced"])
@pytest.mark.parametrize("named", [0, 1, 2])
def test_a_retrieve_is_at_most_three_queries_of_the_statistics(
    settings: Any, include_trace: bool, named: int
) -> None:
    settings.CHARACTER_MEMORY = settings.CHARACTER_MEMORY | {"RETRIEVAL_EVENTS_SAMPLE_RATE": 0}
    memory = get_memory("shed")
    both = Scene.at(plans.AT, *(Participant(key=plans.uid(number)) for number in (1, 2)))
    drafts: list[Any] = [plans.notion(1), plans.notion(2), plans.thread(3)]
    for number in range(0x10, 0x40):
        drafts.append(plans.episode(number, "In the shed", scene=both))
        drafts.append(plans.observation(0x100 + number, number, f"The heater ticks {number} times."))
        held = plans.belief(0x200 + number, "The heater is old.", (1,), thread_ids=(plans.uid(3),))
        drafts.append(held)
    assert memory.commit(plans.plan(*drafts)).complete
    context = RetrievalContext(
        topic="heater",
        anchors=tuple(plans.uid(number) for number in range(1, named + 1)),
        graph_limits=GraphLimits(max_hub_edges=8, max_fanout_per_node=4),
        include_trace=include_trace,
    )

    with CaptureQueriesContext(connection) as queries:
        outcome = memory.retrieve(context)

    read = [set(re.findall(r"memory_app_\w+", query["sql"])) for query in queries]
    of_statistics = [tables for tables in read if StatisticsHealth._meta.db_table in tables]
    assert 1 < len(of_statistics) <= 3
    assert any(EntityEdge._meta.db_table in tables for tables in of_statistics), "no hub was come to"
    assert outcome.rationale.telemetry.selectivity.decision_count > 0 or not named
    others = [tables for tables in read if tables not in of_statistics]
    assert others == [{"memory_app_chatmessage", "memory_app_chatthread"}], (
        "the recent turns, and nothing else"
    )


# --- service mode ---


@pytest.fixture
def served(settings: Any, oxigraph_server: OxigraphServer, tmp_path: Path) -> None:
    settings.CHARACTER_MEMORY = settings.CHARACTER_MEMORY | {
        "GRAPH_STORE_MODE": "service",
        "OXIGRAPH_URL": oxigraph_server.url,
    }


def writer_lock(memory: CharacterMemory) -> object:
    return memory.stores.graph._writer_lock  # type: ignore[attr-defined]


@pytest.mark.usefixtures("on_sqlite")
def test_on_sqlite_writers_take_turns_by_files_beside_the_database(served: None) -> None:
    lock = writer_lock(get_memory("by-files"))
    assert isinstance(lock, FileWriterLock)
    database = Path(str(connections["default"].settings_dict["NAME"]))
    assert lock.folder == database.resolve().parent / "writer-locks"
    assert get_memory("by-files").remember("The heater ticks.").complete
    assert (lock.folder / "by-files.lock").exists()


class ToPostgres:
    """Keeps the app's tables in PostgreSQL."""

    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        return "postgres" if model._meta.app_label == "memory_app" else None

    db_for_write = db_for_read


def test_on_postgresql_by_the_lease_row_and_everything_follows_the_routers(
    served: None, settings: Any, postgres: str
) -> None:
    settings.DATABASE_ROUTERS = ["tests.app.test_runtime.ToPostgres"]
    memory = get_memory("by-lease")
    lock = writer_lock(memory)
    assert isinstance(lock, LeaseWriterLock)
    with transaction.atomic(using=postgres):
        assert not memory.remember("The heater ticks.").complete
    memory.retrieve("heater")
    assert lock.last_settled("by-lease") == 1
    assert MemoryState.objects.using(postgres).count() == 2
    assert MemoryCollection.objects.using(postgres).get().name == "by-lease"
    assert RetrievalEvent.objects.using(postgres).count() == 1
    assert not MemoryState.objects.using("default").exists()
    close_connections()


def cut_off(alias: str) -> None:
    """Have the server end this thread's connection, and meet that, as the first query after a restart does."""
    with pytest.raises(OperationalError), connections[alias].cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        cursor.execute("SELECT 1")


def test_a_process_without_requests_goes_on_after_the_database_was_restarted(
    settings: Any, postgres: str
) -> None:
    settings.DATABASE_ROUTERS = ["tests.app.test_runtime.ToPostgres"]
    memory, storage = get_memory("bot"), DjangoStorage(owner="bot")
    cut_off(postgres)
    assert get_memory("bot") is memory
    cut_off(postgres)
    assert memory.remember("The heater ticks.").complete
    cut_off(postgres)
    memory.retrieve("heater")
    assert RetrievalEvent.objects.using(postgres).count() == 1
    cut_off(postgres)
    assert storage.get_thread("monday") is None


def test_a_connection_that_is_lost_in_a_transaction_is_not_replaced_in_it(
    settings: Any, postgres: str
) -> None:
    settings.DATABASE_ROUTERS = ["tests.app.test_runtime.ToPostgres"]
    memory = get_memory("bot")
    with pytest.raises(OperationalError), transaction.atomic(using=postgres):
        MemoryCollection.objects.filter(name="bot").update(archived=True)
        cut_off(postgres)
        memory.retrieve("heater")
        MemoryCollection.objects.create(name="other")  # would be committed without what came before it
    assert get_memory("bot") is memory
    assert [row.name for row in MemoryCollection.objects.using(postgres).all()] == ["bot"]


def test_in_a_loop_a_memory_refuses_at_once_and_off_the_loop_it_serves() -> None:
    memory = get_memory("bot")

    async def directly() -> None:
        for operation in (memory.remember, memory.retrieve):
            with pytest.raises(SynchronousOnlyOperation, match="sync_to_async"):
                operation("The heater ticks.")

    async def aside() -> bool:
        return (await sync_to_async(memory.remember)("The heater ticks.")).complete

    asyncio.run(directly())
    assert memory.stores.graph.head() == 0
    assert asyncio.run(aside())


def test_a_collection_may_lie_at_an_endpoint_of_its_own_and_move(served: None, tmp_path: Path) -> None:
    with OxigraphServer(tmp_path / "other") as other:
        memory = get_memory("moving")
        MemoryCollection.objects.update(endpoint=other.url)
        moved = get_memory("moving")
        assert moved is not memory
        assert moved.settings.oxigraph_url == other.url
        assert get_memory("moving") is moved
        close_memories()


# --- events ---


def test_a_sampled_retrieve_leaves_counts_and_ids_and_no_text(settings: Any) -> None:
    memory = get_memory("shed")
    memory.remember("The heater ticks.")
    memory.retrieve("heater")
    event = RetrievalEvent.objects.get()
    assert (event.collection, event.included) == ("shed", len(event.admitted))
    assert event.included >= 1 and event.duration_ms > 0
    assert "heater" not in str(vars(event)).lower()
    settings.CHARACTER_MEMORY = settings.CHARACTER_MEMORY | {"RETRIEVAL_EVENTS_SAMPLE_RATE": 0}
    get_memory("shed").retrieve("heater")
    assert RetrievalEvent.objects.count() == 1
