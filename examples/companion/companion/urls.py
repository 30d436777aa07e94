"""One page, and health for whoever looks after it."""

from django.urls import include, path

from companion.views import chat

urlpatterns = [
    path("", chat, name="chat"),
    path("health/", include("memory_app.urls_health")),
]
