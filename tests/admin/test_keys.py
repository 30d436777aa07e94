"""API keys in the admin: a key is made for whoever makes it, shown once, serves, and is withdrawn."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from memory_app.models import ApiKey, MemoryCollection
from tests.admin.test_database_side import staff

pytestmark = pytest.mark.django_db

LIST = "admin:memory_app_apikey_changelist"
ADD = "admin:memory_app_apikey_add"
NOBODY = {"name": "bot", "scopes": ["read", "write"], "expires_at_0": "", "expires_at_1": ""}


def made(client: Client, **fields: Any) -> tuple[ApiKey, str]:
    answer = client.post(reverse(ADD), NOBODY | fields, follow=True)
    (text,) = set(re.findall(r"cm_[0-9a-f]{12}_[\w-]+", answer.content.decode()))
    return ApiKey.objects.get(), text


def test_a_key_is_shown_once_serves_and_is_withdrawn(client: Client) -> None:
    staff(client, "add_apikey", "view_apikey", "change_apikey", "view_memorycollection")
    ada = MemoryCollection.objects.create(name="ada")
    key, text = made(client, collections=[ada.pk])
    assert (key.user.get_username(), key.scopes, [*key.collections.all()]) == ("op", ["read", "write"], [ada])
    assert ApiKey.objects.presented(text) == key
    for page in (reverse(LIST), reverse("admin:memory_app_apikey_change", args=[key.pk])):
        answer = client.get(page)
        assert key.prefix in answer.content.decode() and text not in answer.content.decode()
        assert key.digest not in answer.content.decode()
    client.post(reverse(LIST), {"action": "withdraw", "_selected_action": [key.pk]})
    assert ApiKey.objects.presented(text) is None


def test_nobody_but_a_superuser_makes_a_key_for_somebody_else(client: Client, admin_client: Client) -> None:
    root = User.objects.get(username="admin")
    staff(client, "add_apikey", "view_apikey")
    assert 'name="user"' not in client.get(reverse(ADD)).content.decode()
    key, _ = made(client, user=root.pk)
    assert key.user.get_username() == "op"
    ApiKey.objects.all().delete()
    key, _ = made(admin_client, user=User.objects.get(username="op").pk)
    assert key.user.get_username() == "op"


def test_without_the_permissions_keys_are_neither_made_nor_withdrawn_nor_deleted(client: Client) -> None:
    staff(client, "view_apikey", "delete_apikey")
    key, text = ApiKey.objects.issue(User.objects.get(), "bot", ["read"])
    assert client.get(reverse(ADD)).status_code == 403
    for action in ("withdraw", "delete_selected"):
        client.post(reverse(LIST), {"action": action, "_selected_action": [key.pk]})
    assert ApiKey.objects.presented(text) == key


def test_a_key_that_would_never_serve_is_refused(client: Client) -> None:
    staff(client, "add_apikey")
    past = {"expires_at_0": "2020-01-01", "expires_at_1": "10:00"}
    answer = client.post(reverse(ADD), NOBODY | past)
    assert "This time has passed." in answer.content.decode() and not ApiKey.objects.exists()
    answer = client.post(reverse(ADD), NOBODY | {"expires_at_0": "2999-01-01", "expires_at_1": "10:00"})
    assert answer.status_code == 302 and ApiKey.objects.get().valid


def test_a_key_without_a_scope_is_refused_and_foreign_collections_are_not_offered(client: Client) -> None:
    staff(client, "add_apikey")
    MemoryCollection.objects.create(name="strangers")
    page = client.get(reverse(ADD)).content.decode()
    assert "strangers" not in page
    answer = client.post(reverse(ADD), NOBODY | {"scopes": []})
    assert answer.status_code == 200 and not ApiKey.objects.exists()
