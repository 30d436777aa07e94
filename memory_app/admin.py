"""The database side in the Django admin: repairs, statistics, retrieval events, collections. Read-only.

Requeue and cancel are actions behind a permission of their own, and call what the commands call.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from django.contrib import admin, messages
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from charactermemory.domain.kinds import RelationType
from charactermemory.ids import ObjectType
from memory_app.models import (
    EntityEdge,
    EntityRelationCount,
    GlobalRelationCount,
    MemoryCollection,
    MemoryState,
    RepairMarker,
    RetrievalEvent,
    StatisticsHealth,
)
from memory_app.operations import repair


class ReadOnlyAdmin(admin.ModelAdmin):
    """Shows rows and changes none; counts what was found, and never all rows besides."""

    show_full_result_count = False
    list_per_page = 50

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Nobody adds."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Nobody changes."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Nobody deletes."""
        return False


class ByToken(admin.SimpleListFilter):
    """Filters by a column of tokens, and offers them all; Django would read the whole table for those in use."""

    tokens: type[StrEnum]

    def lookups(self, request: HttpRequest, model_admin: admin.ModelAdmin) -> list[tuple[str, str]]:
        """Return every token."""
        return [(token.value, token.value) for token in self.tokens]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows with the token chosen."""
        return queryset.filter(**{str(self.parameter_name): self.value()}) if self.value() else queryset


class ByObjectType(ByToken):
    """By the object's type."""

    title, parameter_name, tokens = _("object type"), "object_type", ObjectType


class ByHubType(ByToken):
    """By the hub's type."""

    title, parameter_name, tokens = _("hub type"), "hub_type", ObjectType


class ByRelation(ByToken):
    """By the relation."""

    title, parameter_name, tokens = _("relation"), "relation", RelationType


@admin.register(RepairMarker)
class RepairMarkerAdmin(ReadOnlyAdmin):
    """The queue of repairs."""

    list_display = (
        "id", "collection", "status", "cause_code", "store", "attempts", "available_at", "due_since",
        "object_type", "object_id",
    )  # fmt: skip
    list_filter = ("status", "store", "origin", "cause_code")
    search_fields = ("=object_id", "=collection")
    date_hierarchy = "created_at"
    actions = ("requeue", "cancel")

    def has_retry_permission(self, request: HttpRequest) -> bool:
        """Whether the user may requeue and cancel."""
        return request.user.has_perm("memory_app.retry_repairmarker")

    @admin.action(description=_("Requeue selected dead and cancelled repairs"), permissions=["retry"])
    def requeue(self, request: HttpRequest, queryset: QuerySet[RepairMarker]) -> None:
        """Ask for the selected rows again."""
        count = repair.requeue(queryset)
        if not count:
            self.message_user(request, _("None of them is dead or cancelled."), messages.WARNING)
            return
        text = ngettext("%(count)d repair was requeued.", "%(count)d repairs were requeued.", count)
        self.message_user(request, text % {"count": count}, messages.SUCCESS)

    @admin.action(description=_("Cancel selected waiting and dead repairs"), permissions=["retry"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[RepairMarker]) -> None:
        """Give the selected rows up."""
        count = repair.cancel(queryset)
        if not count:
            self.message_user(request, _("None of them is waiting or dead."), messages.WARNING)
            return
        text = ngettext("%(count)d repair was cancelled.", "%(count)d repairs were cancelled.", count)
        self.message_user(request, text % {"count": count}, messages.SUCCESS)


@admin.register(MemoryCollection)
class MemoryCollectionAdmin(ReadOnlyAdmin):
    """Which memories there are."""

    list_display = ("name", "owner", "language", "embedding_fingerprint", "archived", "created_at")
    list_filter = ("archived", "language")
    list_select_related = ("owner",)
    search_fields = ("name",)


@admin.register(RetrievalEvent)
class RetrievalEventAdmin(ReadOnlyAdmin):
    """What recall brought back."""

    list_display = ("id", "collection", "at", "milliseconds", "included", "omitted", "degraded")
    search_fields = ("=collection",)
    date_hierarchy = "at"

    @admin.display(description=_("duration in ms"), ordering="duration_ms")
    def milliseconds(self, event: RetrievalEvent) -> str:
        """Return the duration to a tenth."""
        return f"{event.duration_ms:.1f}"


@admin.register(StatisticsHealth)
class StatisticsHealthAdmin(ReadOnlyAdmin):
    """Whether the statistics can be trusted."""

    list_display = ("collection", "generation", "building", "applied", "high", "cause", "updated_at")
    search_fields = ("=collection",)


@admin.register(MemoryState)
class MemoryStateAdmin(ReadOnlyAdmin):
    """Objects as recall's statistics have them."""

    list_display = ("collection", "object_type", "object_id", "standing", "salience", "memory_time")
    list_filter = (ByObjectType, "standing")
    search_fields = ("=object_id", "=collection")


@admin.register(EntityEdge)
class EntityEdgeAdmin(ReadOnlyAdmin):
    """Edges between hubs and objects."""

    list_display = ("collection", "hub_type", "hub_id", "relation", "object_type", "object_id", "standing")
    list_filter = (ByHubType, ByRelation, ByObjectType)
    search_fields = ("=hub_id", "=object_id", "=collection")


class CountAdmin(ReadOnlyAdmin):
    """Counters."""

    list_filter = (ByRelation, ByObjectType)
    search_fields = ("=collection",)


@admin.register(EntityRelationCount)
class EntityRelationCountAdmin(CountAdmin):
    """Counters of hubs."""

    list_display: Any = (
        "collection", "hub_type", "hub_id", "relation", "object_type", "total", "active", "current",
    )  # fmt: skip


@admin.register(GlobalRelationCount)
class GlobalRelationCountAdmin(CountAdmin):
    """Counters over all hubs."""

    list_display: Any = ("collection", "relation", "object_type", "total", "active", "current")


# Their pages stand on ReadOnlyAdmin.
from memory_app import key_admin as _key_admin  # noqa: E402, F401
from memory_app.chat import admin as _chat_admin  # noqa: E402, F401
