"""Who calls the quickstart's server: an account of its own, and an API key for the sample life."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.apps import apps
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.core.management import call_command
from django.utils import timezone

from memory_app.models import ApiKey, MemoryCollection
from memory_app.models.apikeys import SCOPES

NAME = "quickstart"
"""Of the account, and of its keys."""
KEY_LIFE = timedelta(days=30)
"""How long a key of the quickstart serves. Every run makes one, because only a hash of the last is kept."""


@dataclass(frozen=True)
class Access:
    """What a newcomer needs to get in: the account, its password if it was made now, and a new API key."""

    username: str
    password: str | None
    key: str


def make_tables() -> None:
    """Make the tables of the app, and those that accounts and signing in to the admin need."""
    installed = {config.label for config in apps.get_app_configs()}
    for label in dict.fromkeys((get_user_model()._meta.app_label, "auth", "memory_app", "sessions", "admin")):
        if label in installed:
            call_command("migrate", label, verbosity=0, interactive=False)


def give_access(collection: str) -> Access:
    """Return a way in to a collection; the account is made once and owns the collection if nobody does.

    It is an ordinary member of staff with the permissions of this app alone: in a host's project it may see and
    do nothing else.
    """
    users: Any = get_user_model()
    user = users.objects.filter(**{users.USERNAME_FIELD: NAME}).first()
    password = None
    if user is None:
        password = secrets.token_urlsafe(9)
        user = users.objects.create_user(**{users.USERNAME_FIELD: NAME}, password=password, is_staff=True)
        user.user_permissions.set(Permission.objects.filter(content_type__app_label="memory_app"))
    row = MemoryCollection.objects.get(name=collection)
    if row.owner is None:
        row.owner = user
        row.save(update_fields=["owner"])
    now = timezone.now()
    ApiKey.objects.filter(user=user, name=NAME, expires_at__lte=now).delete()
    _key, text = ApiKey.objects.issue(user, NAME, SCOPES, [row], expires_at=now + KEY_LIFE)
    return Access(NAME, password, text)
