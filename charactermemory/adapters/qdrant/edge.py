"""The embedded vector index: Qdrant Edge in a folder of our own, one owner process (consistency.md §4-6).

    <root>/<collection>/character-memory.json        what the folder is, and of which collection
                        owner.lock                   held by the owning process
                        CURRENT                      names the generation that serves
                        BUILDING                     names the one that a rebuild fills, or left
                        gen-000001/character-memory.json   how its vectors were made
                        gen-000001/shard/            the engine's files

What the vectors were made with belongs to the generation, so that one rename of CURRENT switches both. The shard
that serves is loaded again after it was let rest, since many others were used meanwhile (`adapters/resting.py`).
"""

from __future__ import annotations

import logging
import re
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from charactermemory.adapters.folders import read_marker, write_atomically, write_marker
from charactermemory.adapters.handles import HandleRegistry, OwnerLock
from charactermemory.adapters.resting import OpenStores
from charactermemory.config import validate_collection_name
from charactermemory.errors import (
    CharacterMemoryError,
    CollectionIncompatible,
    NotAStore,
    StoreClosedError,
    VectorDatabaseError,
)
from charactermemory.ids import MemoryObjectRef, ObjectType
from charactermemory.ports.embedding import Vector
from charactermemory.ports.vectors import Cursor, HybridHits, VectorRecord

from . import search
from .fit import FORMAT, KIND, Build, OnMismatch, check_fit, read_build
from .lexical import DEFAULT_LANGUAGE, Lexical
from .shard import BACKEND, EdgeGeneration

logger = logging.getLogger(__name__)

STORE_NAME = "vector store"
CURRENT_NAME = "CURRENT"
BUILDING_NAME = "BUILDING"
_GENERATION_KIND = "vector_generation"
_GENERATION_NAME = re.compile(r"gen-(\d{6})")

_open_stores = OpenStores()


