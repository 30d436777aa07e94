"""Addresses of the reference project."""

from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="memory_app:docs")),
    path("admin/", admin.site.urls),
    path("api/v1/", include("memory_app.urls")),
    path("health/", include("memory_app.urls_health")),
]
