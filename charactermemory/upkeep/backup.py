"""Backup: a copy of a memory's stores, taken while it serves, from which opening only ever has to catch up."""

from __future__ import annotations

import os
from pathlib import Path

from charactermemory.config import Settings
from charactermemory.domain.model import Model
from charactermemory.errors import InvalidInput
from charactermemory.ports.stores import Stores

VECTORS_FOLDER = "vectors"
GRAPH_FOLDER = "graph"


class BackupReport(Model):
    """Which stores were copied; one that is a service of its own is backed up by its own means, or rebuilt.

    Attributes:
        graph: whether the graph was copied.
        vectors: whether the index was copied.
        vectors_applied: the last commit that the copied index is known to reflect.
        head: a commit that the copied graph reaches at least.
    """

    graph: bool
    vectors: bool
    vectors_applied: int
    head: int


def require_outside_stores(settings: Settings, folder: Path) -> None:
    """Check that what is written below `folder` comes into none of the stores' folders.

    What lies there is taken for a collection's, and goes with the disk that a backup is to outlive.

    Raises:
        InvalidInput: it would come into one; names the setting. Nothing was written.
    """
    stores = {
        "OXIGRAPH_PATH": settings.oxigraph_path if settings.graph_store_mode == "persistent" else None,
        "VECTOR_STORE_PATH": settings.vector_store_path if settings.vector_store_mode == "embedded" else None,
        "WRITER_LOCK_PATH": settings.writer_lock_path if settings.graph_store_mode == "service" else None,
    }
    for written in (folder, folder / GRAPH_FOLDER, folder / VECTORS_FOLDER):
        real = Path(os.path.realpath(written))
        for key, store in stores.items():
            if store is not None and real.is_relative_to(os.path.realpath(store)):
                problem = f"{written} lies in the folder of {key}, {store}; name a folder outside of it"
                raise InvalidInput((("/folder", problem),))


def backup(stores: Stores, folder: Path) -> BackupReport:
    """Copy the index, then the graph, into `folder`; the sub-folders are store folders as they were.

    The graph comes last: a restored index that lacks commits catches up, a restored graph that lacks them went
    back (consistency.md R5).

    Raises:
        StoreError: a store could not be copied.
        OSError: the folder cannot be written.
    """
    name = stores.graph.collection
    with stores.deriving:
        vectors = stores.vectors.backup(folder / VECTORS_FOLDER / name)
        applied = stores.vectors.cursor().applied
    head = stores.graph.head()
    graph = stores.graph.backup(folder / GRAPH_FOLDER / name)
    return BackupReport(graph=graph, vectors=vectors, vectors_applied=applied, head=head)