class _EdgeStore:
    """The open folder, shared by every index of this process on it."""

    def __init__(self, folder: Path, collection: str, build: Build) -> None:
        self.folder = folder
        self.collection = collection
        self.lock = threading.RLock()
        self._check_marker()
        folder.mkdir(parents=True, exist_ok=True)
        self.owner = OwnerLock.acquire(folder, STORE_NAME)
        try:
            if not self._check_marker():
                write_marker(folder, {"kind": KIND, "format": FORMAT, "collection": collection})
            self.name, self.build, serving = self._open_current(build)
            self._remove_unnamed()
        except BaseException:
            self.owner.release()
            raise
        self._serving: EdgeGeneration | None = serving
        self._rested_at: Cursor | None = None
        self.unfinished: dict[str, EdgeGeneration] = {}
        if serving is not None:
            _open_stores.used(self)
        _open_stores.relieve()

    def _check_marker(self) -> bool:
        """Return whether the folder is marked as this collection's; raise where it is something else."""
        marker = read_marker(self.folder, KIND)
        if marker is None:
            return False
        if marker.get("format") != FORMAT:
            raise NotAStore(
                path=str(self.folder),
                expected=f"{KIND} format {FORMAT}",
                found=f"format {marker.get('format')!r}",
            )
        if marker.get("collection") != self.collection:
            raise CollectionIncompatible(
                collection=self.collection,
                mismatch="collection_name",
                expected=self.collection,
                actual=str(marker.get("collection")),
            )
        return True

    def _open_current(self, build: Build) -> tuple[str, Build, EdgeGeneration | None]:
        """Open the generation that serves; None where that cannot be loaded, which every call will try anew.

        The memory goes on without it, and a rebuild takes its place.
        """
        current = self.folder / CURRENT_NAME
        if not current.exists():
            self._remove_all()
            name, generation = self.create(build)
            write_atomically(current, name + "\n")
            return name, build, generation
        name = current.read_text(encoding="utf-8").strip()
        self._check_there(name)
        found = read_build(self.collection, read_marker(self.folder / name, _GENERATION_KIND) or {})
        try:
            return name, found, self._load(name, found)
        except VectorDatabaseError as error:
            logger.warning("the index under %s cannot be opened: %s", self.folder, error)
            return name, found, None

    def _load(self, name: str, build: Build) -> EdgeGeneration:
        folder = self.folder / name / "shard"
        try:
            return EdgeGeneration.load(folder, self.collection, build.size)
        except VectorDatabaseError as error:
            message = f"{folder} cannot be read: {error.message}; if that stays so, rebuild the index"
            raise VectorDatabaseError(backend=BACKEND, kind=error.kind, message=message) from error

    def _check_there(self, name: str) -> None:
        """Raise if generation `name`, which is to serve, is none or gone."""
        if not _GENERATION_NAME.fullmatch(name) or not (self.folder / name / "shard").is_dir():
            current = self.folder / CURRENT_NAME
            raise VectorDatabaseError(
                backend=BACKEND,
                kind="engine",
                message=f"{current} names {name!r}, which is missing; remove {self.folder} and rebuild",
            )

    @property
    def generation(self) -> EdgeGeneration:
        """The generation that serves, loaded again if it rested. Every call asks anew, under the lock.

        Raises:
            VectorDatabaseError: it cannot be loaded now; the next call tries again.
        """
        if self._serving is None:
            self._check_there(self.name)
            self._serving = self._load(self.name, self.build)
            self._rested_at = None
        _open_stores.used(self)
        return self._serving

    def rest(self) -> None:
        """See `Restful`. Nothing rests under a call, which holds the lock, or while a rebuild is unfinished."""
        if not self.lock.acquire(blocking=False):
            return
        try:
            if self._serving is not None and not self.unfinished:
                self._rest(self._serving)
        finally:
            self.lock.release()

    def _rest(self, generation: EdgeGeneration) -> None:
        try:
            generation.close()
            self._rested_at = generation.known_cursor
        except VectorDatabaseError as error:
            # What was written is in the engine's log, which is read when the shard is loaded.
            logger.warning("flushing the vector store under %s failed: %s", self.folder, error)
        finally:
            self._serving = None
            _open_stores.closed(self)

    def cursor(self) -> Cursor:
        """See `VectorIndex.cursor`; wakes no store that rests, for a sweep asks it of every collection."""
        return self.generation.cursor() if self._rested_at is None else self._rested_at

    def flush(self, applied: int | None) -> None:
        """See `VectorIndex.flush`; one that rests was flushed, so only a new `applied` wakes it."""
        if self._rested_at is None or (applied is not None and applied > self._rested_at.applied):
            self.generation.flush(applied)

    def _generation_folders(self) -> list[Path]:
        return [entry for entry in self.folder.iterdir() if _GENERATION_NAME.fullmatch(entry.name)]

    def _remove_all(self) -> None:
        for entry in self._generation_folders():
            shutil.rmtree(entry)

    def _remove_unnamed(self) -> None:
        """Remove every folder that neither serves nor is being filled, as one that a rebuild replaced."""
        for entry in self._generation_folders():
            if entry.name not in (self.name, self._building()):
                shutil.rmtree(entry)

    def _building(self) -> str | None:
        """Return which generation a rebuild fills, or left before its switch."""
        try:
            name = (self.folder / BUILDING_NAME).read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            return None
        return name if _GENERATION_NAME.fullmatch(name) and name != self.name else None

    def create(self, build: Build) -> tuple[str, EdgeGeneration]:
        """Make the next generation, empty."""
        numbers = [int(entry.name.removeprefix("gen-")) for entry in self._generation_folders()]
        name = f"gen-{max(numbers, default=0) + 1:06d}"
        folder = self.folder / name
        folder.mkdir()
        write_marker(folder, {"kind": _GENERATION_KIND, "format": FORMAT} | build.stored())
        return name, EdgeGeneration.create(folder / "shard", self.collection, build.size)

    def begin(self, build: Build, anew: bool) -> str:
        """Make a generation to be filled, or go on with the one that was left; return its name."""
        left = self._building()
        if left is not None and left not in self.unfinished:
            if not anew and (generation := self._left(left, build)) is not None:
                self.unfinished[left] = generation
                return left
            shutil.rmtree(self.folder / left, ignore_errors=True)
        name, self.unfinished[name] = self.create(build)
        write_atomically(self.folder / BUILDING_NAME, name + "\n")
        return name

    def _left(self, name: str, build: Build) -> EdgeGeneration | None:
        """Open the generation that a rebuild left, None if it cannot be used for `build`."""
        folder = self.folder / name
        try:
            if read_build(self.collection, read_marker(folder, _GENERATION_KIND) or {}) != build:
                return None
            return EdgeGeneration.load(folder / "shard", self.collection, build.size)
        except (CharacterMemoryError, OSError):  # it was cut off while it was made
            return None

    def switch(self, name: str, build: Build, applied: int) -> None:
        """Make generation `name` the serving one; before the rename the old one serves, after it the new."""
        generation = self.unfinished[name]
        generation.flush(applied)
        write_atomically(self.folder / CURRENT_NAME, name + "\n")
        old_name, old = self.name, self._serving
        del self.unfinished[name]
        self.name, self.build, self._serving, self._rested_at = name, build, generation, None
        _open_stores.used(self)
        if old is not None:
            try:
                old.close()
            except VectorDatabaseError as error:  # nothing of it is needed any more
                logger.warning("closing %s failed: %s", self.folder / old_name, error)
        shutil.rmtree(self.folder / old_name)
        if self._building() is None:
            (self.folder / BUILDING_NAME).unlink(missing_ok=True)

    def leave(self, name: str) -> None:
        """Flush and close an unfinished generation."""
        self.unfinished.pop(name).close()

    def close(self) -> None:
        """Flush and release everything; called by the registry when the last index closed."""
        with self.lock:
            try:
                for name in list(self.unfinished):
                    self.leave(name)
                if self._serving is not None:
                    self._serving.close()
            finally:
                self._serving = None
                _open_stores.closed(self)
                self.owner.release()


