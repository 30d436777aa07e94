"""The memories that this process has open: one a collection, opened when first asked for, shared by all threads.

Nothing is opened on import or when Django starts, and nothing is carried over a fork: a child begins with none.
So gunicorn may preload the application, and Celery may fork its workers, as long as the parent asks for no
memory; a gunicorn `worker_exit` hook may call `close_memories`, and Celery's workers do so by themselves.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from django.db import DatabaseError, ProgrammingError, connections, router, transaction

from charactermemory import CharacterMemory, MemoryObjectRef, Settings
from charactermemory.clock import Clock, utc_now
from charactermemory.config import validate_collection_name
from charactermemory.errors import StoreForkedError, StoreUnavailable
from charactermemory.ports.locks import WriterLock
from charactermemory.ports.statistics import StatisticsStore
from charactermemory.upkeep.derive import derive
from memory_app.conf import AppSettings, app_settings, given_mapping
from memory_app.errors import CollectionArchived
from memory_app.transactions import in_host_transaction, reconnect_where_lost

if TYPE_CHECKING:
    from memory_app.models import MemoryCollection

_MARKER = "character-memory.json"
"""The file by which a store folder says what it is (decisions.md "To R8")."""
_LOCK_FOLDER = "writer-locks"


@dataclass
class _Entry:
    """One collection's memory, and the lock under which it is opened and closed.

    `told` says that its row has what it is configured with, and that it is looked after.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    memory: CharacterMemory | None = None
    endpoint: str = ""
    told: bool = False


_lock = threading.Lock()
_entries: dict[str, _Entry] = {}
_inherited: list[object] = []
"""What a parent had open; kept, so that nothing of it is closed here."""
_embedded_pid: int | None = None
"""The process that has opened an embedded graph: no child of it may open one (consistency.md §4)."""


def get_memory(collection: str, *, row: MemoryCollection | None = None) -> CharacterMemory:
    """Return the memory called `collection`, opened or created on first use and shared by all threads.

    Configured by `settings.CHARACTER_MEMORY`; closed when the process ends, and opened anew for whoever asks for
    it after a caller has closed it. The collection's row is read each
    time, so that another process can archive or move it, and made when it is not there.

    Args:
        collection: the collection's name.
        row: its row, if the caller has just read it.

    Raises:
        CollectionArchived: the row says so.
        StoreForkedError: a parent of this process has opened embedded stores.
        StoreUnavailable: the database cannot be read.
        ConfigParseError, ConfigValidationError, CollectionIncompatible, StoreError: see `CharacterMemory.open`.
    """
    validate_collection_name(collection)
    reconnect_where_lost()
    row = row or _row(collection)
    if row is not None and row.archived:
        raise CollectionArchived(collection)
    memory, entry = _opened(collection, row.endpoint if row else "")
    if not entry.told or row is None:
        from memory_app.repairs.dispatch import dispatcher

        _record(memory, collection)
        dispatcher().start()
        entry.told = True
    return memory


def open_memory(
    collection: str,
    *,
    overrides: Mapping[str, object] | None = None,
    clock: Clock = utc_now,
    for_rebuild: bool = False,
) -> CharacterMemory:
    """Open a memory of the caller's own, configured as `get_memory` does; the caller closes it.

    Archived collections open too. Stores are shared with the other memories of the process.

    Args:
        collection: the collection's name.
        overrides: settings that take the place of the host's.
        clock: the present instant.
        for_rebuild: open an index made by another model too; its row stays as it is.

    Raises:
        StoreForkedError, StoreUnavailable, ConfigParseError, ConfigValidationError, CollectionIncompatible,
        StoreError: see `get_memory`.
    """
    validate_collection_name(collection)
    row = _row(collection)
    configured = AppSettings.from_mapping({**given_mapping(), **overrides}) if overrides else app_settings()
    memory = _open(collection, row.endpoint if row else "", configured, clock, for_rebuild)
    if not for_rebuild:
        _record(memory, collection)
    return memory


