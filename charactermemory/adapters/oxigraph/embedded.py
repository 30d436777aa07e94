"""The embedded persistent connection: pyoxigraph on RocksDB, one store folder a collection (DESIGN R8).

One process owns a folder (`adapters/handles.py`); all connections of that process to it share one engine. A
failed write or sync closes the engine, which would refuse every later write even after room was made, and
a kernel that failed to write a page may have dropped it. The next call opens it again, and the receipt tells
what became of the commit (consistency.md §1). It does so too after the engine was let rest, since many others
were used meanwhile (`adapters/resting.py`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from pyoxigraph import NamedNode, Triple

from charactermemory.adapters.folders import read_marker, write_marker
from charactermemory.adapters.handles import HandleRegistry, OwnerLock
from charactermemory.adapters.oxigraph.connection import STORE_NAME, Pattern, ResponseLost, Row
from charactermemory.adapters.oxigraph.engine import Engine
from charactermemory.adapters.oxigraph.log_sync import LogSync
from charactermemory.adapters.resting import OpenStores
from charactermemory.errors import DatabaseError, NotAStore, StoreClosedError, StoreUnavailable

logger = logging.getLogger(__name__)

KIND = "graph"
"""What `character-memory.json` calls a graph store folder."""

FORMAT = 1
"""Version of the folder's layout."""

DIARIES_KEPT = 2
"""How many of the engine's former diaries (`LOG.old.*`) stay, for whoever asks after a crash. It writes one of
137 kB whenever it opens and would keep 1,000: measured, 137 MB a collection that is opened often."""

_open_stores = OpenStores()


class _Open:
    """An open engine, its log, and what is going on in it."""

    def __init__(self, folder: Path) -> None:
        self.engine = Engine(str(folder))
        self.log = LogSync(folder, self.engine.flush)
        self.users = 0
        self.broken = False
        self.rested = False
        # Updates that were begun, that came back, and that are on disk. One that was begun may be seen by
        # others before it comes back.
        self.begun = 0
        self.applied = 0
        self.synced = 0

    def close(self) -> None:
        self.log.close()
        self.engine.close()


class SharedStore:
    """The one handle of a store folder in this process; connections share it through the registry."""

    def __init__(self, folder: Path, collection: str) -> None:
        self.folder = folder
        with self._folder_errors():
            read_marker(folder, KIND)
            folder.mkdir(parents=True, exist_ok=True)
        self.owner = OwnerLock.acquire(folder, STORE_NAME)
        self._calls = threading.Condition()
        self._open: _Open | None = None
        self._closing = False
        self._suspect = False
        self._version = 0
        self._seen = threading.local()
        try:
            with self._folder_errors():
                self._mark(collection)
            self._open = self._open_engine()
        except BaseException:
            self.owner.release()
            raise
        _open_stores.used(self)
        _open_stores.relieve()

    @contextmanager
    def _folder_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreUnavailable(store=STORE_NAME, detail=f"{self.folder}: {error.strerror}") from error

    def _mark(self, collection: str) -> None:
        """Name the new folder's contents before the engine creates any, or check what it is named."""
        marker = read_marker(self.folder, KIND)
        if marker is None:
            write_marker(self.folder, {"kind": KIND, "format": FORMAT, "collection": collection})
            return
        for name, expected in (("format", FORMAT), ("collection", collection)):
            if marker.get(name) != expected:
                raise NotAStore(
                    path=str(self.folder),
                    expected=f"{KIND} ({name} {expected!r})",
                    found=f"{name} {marker.get(name)!r}",
                )

    def _open_engine(self) -> _Open:
        opened = None
        if _headless(self.folder):
            # The engine would begin a new store here, and delete the tables of the old one.
            raise self._damaged("the engine's tables are there and its CURRENT is not")
        try:
            opened = _Open(self.folder)
            _drop_old_diaries(self.folder)
            if self._suspect:
                # What the engine read back from its log may be on no disk; its tables are synced.
                opened.engine.flush()
                self._suspect = False
            return opened
        except OSError as error:
            if opened is not None:
                opened.close()
            if "Corruption" in str(error):
                raise self._damaged(str(error)) from error
            raise StoreUnavailable(store=STORE_NAME, detail=f"{self.folder}: {error}") from error

    def _damaged(self, how: str) -> DatabaseError:
        return DatabaseError(
            detail=f"{self.folder} is damaged: {how}; move it away, and put the folder of a backup in its place "
            "or import an export"
        )

    @contextmanager
    def use(self) -> Iterator[_Open]:
        """Lend the engine for one call, opening it again after a failure."""
        self.owner.check()
        with self._calls:
            while self._open is not None and self._open.broken:
                self._calls.wait()
            if self._closing:
                raise StoreClosedError(store=STORE_NAME)
            if self._open is None:
                self._open = self._open_engine()
            opened = self._open
            opened.users += 1
            _open_stores.used(self)
        self._seen.opened = opened
        try:
            _open_stores.relieve()
            yield opened
        finally:
            with self._calls:
                opened.users -= 1
                if opened.broken and not opened.users:
                    self._drop(opened)
                self._calls.notify_all()

    def _drop(self, opened: _Open) -> None:
        self._close_engine(opened)
        self._suspect = True
        self._version += 1

    def _close_engine(self, opened: _Open) -> None:
        self._open = None
        _open_stores.closed(self)
        opened.close()

    def rest(self) -> None:
        """See `Restful`; what was written is put into the engine's tables, so that opening has no log to read."""
        with self._calls:
            opened = self._open
            if opened is None or opened.users or self._closing:
                return
            try:
                if opened.begun:
                    opened.engine.flush()
            except OSError as error:
                logger.warning("flushing the graph store under %s failed: %s", self.folder, error)
                self._drop(opened)
                return
            opened.rested = True
            self._close_engine(opened)

    def sync(self) -> None:
        """Sync the log if an update ran since the last sync that succeeded, or runs now.

        If the engine was opened anew since this thread's last call, what that call wrote or read may be gone.
        """
        last = getattr(self._seen, "opened", None)
        with self.use() as opened:
            if last is not None and last is not opened and not last.rested:
                raise ResponseLost("the engine was closed by another call's failure", in_flight=False)
            with self._calls:
                applied = opened.applied
                if opened.synced >= opened.begun:
                    return
            try:
                opened.log.sync()
            except OSError as error:
                opened.broken = True
                raise ResponseLost(f"syncing the log failed: {error}", in_flight=False) from error
            with self._calls:
                opened.synced = max(opened.synced, applied)

    def update(self, text: str) -> None:
        """Apply an update; a failure of the engine breaks it."""
        with self.use() as opened:
            with self._calls:
                opened.begun += 1
            try:
                opened.engine.update(text)
            except (SyntaxError, ValueError) as error:
                with self._calls:
                    opened.begun -= 1
                raise DatabaseError(detail=f"the update was refused: {error}") from error
            except OSError as error:
                opened.broken = True
                raise ResponseLost(f"the update failed: {error}", in_flight=False) from error
            with self._calls:
                opened.applied += 1
                self._version += 1
            opened.log.wrote(text)

    def backup(self, folder: Path) -> None:
        """Copy the store, as of now, into a new folder, marked as what it is.

        The engine makes the copy: reading its live files ourselves would drop its lock (consistency.md §4).
        """
        with self._folder_errors():
            marker = read_marker(self.folder, KIND) or {}
            folder.parent.mkdir(parents=True, exist_ok=True)
            with self.use() as opened:
                opened.engine.backup(str(folder))
            write_marker(folder, marker)

    def version(self) -> int | None:
        """Return the number of updates here, and of failures after which the engine was opened anew.

        None while an update runs: it may have taken effect already.
        """
        self.owner.check()
        with self._calls:
            running = self._open is not None and self._open.begun > self._open.applied
            return None if running else self._version

    def close(self) -> None:
        """Wait for the calls that run, flush, close the engine, and give the folder back."""
        with self._calls:
            self._closing = True
            while self._open is not None and self._open.users:
                self._calls.wait()
            opened, self._open = self._open, None
            _open_stores.closed(self)
        try:
            if opened is not None:
                try:
                    opened.engine.flush()
                except OSError as error:
                    raise DatabaseError(detail=f"the flush on close failed: {error}") from error
                finally:
                    opened.close()
        finally:
            self.owner.release()