_stores: HandleRegistry[_EdgeStore] = HandleRegistry()


class EdgeVectorIndex:
    """`VectorIndex` on Qdrant Edge. Indexes of one folder in one process share its shard."""

    def __init__(
        self,
        root: Path,
        collection: str,
        size: int,
        fingerprint: str,
        language: str = DEFAULT_LANGUAGE,
        on_mismatch: OnMismatch = "refuse",
    ) -> None:
        """Open or create the index of `collection` under `root`.

        Raises:
            OutOfDomain: the collection's name or the language is not allowed; no folder was touched.
            NotAStore: the folder holds something else.
            StoreInUse: another process has it open.
            CollectionIncompatible: the folder is another collection's, or (with `refuse`) the index was made
                with another vector size or fingerprint; the data stay as they were.
            UnsupportedSchemaVersion: (with `refuse`) it holds records of another version.
            VectorDatabaseError: the generation that serves is missing. One that the engine cannot load is no error
                here but of every call, save those of a rebuild.
        """
        validate_collection_name(collection)
        self._collection = collection
        self._lexical = Lexical(language)
        self._build = Build(size=size, fingerprint=fingerprint, lexical=self._lexical.fingerprint)
        self._folder = Path(root) / collection
        self._closed = False
        self._store = _stores.acquire(self._folder, lambda: _EdgeStore(self._folder, collection, self._build))
        if on_mismatch == "refuse":
            try:
                check_fit(collection, self._build, self._store.build)
            except BaseException:
                self.close()
                raise

    @contextmanager
    def _use(self) -> Iterator[_EdgeStore]:
        # Checked before the lock: in a forked child another thread of the parent may hold it for ever.
        self._check()
        try:
            with self._store.lock:
                self._check()
                yield self._store
        finally:
            _open_stores.relieve()  # without the lock, which is re-entrant: under it this store would look idle

    def _check(self) -> None:
        self._store.owner.check()
        if self._closed:
            raise StoreClosedError(store=STORE_NAME)

    def search(
        self, embedding: Vector | None, text: str | None, limit: int, scope: Sequence[ObjectType]
    ) -> HybridHits:
        """See `VectorIndex.search`."""
        self._check()
        if limit <= 0 or not scope or (embedding is None and text is None):
            return HybridHits(dense=search.NOT_REQUESTED, lexical=search.NOT_REQUESTED)
        terms = None if text is None else self._lexical.query(text)
        with self._use() as store:
            check_fit(
                self._collection,
                self._build,
                store.build,
                dense=embedding is not None,
                lexical=text is not None,
            )
            return store.generation.search(embedding, terms, text is not None, limit, scope)

    def write(self, upserts: Sequence[VectorRecord], deletes: Sequence[MemoryObjectRef], high: int) -> None:
        """See `VectorIndex.write`."""
        with self._use() as store:
            if upserts:
                check_fit(self._collection, self._build, store.build)
            store.generation.write(self._lexical, upserts, deletes, high)

    def present(self, refs: Sequence[MemoryObjectRef]) -> dict[MemoryObjectRef, str]:
        """See `VectorIndex.present`."""
        with self._use() as store:
            return store.generation.present(refs)

    def cursor(self) -> Cursor:
        """See `VectorIndex.cursor`."""
        with self._use() as store:
            return store.cursor()

    def flush(self, applied: int | None = None) -> None:
        """See `VectorIndex.flush`."""
        with self._use() as store:
            store.flush(applied)

    def scan(self, after: str | None, limit: int) -> tuple[list[tuple[MemoryObjectRef, str]], str | None]:
        """See `VectorIndex.scan`."""
        with self._use() as store:
            return store.generation.scan(after, limit)

    def count(self) -> int:
        """See `VectorIndex.count`."""
        with self._use() as store:
            return store.generation.count()

    def begin_rebuild(self, anew: bool = False) -> EdgeRebuild:
        """See `VectorIndex.begin_rebuild`; of several at a time only the latest can be gone on with."""
        with self._use() as store:
            return EdgeRebuild(self, store.begin(self._build, anew))

    def backup(self, folder: Path) -> bool:
        """See `VectorIndex.backup`; a copy of a flushed shard is loadable (consistency.md §5)."""
        with self._use() as store:
            store.flush(None)
            shutil.copytree(self._folder / store.name, folder / store.name)
            marker = read_marker(self._folder, KIND) or {}
            write_marker(folder, marker)
            write_atomically(folder / CURRENT_NAME, store.name + "\n")
        return True

    def close(self) -> None:
        """See `VectorIndex.close`. In a forked child there is nothing to release, and nothing is touched."""
        if self._closed or self._store.owner.forked:
            return
        self._closed = True
        _stores.release(self._folder, self._store)


