"""The host's own keys for memories, and the outcomes of requests that may be repeated."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from memory_app.models.primary import PrimaryManager


class ExternalKey(models.Model):
    """A key of the host's (a user id, a place) and the memory object it stands for. Optional (DESIGN R13)."""

    collection = models.CharField(_("collection"), max_length=128)
    key = models.CharField(_("key"), max_length=255)
    object_type = models.CharField(_("object type"), max_length=16)
    object_id = models.UUIDField(_("object id"))
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)

    objects = PrimaryManager["ExternalKey"]()

    class Meta:
        """A key means one object."""

        verbose_name = _("external key")
        verbose_name_plural = _("external keys")
        constraints = [models.UniqueConstraint(fields=("collection", "key"), name="cm_external_key_once")]
        indexes = [
            models.Index(fields=("collection", "object_type", "object_id"), name="cm_external_key_object")
        ]

    def __str__(self) -> str:
        return self.key


class IdempotencyRecord(models.Model):
    """The outcome of one request with an `Idempotency-Key`; the unique row is the lock."""

    class State(models.TextChoices):
        """Whether the outcome is known."""

        RUNNING = "running", _("running")
        DONE = "done", _("done")

    principal = models.CharField(_("principal"), max_length=128)
    collection = models.CharField(_("collection"), max_length=128)
    key = models.CharField(_("key"), max_length=255)
    fingerprint = models.CharField(_("fingerprint"), max_length=64)
    state = models.CharField(_("state"), max_length=8, choices=State.choices, default=State.RUNNING)
    lease_expires_at = models.DateTimeField(_("lease expires at"))
    status = models.PositiveSmallIntegerField(_("status"), null=True)
    body = models.JSONField(_("body"), null=True)
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)
    expires_at = models.DateTimeField(_("expires at"))

    objects = PrimaryManager["IdempotencyRecord"]()

    class Meta:
        """One row a principal, collection and key."""

        verbose_name = _("idempotency record")
        verbose_name_plural = _("idempotency records")
        constraints = [
            models.UniqueConstraint(fields=("principal", "collection", "key"), name="cm_idempotency_once")
        ]
        indexes = [models.Index(fields=("expires_at",), name="cm_idempotency_age")]

    def __str__(self) -> str:
        return self.key