def open_for_rebuild(collection: str) -> CharacterMemory:
    """Open a memory of the caller's own whose index may be another model's, so that it can be rebuilt."""
    return open_memory(collection, for_rebuild=True)


def open_collections() -> tuple[str, ...]:
    """Return the sorted names of the collections that `get_memory` has open in this process."""
    with _lock:
        return tuple(sorted(name for name, entry in _entries.items() if entry.memory is not None))


def refused_collections() -> tuple[str, ...]:
    """Return the sorted names of those that `get_memory` was asked for in this process and could not open.

    One that is being opened now is none of them.
    """
    with _lock:
        entries = _entries.items()
        return tuple(sorted(name for name, it in entries if it.memory is None and not it.lock.locked()))


def close_memories() -> None:
    """Close every memory that `get_memory` opened, what looks after them, and the connections of their leases.

    A later call opens anew.
    """
    from memory_app.repairs import dispatch

    dispatch.stop()
    with _lock:
        entries = dict(_entries)
        _entries.clear()
    for entry in entries.values():
        with entry.lock:
            memory, entry.memory = entry.memory, None
        if memory is not None:
            memory.close()
    if leases := sys.modules.get("memory_app.leases"):
        leases.close_connections()


def known_collections(mapping: Mapping[str, object]) -> tuple[str, ...] | None:
    """Return the sorted names of the embedded collections, None where the graph store cannot be looked into.

    Only an embedded graph keeps one folder a collection; it is not opened for this.
    """
    folder = graph_folder(mapping)
    if folder is None:
        return None
    return tuple(sorted(marker.parent.name for marker in folder.glob(f"*/{_MARKER}")))


def graph_folder(mapping: Mapping[str, object]) -> Path | None:
    """Return the folder of the embedded graphs, None where the graph store is another."""
    core = AppSettings.from_mapping(mapping).core
    return core.oxigraph_path if core.graph_store_mode == "persistent" else None


def _opened(collection: str, endpoint: str) -> tuple[CharacterMemory, _Entry]:
    """Return the open memory and its entry; one at another endpoint is replaced."""
    while True:
        with _lock:
            entry = _entries.setdefault(collection, _Entry())
        with entry.lock:
            with _lock:
                if _entries.get(collection) is not entry:
                    continue  # closed meanwhile
            if entry.memory is not None and entry.endpoint == endpoint and not entry.memory.closed:
                return entry.memory, entry
            before, entry.memory = entry.memory, None
            if before is not None:
                before.close()
            entry.memory = _open(collection, endpoint, app_settings(), utc_now, for_rebuild=False)
            entry.endpoint, entry.told = endpoint, False
            return entry.memory, entry


def _open(
    collection: str, endpoint: str, configured: AppSettings, clock: Clock, for_rebuild: bool
) -> CharacterMemory:
    from memory_app.chat.transcript import ChatTranscript
    from memory_app.observed import ObservedMemory

    core = _core_of(configured, endpoint)
    _refuse_after_fork(core)
    orm, until_commit = configured.statistics == "orm", _UntilCommit()
    memory = until_commit.memory = ObservedMemory.open(
        core,
        collection,
        embedding_provider=configured.embedding_provider(),
        writer_lock=_lease(core),
        statistics=_statistics if orm else None,
        postpone_statistics=until_commit if orm else None,
        transcripts=ChatTranscript(collection, clock=clock),
        clock=clock,
        for_rebuild=for_rebuild,
    )
    atexit.unregister(close_memories)
    atexit.register(close_memories)
    return memory


def _core_of(configured: AppSettings, endpoint: str) -> Settings:
    """Return the core's settings for one collection: its endpoint, and where writers find their locks."""
    core = configured.core
    if core.graph_store_mode != "service":
        return core
    if endpoint:
        core = core.model_copy(update={"oxigraph_url": endpoint})
    if core.writer_lock_path is None and not _leased() and (beside := lock_folder()):
        core = core.model_copy(update={"writer_lock_path": beside})
    return core


