"""Health addresses for load balancers and orchestrators: `path("health/", include("memory_app.urls_health"))`.

`live/` touches no store; `ready/` answers 503 while requests cannot be served. Neither needs a login, also where
the host's `LoginRequiredMiddleware` asks for one elsewhere, so neither says more than names, counts and ages; keep
them off the public internet where collection names are private. Neither takes part in `ATOMIC_REQUESTS`, which
would answer 500 where the database is down.
"""

from __future__ import annotations

from django.contrib.auth.decorators import login_not_required
from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.urls import path
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from memory_app import health

app_name = "memory_app_health"


@login_not_required
@transaction.non_atomic_requests
@never_cache
@require_safe
def live(request: HttpRequest) -> JsonResponse:
    """Say that this process answers."""
    return JsonResponse({"live": True})


@login_not_required
@transaction.non_atomic_requests
@never_cache
@require_safe
def ready(request: HttpRequest) -> JsonResponse:
    """Say whether this process can serve, and how the repairs stand."""
    report = health.report()
    return JsonResponse(report.as_json(), status=200 if report.ready else 503)


urlpatterns = [path("live/", live, name="live"), path("ready/", ready, name="ready")]
