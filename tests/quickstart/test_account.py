"""The account and the keys that the quickstart makes."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth import authenticate, get_user_model
from django.utils import timezone

from memory_app.models import ApiKey, MemoryCollection
from memory_app.models.apikeys import SCOPES
from memory_app.quickstart.account import KEY_LIFE, NAME, give_access

pytestmark = pytest.mark.django_db


def test_the_account_is_made_once_and_every_run_gives_a_key() -> None:
    row = MemoryCollection.objects.create(name="life")
    first, second = give_access("life"), give_access("life")
    user = authenticate(username=first.username, password=first.password)
    assert user is not None and user == get_user_model().objects.get(username=NAME)
    assert second.password is None
    row.refresh_from_db()
    assert row.owner == user
    keys = [ApiKey.objects.presented(access.key) for access in (first, second)]
    assert len({key.pk for key in keys if key is not None}) == 2
    for key in keys:
        assert key is not None and key.scopes == list(SCOPES)
        assert list(key.collections.all()) == [row]
        assert key.expires_at is not None and key.expires_at - timezone.now() <= KEY_LIFE


def test_it_may_nothing_outside_this_app() -> None:
    MemoryCollection.objects.create(name="life")
    give_access("life")
    user = get_user_model().objects.get()
    assert user.is_staff and not user.is_superuser
    assert {name.split(".")[0] for name in user.get_all_permissions()} == {"memory_app"}
    assert user.has_perm("memory_app.add_memorycollection")


def test_somebody_elses_collection_stays_theirs_and_old_keys_go() -> None:
    owner = get_user_model().objects.create_user("ann")
    row = MemoryCollection.objects.create(name="life", owner=owner)
    old = give_access("life")
    ApiKey.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    new = give_access("life")
    row.refresh_from_db()
    assert row.owner == owner
    assert ApiKey.objects.presented(old.key) is None
    assert [key.prefix for key in ApiKey.objects.all()] == [new.key.split("_")[1]]
