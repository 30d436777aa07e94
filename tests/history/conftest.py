"""The storages that every case runs on."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from charactermemory.history import BaseStorage, MemoryStorage, SQLiteStorage

MakeStorage = Callable[..., BaseStorage]


STORAGES = [
    "memory",
    "sqlite",
    pytest.param("django", marks=pytest.mark.django_db(transaction=True)),
    "django on postgres",
]


@pytest.fixture(params=STORAGES)
def make_storage(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[MakeStorage]:
    """Make an empty storage of one kind; options are those of `BaseStorage`."""
    made: list[BaseStorage] = []
    database = "default"
    if request.param.startswith("django"):
        request.getfixturevalue("closing_threads")
    if request.param == "django on postgres":
        database = request.getfixturevalue("postgres")

    def make(max_messages: int | None = None, **options: Any) -> BaseStorage:
        if request.param == "memory":
            storage: BaseStorage = MemoryStorage(max_messages, **options)
        elif request.param == "sqlite":
            storage = SQLiteStorage(tmp_path / f"chat-{len(made)}.db", max_messages, **options)
        else:
            from memory_app.chat.storage import DjangoStorage

            # One database for all that a test makes: a name each keeps them apart.
            owner = f"storage {len(made)}" if made else ""
            storage = DjangoStorage(max_messages, **{"owner": owner, "using": database, **options})
        made.append(storage)
        return storage

    yield make
    for storage in made:
        if isinstance(storage, SQLiteStorage):
            storage.close()


@pytest.fixture
def storage(make_storage: MakeStorage) -> BaseStorage:
    return make_storage()
