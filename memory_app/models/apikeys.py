"""API keys: secrets of programs, kept as hashes, bound to collections and to what they may do there."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from memory_app.models.collections import MemoryCollection
from memory_app.models.primary import PrimaryManager

SCOPES = ("read", "write", "review", "operate")
"""What a key may be allowed; the actions of `memory_app.api.actions`."""
_MARK = "cm"


def valid_scopes(value: Any) -> None:
    """Refuse what is no list of known scopes.

    Raises:
        ValidationError: naming the scopes there are.
    """
    if not isinstance(value, list) or not value or any(scope not in SCOPES for scope in value):
        raise ValidationError(_("A list of scopes is needed, out of: %s") % ", ".join(SCOPES))


class ApiKeyManager(PrimaryManager["ApiKey"]):
    """Makes keys and finds them again."""

    def issue(
        self,
        user: Any,
        name: str,
        scopes: Iterable[str],
        collections: Iterable[MemoryCollection] = (),
        expires_at: datetime | None = None,
    ) -> tuple[ApiKey, str]:
        """Make a key; return its row and the text that is shown once and kept nowhere.

        Raises:
            ValidationError: a scope is unknown, or there is none.
        """
        prefix, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        key = self.model(
            user=user,
            name=name,
            prefix=prefix,
            digest=_digest(secret),
            scopes=list(scopes),
            expires_at=expires_at,
        )
        key.full_clean()
        key.save()
        key.collections.set(collections)
        return key, f"{_MARK}_{prefix}_{secret}"

    def presented(self, text: str) -> ApiKey | None:
        """Return the valid key that `text` is; None for one that is unknown, wrong, expired or withdrawn.

        The secret has 256 random bits, so that one round of SHA-256 keeps it; the comparison takes the same
        time whatever is wrong.
        """
        mark, _sep, rest = text.partition("_")
        prefix, _sep, secret = rest.partition("_")
        key = self.select_related("user").filter(prefix=prefix).first() if mark == _MARK else None
        expected = key.digest if key else _digest("")
        right = hmac.compare_digest(expected, _digest(secret))
        return key if key is not None and right and key.valid else None


class ApiKey(models.Model):
    """One program's key. What its user may not do, it may not do either."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        verbose_name=_("user"),
        on_delete=models.CASCADE,
        related_name="memory_api_keys",
    )
    name = models.CharField(_("name"), max_length=100)
    prefix = models.CharField(_("prefix"), max_length=12, unique=True, editable=False)
    digest = models.CharField(_("digest"), max_length=64, editable=False)
    collections = models.ManyToManyField(
        MemoryCollection, verbose_name=_("collections"), blank=True, related_name="api_keys"
    )
    scopes = models.JSONField(_("scopes"), default=list, validators=[valid_scopes])
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)
    expires_at = models.DateTimeField(_("expires at"), null=True, blank=True)
    revoked_at = models.DateTimeField(_("withdrawn at"), null=True, blank=True)

    objects = ApiKeyManager()

    class Meta:
        """Names and order."""

        verbose_name = _("API key")
        verbose_name_plural = _("API keys")
        ordering = ("name", "prefix")

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix})"

    @property
    def valid(self) -> bool:
        """Whether it serves now."""
        expired = self.expires_at is not None and self.expires_at <= timezone.now()
        return self.revoked_at is None and not expired and self.user.is_active


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
