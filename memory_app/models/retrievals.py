"""What recall brought back, call by call: counts, times and ids, never text (DESIGN R14)."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class RetrievalEvent(models.Model):
    """One retrieve, sampled and pruned by settings."""

    collection = models.CharField(_("collection"), max_length=128)
    at = models.DateTimeField(_("at"), auto_now_add=True)
    duration_ms = models.FloatField(_("duration in ms"))
    included = models.PositiveIntegerField(_("memories included"))
    omitted = models.PositiveIntegerField(_("memories left out"))
    sections = models.JSONField(_("sections"), default=dict)
    omissions = models.JSONField(_("omissions"), default=dict)
    degraded = models.JSONField(_("degraded"), default=list)
    admitted = models.JSONField(_("admitted ids"), default=list)

    class Meta:
        """Newest first."""

        verbose_name = _("retrieval event")
        verbose_name_plural = _("retrieval events")
        ordering = ("-id",)
        indexes = [
            models.Index(fields=("collection", "-at"), name="cm_retrieval_recent"),
            models.Index(fields=("at",), name="cm_retrieval_age"),
        ]

    def __str__(self) -> str:
        return f"{self.collection} at {self.at:%Y-%m-%d %H:%M:%S}"
