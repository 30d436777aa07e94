"""About the server itself: whether it is there, what it can do, and what is nowhere."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpRequest, HttpResponse
from django.template import Context, Engine
from django.urls import reverse
from django.views.decorators.http import require_safe

from memory_app.api.answers import Alive
from memory_app.api.base import MemoryView
from memory_app.api.operation import Answer, Call, operation
from memory_app.api.problems import NotFound
from memory_app.api.schema import description

TAG = "Service"
_SIDECAR = "static/drf_spectacular_sidecar/swagger-ui-dist"
ASSETS = {
    "swagger-ui.css": "text/css",
    "swagger-ui-bundle.js": "text/javascript",
    "favicon-32x32.png": "image/png",
}
"""What Swagger UI needs, out of the bundle that is installed with the app; nothing comes from elsewhere."""


class HealthView(MemoryView):
    """Whether the server answers."""

    @operation(id="health", tag=TAG, public=True, answers={200: Alive})
    def get(self, call: Call) -> Alive:
        """Tell that the server answers; it looks at no store."""
        return Alive()


class DescriptionView(MemoryView):
    """The description of the API."""

    @operation(id="openapi", tag=TAG, public=True, answers={200: None})
    def get(self, call: Call) -> Answer:
        """Return this description, with the server it was asked of."""
        made = json.loads(description())
        made["servers"] = [{"url": _prefix(call.request)}]
        return Answer(made)


class NowhereView(MemoryView):
    """Every address that is none, so that also this answer is a problem."""

    schema = None

    def initial(self, request: Any, *args: Any, **kwargs: Any) -> None:
        """Answer before anything is asked of the caller.

        Raises:
            NotFound: always.
        """
        raise NotFound(
            "There is nothing at this address. GET openapi.json describes what there is; no address ends with /.",
            "not_found",
        )


@login_not_required
@require_safe
def docs(request: HttpRequest) -> HttpResponse:
    """Show the description with Swagger UI, without inline scripts."""
    # By an engine of its own, for a host that serves an API alone has none.
    page = Engine(dirs=[str(files("memory_app") / "templates")]).get_template("memory_app/api_docs.html")
    return HttpResponse(page.render(Context({"prefix": _prefix(request)})))


@login_not_required
@require_safe
def asset(request: HttpRequest, name: str) -> HttpResponse:
    """Serve one of the files that the page needs, also where static files are not served.

    Raises:
        Http404: it is none of them.
    """
    if name == "start.js":
        folder, kind = files("memory_app") / "api/views", "text/javascript"
    elif name in ASSETS:
        folder, kind = files("drf_spectacular_sidecar") / _SIDECAR, ASSETS[name]
    else:
        raise Http404
    response = HttpResponse((folder / name).read_bytes(), content_type=kind)
    response["Cache-Control"] = "public, max-age=3600"
    return response


def _prefix(request: Any) -> str:
    """Return where the host has mounted the API."""
    current = request.resolver_match.namespace if request.resolver_match else "memory_app"
    return reverse(f"{current}:health").removesuffix("/health")
