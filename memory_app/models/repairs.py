"""The operator's view and the work queue of derived writes that failed or are overdue (django-practice §5).

Ids and causes only. One open row for each (collection, store, object).
"""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from memory_app.models.primary import PrimaryManager


class RepairMarker(models.Model):
    """One object that a derived store may not have as the graph says. Repair means reconcile."""

    class Store(models.TextChoices):
        """Which derived store."""

        VECTOR = "vector", _("vector index")
        STATISTICS = "statistics", _("statistics")

    class Status(models.TextChoices):
        """Where the repair stands."""

        PENDING = "pending", _("pending")
        CLAIMED = "claimed", _("claimed")
        SUCCEEDED = "succeeded", _("succeeded")
        DEAD = "dead", _("dead")
        CANCELLED = "cancelled", _("cancelled")

    OPEN = (Status.PENDING, Status.CLAIMED)

    collection = models.CharField(_("collection"), max_length=128)
    store = models.CharField(_("store"), max_length=16, choices=Store.choices)
    object_type = models.CharField(_("object type"), max_length=16)
    object_id = models.UUIDField(_("object id"))
    origin = models.CharField(_("origin"), max_length=16)
    status = models.CharField(_("status"), max_length=16, choices=Status.choices, default=Status.PENDING)
    cause_code = models.CharField(_("cause"), max_length=64)
    detail = models.CharField(_("detail"), max_length=500, blank=True)
    retryable = models.BooleanField(_("retryable"), default=True)
    attempts = models.PositiveSmallIntegerField(_("attempts"), default=0)
    max_attempts = models.PositiveSmallIntegerField(_("most attempts"), default=8)
    available_at = models.DateTimeField(_("available at"))
    due_since = models.DateTimeField(_("due since"))
    claimed_by = models.CharField(_("claimed by"), max_length=64, blank=True)
    claim_token = models.UUIDField(_("claim token"), null=True)
    lease_expires_at = models.DateTimeField(_("lease expires at"), null=True)
    dirty = models.BooleanField(
        _("asked for again"), default=False, help_text=_("Asked for again while it was being repaired.")
    )
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)
    completed_at = models.DateTimeField(_("completed at"), null=True)

    objects = PrimaryManager["RepairMarker"]()

    class Meta:
        """One open row an object and store; one index for each arm of the claim."""

        verbose_name = _("repair marker")
        verbose_name_plural = _("repair markers")
        ordering = ("-id",)
        permissions = (("retry_repairmarker", _("Can requeue and cancel repairs")),)
        constraints = [
            models.UniqueConstraint(
                fields=("collection", "store", "object_type", "object_id"),
                condition=models.Q(status__in=("pending", "claimed")),
                name="cm_repair_open_once",
            ),
        ]
        indexes = [
            models.Index(
                fields=("available_at", "id"),
                condition=models.Q(status="pending"),
                name="cm_repair_pending",
            ),
            models.Index(
                fields=("lease_expires_at",), condition=models.Q(status="claimed"), name="cm_repair_lease"
            ),
            models.Index(fields=("collection", "status"), name="cm_repair_status"),
        ]

    def __str__(self) -> str:
        return f"{self.store} of {self.object_type} {self.object_id}"


class RepairLease(models.Model):
    """Who may sweep now, and the circuit breaker of a store; a row a name."""

    name = models.CharField(max_length=160, primary_key=True)
    holder = models.CharField(max_length=64, blank=True)
    until = models.DateTimeField(null=True)
    failures = models.PositiveIntegerField(default=0)
    cursor = models.CharField(max_length=255, blank=True)

    objects = PrimaryManager["RepairLease"]()

    class Meta:
        """No admin page; the row is machinery."""

        default_permissions = ()

    def __str__(self) -> str:
        return self.name
