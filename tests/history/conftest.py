"""The storages that every case runs on."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from charactermemory.history import BaseStorage, MemoryStorage, SQLiteStorage

MakeStorage = Callable[..., BaseStorage]


@pytest.fixture(params=["memory", "sqlite"])
def make_storage(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[MakeStorage]:
    """Make an empty storage of one kind; options are those of `BaseStorage`."""
    made: list[BaseStorage] = []

    def make(max_messages: int | None = None, **options: Any) -> BaseStorage:
        if request.param == "memory":
            storage: BaseStorage = MemoryStorage(max_messages, **options)
        else:
            storage = SQLiteStorage(tmp_path / f"chat-{len(made)}.db", max_messages, **options)
        made.append(storage)
        return storage

    yield make
    for storage in made:
        if isinstance(storage, SQLiteStorage):
            storage.close()


@pytest.fixture
def storage(make_storage: MakeStorage) -> BaseStorage:
    return make_storage()
