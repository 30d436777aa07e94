"""Threads and messages in the Django admin, to be looked at: rows are written by `DjangoStorage` alone."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.text import Truncator
from django.utils.translation import gettext_lazy as _

from memory_app.admin import ReadOnlyAdmin
from memory_app.chat import rows
from memory_app.models import ChatMessage, ChatThread

SHOWN = 120
"""Characters of a message in the list; its page has it whole."""


@admin.register(ChatThread)
class ChatThreadAdmin(ReadOnlyAdmin):
    """Which conversations there are; their messages are a list of their own, page by page."""

    list_display = ("thread_id", "owner", "message_count", "token_total", "created_at", "updated_at")
    search_fields = ("=thread_id", "=owner")
    date_hierarchy = "updated_at"
    readonly_fields = ("read",)

    def get_list_display(self, request: HttpRequest) -> tuple[str, ...]:
        """Return the columns; the way to the messages for those who may read them."""
        return (*self.list_display, *_read(request))

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> tuple[str, ...]:
        """Return what the page shows; the way to the messages for those who may read them."""
        return (*self.list_display, "metadata", *_read(request))

    @admin.display(description=_("conversation"))
    def read(self, thread: ChatThread) -> str:
        """Link to the thread's messages."""
        address = reverse("admin:memory_app_chatmessage_changelist")
        return format_html('<a href="{}?thread__id__exact={}">{}</a>', address, thread.pk, _("read"))


def _read(request: HttpRequest) -> tuple[str, ...]:
    return ("read",) if request.user.has_perm("memory_app.view_chatmessage") else ()


@admin.register(ChatMessage)
class ChatMessageAdmin(ReadOnlyAdmin):
    """What was said."""

    list_display = ("thread", "seq", "role", "beginning", "created_at", "token_count", "hidden")
    list_filter = ("role", "hidden")
    list_select_related = ("thread",)
    search_fields = ("folded",)
    ordering = ("thread", "seq")
    fields = (
        "thread", "seq", "message_id", "role", "created_at", "token_count", "hidden", "content", "metadata",
        "wire",
    )  # fmt: skip

    @admin.display(description=_("content"))
    def beginning(self, message: ChatMessage) -> str:
        """Show how a message begins."""
        return Truncator(message.content).chars(SHOWN)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[ChatMessage], search_term: str
    ) -> tuple[Any, bool]:
        """Search whatever the case, in every script, as the API does."""
        return super().get_search_results(request, queryset, rows.folded(search_term))