class EdgeRebuild:
    """A new generation beside the serving one; unusable after `switch` or `leave`."""

    def __init__(self, index: EdgeVectorIndex, name: str) -> None:
        self._index = index
        self._name = name

    @contextmanager
    def _use(self) -> Iterator[tuple[_EdgeStore, EdgeGeneration]]:
        with self._index._use() as store:
            if self._name not in store.unfinished:
                raise StoreClosedError(store=f"{STORE_NAME} generation {self._name}")
            yield store, store.unfinished[self._name]

    def write(self, upserts: Sequence[VectorRecord], deletes: Sequence[MemoryObjectRef], high: int) -> None:
        """See `VectorRebuild.write`."""
        with self._use() as (_, generation):
            generation.write(self._index._lexical, upserts, deletes, high)

    def present(self, refs: Sequence[MemoryObjectRef]) -> dict[MemoryObjectRef, str]:
        """See `VectorRebuild.present`."""
        with self._use() as (_, generation):
            return generation.present(refs)

    def scan(self, after: str | None, limit: int) -> tuple[list[tuple[MemoryObjectRef, str]], str | None]:
        """See `VectorRebuild.scan`."""
        with self._use() as (_, generation):
            return generation.scan(after, limit)

    def switch(self, applied: int) -> None:
        """See `VectorRebuild.switch`."""
        with self._use() as (store, _):
            store.switch(self._name, self._index._build, applied)

    def leave(self) -> None:
        """See `VectorRebuild.leave`."""
        with self._use() as (store, _):
            store.leave(self._name)
