"""The chat window's threads and messages. The only tables of the app that hold what was said."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

INSTRUCTION_ROLES = ("system", "developer")


class ChatThread(models.Model):
    """One conversation. Its counters make appending cost the same at any length."""

    owner = models.CharField(
        _("owner"),
        max_length=255,
        blank=True,
        help_text=_("Whose thread it is; the API uses the collection."),
    )
    thread_id = models.CharField(_("thread id"), max_length=255)
    metadata = models.JSONField(_("metadata"), default=dict, blank=True)
    created_at = models.DateTimeField(_("created at"))
    updated_at = models.DateTimeField(_("last activity"))
    next_seq = models.BigIntegerField(_("next sequence number"), default=0)
    message_count = models.PositiveIntegerField(_("messages"), default=0)
    token_total = models.BigIntegerField(_("tokens in all"), default=0)

    class Meta:
        """An owner uses a thread id once; lists run by activity."""

        verbose_name = _("chat thread")
        verbose_name_plural = _("chat threads")
        ordering = ("-updated_at", "-id")
        constraints: ClassVar[list[Any]] = [
            models.UniqueConstraint(fields=("owner", "thread_id"), name="cm_chat_thread_once")
        ]
        indexes: ClassVar[list[Any]] = [
            models.Index(fields=("owner", "-updated_at", "-id"), name="cm_chat_thread_activity")
        ]

    def __str__(self) -> str:
        return self.thread_id


class ChatMessage(models.Model):
    """One message as it was said or sent; rows are written by `DjangoStorage` alone.

    `wire` is JSON text, not a JSON column: what a model's API sent must go back as it came, and a binary
    JSON column changes numbers and refuses some texts. `folded` is what searches look into.
    """

    thread = models.ForeignKey(
        ChatThread,
        verbose_name=_("thread"),
        on_delete=models.CASCADE,
        related_name="messages",
        db_index=False,
    )
    seq = models.BigIntegerField(_("sequence number"))
    message_id = models.CharField(_("message id"), max_length=255)
    role = models.CharField(_("role"), max_length=16)
    created_at = models.DateTimeField(_("created at"))
    hidden = models.BooleanField(_("kept out of windows"), default=False)
    token_count = models.IntegerField(_("tokens"), null=True)
    content = models.TextField(_("content"), blank=True)
    metadata = models.JSONField(_("metadata"), default=dict, blank=True)
    wire = models.TextField(_("other fields"), blank=True)
    folded = models.TextField(editable=False, blank=True)

    class Meta:
        """A thread's rows in order; partial indexes for the few rows that windows ask for by kind."""

        verbose_name = _("chat message")
        verbose_name_plural = _("chat messages")
        ordering = ("thread", "seq")
        constraints: ClassVar[list[Any]] = [
            models.UniqueConstraint(fields=("thread", "seq"), name="cm_chat_message_place"),
            models.UniqueConstraint(fields=("thread", "message_id"), name="cm_chat_message_once"),
        ]
        indexes: ClassVar[list[Any]] = [
            models.Index(fields=("thread", "created_at"), name="cm_chat_message_time"),
            models.Index(
                fields=("thread", "role", "seq"),
                condition=Q(role__in=INSTRUCTION_ROLES),
                name="cm_chat_message_rules",
            ),
            models.Index(fields=("thread", "seq"), condition=Q(hidden=True), name="cm_chat_message_hidden"),
        ]

    def __str__(self) -> str:
        return f"{self.role} {self.seq}"
