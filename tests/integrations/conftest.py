"""A stub of the API and clients that talk to it."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from charactermemory.history import BaseStorage, HistoryManager, SQLiteStorage
from charactermemory.integrations.openai import with_history
from charactermemory.testing.openai_stub import OpenAIStub

openai = pytest.importorskip("openai")


@pytest.fixture
def stub() -> Iterator[OpenAIStub]:
    with OpenAIStub() as running:
        yield running


STORAGES = [
    "sqlite",
    pytest.param("django", marks=pytest.mark.django_db(transaction=True)),
    "django on postgres",
]


@pytest.fixture(params=STORAGES)
def storage(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[BaseStorage]:
    """The storages that last, each on an empty database."""
    if request.param == "sqlite":
        stored = SQLiteStorage(tmp_path / "chat.db")
        yield stored
        stored.close()
        return
    from memory_app.chat.storage import DjangoStorage

    request.getfixturevalue("closing_threads")
    on_postgres = request.param == "django on postgres"
    yield DjangoStorage(using=request.getfixturevalue("postgres") if on_postgres else "default")


@pytest.fixture
def manager(storage: BaseStorage) -> HistoryManager:
    return HistoryManager(storage)


@pytest.fixture(scope="session")
def bare_client() -> Iterator[Any]:
    """A client whose copies share its connections; making one from nothing takes a fifth of a second."""
    with openai.OpenAI(base_url="http://127.0.0.1:9/v1", api_key="any", max_retries=0, timeout=10) as client:
        yield client


@pytest.fixture
def make_client(stub: OpenAIStub, bare_client: Any) -> Callable[..., Any]:
    """Make a client for the stub, wrapped when arguments of `with_history` are given."""

    def make(**history: Any) -> Any:
        client = bare_client.copy(base_url=stub.url)
        return with_history(**history)(client) if history else client

    return make


@pytest.fixture
def client(make_client: Callable[..., Any], manager: HistoryManager) -> Any:
    return make_client(history_manager=manager)


@pytest.fixture
def ask(client: Any) -> Callable[..., Any]:
    """Send messages, or a text of the user's, in thread "t"."""

    def ask(*messages: Any, **options: Any) -> Any:
        sent = [{"role": "user", "content": item} if isinstance(item, str) else item for item in messages]
        return client.chat.completions.create(model="m", messages=sent, **{"thread_id": "t", **options})

    return ask
