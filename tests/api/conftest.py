"""The API over memories in memory, called through Django's test client."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.cache import cache
from django.test import Client

from memory_app.models import ApiKey, MemoryCollection
from memory_app.runtime import close_memories

ROOT = "/api/v1"
ALL = ("read", "write", "review", "operate")


@dataclass
class Reply:
    """One answer."""

    status: int
    headers: Any
    raw: bytes
    json: Any = None

    @property
    def code(self) -> str:
        """The problem's code."""
        return str(self.json["code"])


@dataclass
class Api:
    """A caller: calls addresses below one collection, with one credential."""

    collection: str
    token: str | None = None
    client: Client = field(default_factory=lambda: Client(raise_request_exception=False))

    def call(
        self, method: str, path: str, body: Any = None, raw: bytes | None = None, **headers: str
    ) -> Reply:
        """Call an address; one that starts with `/` stands below the API's root, others in the collection."""
        url = ROOT + (path if path.startswith("/") else f"/collections/{self.collection}/{path}")
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.token is not None:
            sent["Authorization"] = f"Bearer {self.token}"
        data = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
        kind = sent.pop("Content-Type", "application/json")
        response = self.client.generic(method, url, data, content_type=kind, headers=sent)
        content = b"".join(response) if response.streaming else response.content
        decoded = json.loads(content) if content and "json" in response["Content-Type"] else None
        return Reply(response.status_code, response.headers, content, decoded)

    def get(self, path: str, **headers: str) -> Reply:
        """GET."""
        return self.call("GET", path, **headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Reply:
        """POST a JSON body."""
        return self.call("POST", path, body, **headers)

    def put(self, path: str, body: Any = None, **headers: str) -> Reply:
        """PUT a JSON body."""
        return self.call("PUT", path, body, **headers)

    def remember(self, text: str, **fields: Any) -> dict[str, Any]:
        """Remember one text; return the references of what was stored, by object type."""
        reply = self.post("remember", {"content": text, **fields})
        assert reply.status == 201, reply.raw
        return {ref["object_type"]: ref for ref in reply.json["persisted_object_ids"]}


Tenant = Callable[..., Api]


@pytest.fixture(autouse=True)
def stores(tmp_path: Path, settings: Any, db: None) -> Iterator[None]:
    """Stores of the test's own, the graph in memory; an embedder that loads nothing; no throttle counts yet."""
    settings.CHARACTER_MEMORY = {
        "GRAPH_STORE_MODE": "in_memory",
        "OXIGRAPH_PATH": str(tmp_path / "graph"),
        "VECTOR_STORE_PATH": str(tmp_path / "vectors"),
        "RETRIEVAL_STATS_PATH": str(tmp_path / "statistics.sqlite3"),
        "WRITER_LOCK_PATH": str(tmp_path / "locks"),
        "EMBEDDING_PROVIDER": "hashing",
        "FENCE_SECRET": "a secret of the tests",
    }
    cache.clear()
    yield
    close_memories()


@pytest.fixture
def tenant() -> Tenant:
    """`tenant("ada")`: a user of their own, their collection of that name, and a key for it."""

    def make(name: str, scopes: tuple[str, ...] = ALL, operator: bool = True, **user: Any) -> Api:
        owner = get_user_model().objects.create_user(username=f"{name}-owner", **user)
        if operator:
            permit(owner, "operate_memory")
        collection = MemoryCollection.objects.create(name=name, owner=owner)
        _key, token = ApiKey.objects.issue(owner, f"key of {name}", scopes, [collection])
        return Api(name, token)

    return make


@pytest.fixture
def api(tenant: Tenant) -> Api:
    """The owner of `ada`, who may operate too."""
    return tenant("ada")


def permit(user: Any, codename: str) -> None:
    """Give a user one permission of the app."""
    from django.contrib.auth.models import Permission

    user.user_permissions.add(Permission.objects.get(codename=codename, content_type__app_label="memory_app"))