def _headless(folder: Path) -> bool:
    """Whether an engine's data lie in a folder without the file by which it finds them; opens none of them.

    While a new store is made there is nothing in its log yet, and no table.
    """
    if (folder / "CURRENT").exists():
        return False
    logs = (log.stat().st_size for log in folder.glob("[0-9]*.log"))
    return any(logs) or any(folder.glob("[0-9]*.sst"))


def _drop_old_diaries(folder: Path) -> None:
    """Remove all but the newest of the engine's former diaries; nothing has one of them open."""
    diaries = sorted(folder.glob("LOG.old.*"))  # by their names, which end with the time
    for diary in diaries[:-DIARIES_KEPT]:
        with suppress(OSError):
            diary.unlink()


_stores: HandleRegistry[SharedStore] = HandleRegistry()


class EmbeddedConnection:
    """A `Connection` to the store folder of one collection, `root/<collection>/`.

    Raises on opening:
        NotAStore: the folder holds something else, or another collection.
        StoreInUse: another process owns it; the message names it.
        StoreUnavailable, DatabaseError: it cannot be opened now, or is damaged.
    """

    def __init__(self, root: Path, collection: str) -> None:
        self.folder = root / collection
        self._closed = False
        self._store = _stores.acquire(self.folder, lambda: SharedStore(self.folder, collection))

    def _shared(self) -> SharedStore:
        self._store.owner.check()
        if self._closed:
            raise StoreClosedError(store=STORE_NAME)
        return self._store

    def query(self, text: str) -> list[Row]:
        """See `Connection`."""
        with self._shared().use() as opened:
            return opened.engine.query(text)

    def ask(self, text: str) -> bool:
        """See `Connection`."""
        with self._shared().use() as opened:
            return opened.engine.ask(text)

    def update(self, text: str) -> None:
        """See `Connection`."""
        self._shared().update(text)

    def match(self, graph: NamedNode, patterns: Sequence[Pattern]) -> list[list[Triple]]:
        """See `Connection`."""
        with self._shared().use() as opened:
            return opened.engine.match(graph, patterns)

    def occurring(self, graph: NamedNode, patterns: Iterable[Pattern]) -> set[Pattern]:
        """See `Connection`."""
        with self._shared().use() as opened:
            return opened.engine.occurring(graph, patterns)

    def dump(self, graph: NamedNode) -> Iterator[bytes]:
        """See `Connection`."""
        with self._shared().use() as opened:
            return opened.engine.dump(graph)

    def version(self) -> int | None:
        """See `Connection`."""
        return self._shared().version()

    def sync(self) -> None:
        """See `Connection`."""
        self._shared().sync()

    def backup(self, folder: Path) -> bool:
        """See `Connection`."""
        self._shared().backup(folder)
        return True

    def close(self) -> None:
        """See `Connection`; the last connection of the process closes the engine."""
        if self._closed or self._store.owner.forked:
            return
        self._closed = True
        _stores.release(self.folder, self._store)
