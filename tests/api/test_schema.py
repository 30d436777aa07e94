"""The description of the API: complete, valid, committed, and the host's settings change nothing of it."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from drf_spectacular.validation import validate_schema

from memory_app import urls
from memory_app.api.schema import description
from tests.api.conftest import Api

GOLDEN = Path(__file__).resolve().parents[2] / "docs" / "openapi.yaml"

HOSTILE = {
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.BrowsableAPIRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.MultiPartParser"],
    "DEFAULT_AUTHENTICATION_CLASSES": [],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.AllowAny"],
    "DEFAULT_THROTTLE_CLASSES": ["rest_framework.throttling.AnonRateThrottle"],
    "DEFAULT_THROTTLE_RATES": {"anon": "1/day"},
    "DEFAULT_VERSIONING_CLASS": "rest_framework.versioning.AcceptHeaderVersioning",
    "DEFAULT_PAGINATION_CLASS": "rest_framework.pagination.CursorPagination",
    "DEFAULT_SCHEMA_CLASS": "rest_framework.schemas.coreapi.AutoSchema",
    "DEFAULT_METADATA_CLASS": "rest_framework.metadata.SimpleMetadata",
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "rest_framework.negotiation.DefaultContentNegotiation",
    "EXCEPTION_HANDLER": "rest_framework.views.exception_handler",
    "UNAUTHENTICATED_USER": None,
    "URL_FORMAT_OVERRIDE": "format",
    "ALLOWED_VERSIONS": ["9"],
}


def test_the_committed_description_is_the_current_one() -> None:
    written = io.StringIO()
    call_command("memory_openapi", stdout=written)
    assert written.getvalue() == GOLDEN.read_text(encoding="utf-8"), (
        "the API changed: python manage.py memory_openapi > docs/openapi.yaml"
    )


def test_the_description_is_valid_openapi() -> None:
    made = json.loads(description())
    assert made["openapi"] == "3.1.0"
    validate_schema(made)
    named = set(re.findall(r'"#/components/schemas/([^"]+)"', description()))
    assert named <= made["components"]["schemas"].keys()


def test_nothing_that_may_be_left_out_is_required() -> None:
    """None is left out of every answer, so no field that may be None is one that must be there."""
    for name, schema in json.loads(description())["components"]["schemas"].items():
        for field in schema.get("required", ()):
            options = schema.get("properties", {}).get(field, {}).get("anyOf", ())
            assert {"type": "null"} not in options, (name, field)


def test_every_address_is_described() -> None:
    described = json.loads(description())["paths"]
    served = {"/" + re.sub(r"<(?:str|path):(\w+)>", r"{\1}", str(item.pattern)) for item in urls.urlpatterns}
    assert served - described.keys() == {"/docs", "/docs/{name}", "/"}
    ids = [operation["operationId"] for item in described.values() for operation in item.values()]
    assert len(ids) == len(set(ids))


def test_the_served_description_names_where_it_is_mounted(api: Api) -> None:
    reply = api.get("/openapi.json")
    assert reply.json["servers"] == [{"url": "/api/v1"}]
    assert reply.json["paths"] == json.loads(description())["paths"]


def test_the_page_takes_everything_from_this_server(api: Api) -> None:
    page = api.get("/docs").raw.decode()
    assert "<script>" not in page
    sources = re.findall(r'(?:src|href|data-description)="([^"]+)"', page)
    assert len(sources) == 5
    for source in sources:
        reply = api.get(source.removeprefix("/api/v1"))
        assert reply.status == 200
        assert reply.raw
    assert api.get("/docs/swagger-ui.css.map").status == 404


def test_the_page_needs_no_templates_of_the_host(api: Api, settings: Any) -> None:
    settings.TEMPLATES = []
    assert 'id="swagger-ui"' in api.get("/docs").raw.decode()


def test_the_page_and_the_api_ask_for_no_login_of_the_host(api: Api, settings: Any) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django.contrib.auth.middleware.LoginRequiredMiddleware"]
    for address in ("/docs", "/docs/start.js", "/openapi.json", "objects"):
        assert api.get(address).status == 200
    assert api.get("/nowhere").status == 404


def test_a_hosts_settings_change_nothing(api: Api, settings: Any) -> None:
    settings.REST_FRAMEWORK = HOSTILE
    settings.SPECTACULAR_SETTINGS = {"TITLE": "the host's", "OAS_VERSION": "3.0.3"}
    description.cache_clear()
    assert api.get("/openapi.json", Accept="text/html").json["info"]["title"] == "Character memory"
    stored = api.post("remember", {"content": "It rained."}, Accept="text/html")
    assert stored.status == 201
    assert stored.headers["Content-Type"] == "application/json"
    for _ in range(2):
        assert api.post("retrieve?format=prompt", {"topic": "rain"}).status == 200
    nobody = Api("ada").get("statistics", Accept="text/html")
    assert (nobody.status, nobody.code) == (401, "not_authenticated")
    assert nobody.headers["Content-Type"] == "application/problem+json"
    refused = api.post("remember", {"content": 1})
    assert (refused.status, refused.code) == (400, "invalid_body")
    assert api.call("OPTIONS", "remember").status == 405
    assert api.get("objects?limit=1").json["next"]


def test_the_description_is_the_same_under_a_hosts_settings(settings: Any) -> None:
    before = description()
    settings.SPECTACULAR_SETTINGS = {"TITLE": "the host's", "COMPONENT_SPLIT_REQUEST": True, "TAGS": []}
    settings.REST_FRAMEWORK = HOSTILE
    description.cache_clear()
    assert description() == before


@pytest.fixture(autouse=True)
def described_anew() -> Any:
    yield
    description.cache_clear()