def lock_folder() -> Path | None:
    """Return where writers of one machine take turns by default: beside a SQLite database's file."""
    database = connections[_alias("WriterLease")]
    name = str(database.settings_dict["NAME"])
    if database.vendor != "sqlite" or ":memory:" in name or "mode=memory" in name:
        return None
    return Path(name).resolve().parent / _LOCK_FOLDER


def _leased() -> bool:
    return connections[_alias("WriterLease")].vendor == "postgresql"


def _lease(core: Settings) -> WriterLock | None:
    """Return the lock of all processes that share the database, None where the core's own does."""
    if core.graph_store_mode != "service" or not _leased():
        return None
    from memory_app.leases import LeaseWriterLock

    return LeaseWriterLock(_alias("WriterLease"))


def _statistics(collection: str) -> StatisticsStore:
    from memory_app.statistics import OrmStatistics

    return OrmStatistics(collection, _alias("StatisticsHealth"))


class _UntilCommit:
    """Leaves statistics to the end of a host's transaction (consistency.md §8).

    Rolled back, the transaction leaves them to the sweeper: the commits stay owed.
    """

    memory: CharacterMemory

    def __call__(self, refs: Sequence[MemoryObjectRef]) -> bool:
        """Tell whether the statistics of `refs` must wait, and have them made after the commit."""
        using = _alias("StatisticsHealth")
        if not in_host_transaction(using):
            return False
        if transaction.get_connection(using).in_atomic_block:
            transaction.on_commit(lambda: self._catch_up(refs), using=using, robust=True)
        return True

    def _catch_up(self, refs: Sequence[MemoryObjectRef]) -> None:
        derive(self.memory.stores, refs, vectors=False)


def _alias(model: str) -> str:
    """Return the alias of the database that the host's routers keep a model of the app's in."""
    from memory_app import models

    return str(router.db_for_write(getattr(models, model)))


def _row(collection: str) -> MemoryCollection | None:
    from memory_app.models import MemoryCollection

    try:
        return MemoryCollection.objects.filter(name=collection).first()
    except DatabaseError as error:
        raise _database_unavailable(error) from error


def _record(memory: CharacterMemory, collection: str) -> None:
    """Make the collection's row, or bring it up to what the memory is configured with now."""
    from memory_app.models import MemoryCollection

    values = {
        "embedding_fingerprint": memory.stores.embedder.fingerprint(),
        "language": memory.settings.language,
    }
    try:
        row, _ = MemoryCollection.objects.get_or_create(name=collection, defaults=values)
        if any(getattr(row, name) != value for name, value in values.items()):
            MemoryCollection.objects.filter(pk=row.pk).update(**values)
    except DatabaseError as error:
        raise _database_unavailable(error) from error


def _database_unavailable(error: DatabaseError) -> StoreUnavailable:
    return StoreUnavailable(store="the database of memory_app", detail=why_not(error))


def why_not(error: DatabaseError) -> str:
    """Return on one line what the database said, with the command that makes tables where they are missing."""
    said = " ".join(str(error).split())
    missing = isinstance(error, ProgrammingError) or "no such table" in said
    return f"{said}; are its tables there? (manage.py migrate)" if missing else said


def _refuse_after_fork(core: Settings) -> None:
    """A child of a process that has opened an embedded graph hangs when it opens one itself."""
    global _embedded_pid
    if core.graph_store_mode != "persistent":
        return
    if _embedded_pid not in (None, os.getpid()):
        raise StoreForkedError(store="the graph store", owner_pid=_embedded_pid or 0)
    _embedded_pid = os.getpid()


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.Lock()
    _inherited.append(dict(_entries))
    _entries.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)
