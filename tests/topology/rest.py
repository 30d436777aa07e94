"""A program that uses the API of the running deployment with its key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import httpx

NEW_KEY = """
from django.contrib.auth import get_user_model
from memory_app.models import ApiKey
user = get_user_model().objects.create_superuser("operator", password="unused")
print(ApiKey.objects.issue(user, "tests", ["read", "write", "operate"])[1])
"""
"""Run by `manage.py shell`; prints a key."""


@dataclass
class Rest:
    """One collection's addresses."""

    client: httpx.Client
    collection: str

    def send(self, method: str, path: str, body: Any = None) -> httpx.Response:
        """Call an address below the collection."""
        return self.client.request(method, f"/api/v1/collections/{self.collection}/{path}", json=body)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Call an address that must answer well, and return the answer's document."""
        answer = self.send(method, path, body)
        assert answer.status_code in (200, 201), answer.text
        return answer.json()

    def remember(self, text: str) -> Any:
        """Remember one text."""
        return self.call("POST", "remember", {"content": text})

    def open_repairs(self) -> dict[str, int]:
        """Return how many repairs are waiting and claimed."""
        summary = self.call("GET", "repairs/summary")
        return {status: summary[status] for status in ("pending", "claimed")}
