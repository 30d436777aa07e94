"""Addresses of the reference project."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("api/v1/", include("memory_app.urls")),
    path("health/", include("memory_app.urls_health")),
]
