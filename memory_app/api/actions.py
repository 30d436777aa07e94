"""What can be done to a memory, and who does it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from django.db import models
from django.utils.translation import gettext_lazy as _

from memory_app.models.apikeys import ApiKey


class Action(models.TextChoices):
    """The four things an access policy grants, and the scopes of an API key."""

    READ = "read", _("recall and read")
    WRITE = "write", _("remember and link")
    REVIEW = "review", _("correct and forget")
    OPERATE = "operate", _("browse, repair, create and archive")


@dataclass(frozen=True)
class Principal:
    """Who makes a request: a user, by way of an API key or not.

    A key narrows what its user may do and never widens it.
    """

    user: Any
    key: ApiKey | None = None

    @property
    def scopes(self) -> Collection[str]:
        """The actions that its key leaves; all of them without one."""
        return tuple(Action) if self.key is None else self.key.scopes

    @property
    def id(self) -> str:
        """The name under which throttles and idempotency keys count."""
        return f"key:{self.key.prefix}" if self.key else f"user:{self.user.pk}"
