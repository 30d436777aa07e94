"""Addresses of the API; a host includes them under a versioned prefix, such as `api/v1/`.

No converter may fail: its failure would be answered by the host's HTML page, outside the API (django-practice
§7.5). Whatever fits no address is answered by the last one.
"""

from django.urls import path, re_path

from memory_app.api.views import (
    collections,
    keys,
    objects,
    operating,
    recalling,
    remembering,
    revising,
    service,
)
from memory_app.chat import api as chat

app_name = "memory_app"

_IN = "collections/<str:collection>"

urlpatterns = [
    path("health", service.HealthView.as_view(), name="health"),
    path("openapi.json", service.DescriptionView.as_view(), name="openapi"),
    path("docs", service.docs, name="docs"),
    path("docs/<str:name>", service.asset, name="docs-asset"),
    path("collections", collections.CollectionsView.as_view(), name="collections"),
    path(_IN, collections.CollectionView.as_view(), name="collection"),
    path(f"{_IN}/archive", collections.ArchiveView.as_view(), name="archive"),
    path(f"{_IN}/plans", remembering.PlansView.as_view(), name="plans"),
    path(f"{_IN}/plans/validate", remembering.ValidateView.as_view(), name="validate"),
    path(f"{_IN}/plans/commit", remembering.CommitView.as_view(), name="commit"),
    path(f"{_IN}/remember", remembering.RememberView.as_view(), name="remember"),
    path(f"{_IN}/link", remembering.LinkView.as_view(), name="link"),
    path(f"{_IN}/retrieve", recalling.RetrieveView.as_view(), name="retrieve"),
    path(f"{_IN}/correct", revising.CorrectView.as_view(), name="correct"),
    path(f"{_IN}/forget", revising.ForgetView.as_view(), name="forget"),
    path(f"{_IN}/objects", objects.ObjectsView.as_view(), name="objects"),
    path(f"{_IN}/objects/<str:object_type>/<str:object_id>", objects.ObjectView.as_view(), name="object"),
    path(
        f"{_IN}/objects/<str:object_type>/<str:object_id>/history",
        objects.HistoryView.as_view(),
        name="history",
    ),
    path(f"{_IN}/threads", chat.ThreadsView.as_view(), name="threads"),
    path(f"{_IN}/threads/search", chat.ThreadSearchView.as_view(), name="threads-search"),
    path(f"{_IN}/threads/<str:thread>", chat.ThreadView.as_view(), name="thread"),
    path(f"{_IN}/threads/<str:thread>/messages", chat.MessagesView.as_view(), name="messages"),
    path(f"{_IN}/threads/<str:thread>/window", chat.WindowView.as_view(), name="window"),
    path(f"{_IN}/external-keys/<path:key>", keys.ExternalKeyView.as_view(), name="external-key"),
    path(f"{_IN}/statistics", operating.StatisticsView.as_view(), name="statistics"),
    path(f"{_IN}/repairs", operating.RepairsView.as_view(), name="repairs"),
    path(f"{_IN}/repairs/summary", operating.RepairSummaryView.as_view(), name="repair-summary"),
    path(f"{_IN}/repairs/<str:repair>/replay", operating.ReplayView.as_view(), name="repair-replay"),
    path(f"{_IN}/repairs/<str:repair>/cancel", operating.CancelView.as_view(), name="repair-cancel"),
    re_path(r"", service.NowhereView.as_view(), name="nowhere"),
]
