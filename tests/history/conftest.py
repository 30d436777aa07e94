"""The storages that every case runs on."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from charactermemory.history import BaseStorage, MemoryStorage, SQLiteStorage

MakeStorage = Callable[..., BaseStorage]


@pytest.fixture(params=["memory", "sqlite", "django", "django on postgres"])
def make_storage(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[MakeStorage]:
    """Make an empty storage of one kind; options are those of `BaseStorage`."""
    made: list[BaseStorage] = []
    database = request.getfixturevalue(DATABASES[request.param]) if request.param in DATABASES else None

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


DATABASES = {"django": "committing", "django on postgres": "postgres"}


@pytest.fixture
def committing(django_db_setup: None, django_db_blocker: Any, closing_threads: None) -> Iterator[str]:
    """The alias of Django's test database, without a transaction around the test, nor a flush after it."""
    from memory_app.models import ChatThread

    with django_db_blocker.unblock():
        yield "default"
        ChatThread.objects.all().delete()


@pytest.fixture
def storage(make_storage: MakeStorage) -> BaseStorage:
    return make_storage()
