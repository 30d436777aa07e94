"""How each kind of index is opened."""

import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from charactermemory.adapters.qdrant.edge import EdgeVectorIndex
from charactermemory.adapters.qdrant.service import QdrantVectorIndex
from charactermemory.ports.vectors import VectorIndex

FINGERPRINT = "hashing:4"


class Locked:
    """A client whose calls come one at a time: local mode is not thread-safe."""

    def __init__(self, client):
        self._client = client
        self._lock = threading.RLock()

    def __getattr__(self, name):
        value = getattr(self._client, name)
        if not callable(value):
            return value

        def call(*args, **kwargs):
            with self._lock:
                return value(*args, **kwargs)

        return call


@pytest.fixture
def local_client() -> Iterator[Locked]:
    from qdrant_client import QdrantClient

    client = QdrantClient(":memory:")
    yield Locked(client)
    client.close()


@pytest.fixture
def opened() -> Iterator[list[VectorIndex]]:
    indexes: list[VectorIndex] = []
    yield indexes
    for index in indexes:
        index.close()


@pytest.fixture
def root() -> Iterator[Path]:
    """A folder that is yet to be made, in memory where the system offers that.

    Making an index is some fifty syncs; no test here asks what a power cut leaves.
    """
    memory = "/dev/shm"
    base = Path(tempfile.mkdtemp(prefix="vectors-", dir=memory if os.access(memory, os.W_OK) else None))
    yield base / "vectors"
    shutil.rmtree(base)


@pytest.fixture
def open_edge(root: Path, opened: list[VectorIndex]) -> Callable[..., EdgeVectorIndex]:
    def open_index(collection="contract", size=4, fingerprint=FINGERPRINT, **options) -> EdgeVectorIndex:
        index = EdgeVectorIndex(root, collection, size, fingerprint, **options)
        opened.append(index)
        return index

    return open_index


@pytest.fixture
def open_service_memory(local_client: Locked, opened: list[VectorIndex]) -> Callable[..., QdrantVectorIndex]:
    def open_index(collection="contract", size=4, fingerprint=FINGERPRINT, **options) -> QdrantVectorIndex:
        index = QdrantVectorIndex(local_client, collection, size, fingerprint, **options)
        opened.append(index)
        return index

    return open_index
