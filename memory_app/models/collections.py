"""Which memories exist, whose they are, where their graph is, and who may write them now."""

from __future__ import annotations

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import models
from django.utils.translation import gettext_lazy as _

from charactermemory.config import validate_collection_name
from charactermemory.errors import ConfigValidationError
from memory_app.models.primary import PrimaryManager


def valid_collection_name(name: str) -> None:
    """Refuse a name that no store accepts.

    Raises:
        ValidationError: with the rule that is broken.
    """
    try:
        validate_collection_name(name)
    except ConfigValidationError as error:
        raise ValidationError(str(error)) from None


class MemoryCollection(models.Model):
    """One character's memory: the tenant boundary (DESIGN R2)."""

    name = models.CharField(_("name"), max_length=128, unique=True, validators=[valid_collection_name])
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        verbose_name=_("owner"),
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="memory_collections",
    )
    embedding_fingerprint = models.CharField(_("embedding fingerprint"), max_length=255, blank=True)
    language = models.CharField(_("language"), max_length=32, blank=True)
    endpoint = models.URLField(
        _("graph endpoint"),
        blank=True,
        help_text=_("SPARQL endpoint that holds the graph; empty: the configured one."),
    )
    archived = models.BooleanField(_("archived"), default=False)
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)

    objects = PrimaryManager["MemoryCollection"]()

    class Meta:
        """Names, order and permissions."""

        verbose_name = _("memory collection")
        verbose_name_plural = _("memory collections")
        ordering = ("name",)
        permissions = (
            ("view_memory_content", _("Can read what a memory says")),
            ("write_memory", _("Can remember, link, correct and forget")),
            ("operate_memory", _("Can browse, repair and rebuild")),
        )

    def __str__(self) -> str:
        return self.name


class WriterLease(models.Model):
    """The writer lock of one collection across all processes (consistency.md R4).

    Taken and given back by single conditional updates in autocommit, so any connection pooler is fine.
    """

    collection = models.CharField(max_length=128, primary_key=True)
    token = models.BigIntegerField(default=0, help_text=_("The last number granted."))
    until = models.DateTimeField(null=True, help_text=_("When the lease ends; empty: nobody holds it."))
    unsettled = models.BigIntegerField(
        null=True, help_text=_("The number whose update was sent and whose outcome is not known.")
    )
    last_settled = models.BigIntegerField(
        default=0, help_text=_("The greatest number known to be committed.")
    )

    class Meta:
        """No admin page; the row is machinery."""

        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.collection} at {self.token}"
