"""What a request must be: who, how often, how large, of which form; and what every answer has."""

from __future__ import annotations

import gzip
import json
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.cache.backends.base import BaseCache
from django.core.handlers.wsgi import WSGIRequest
from django.test import Client, RequestFactory
from django.utils import timezone
from rest_framework.request import Request

from memory_app.api.actions import Action, Principal
from memory_app.api.base import MemoryView
from memory_app.api.bodies import read_body
from memory_app.api.policy import AccessPolicy, admit
from memory_app.api.problems import BadRequest, NotFound
from memory_app.models import ApiKey, MemoryCollection
from tests.api.conftest import ALL, Api, Tenant, permit
from tests.repairs.world import Routed

PROBLEM = {"type", "title", "status", "detail", "instance", "code", "request_id"}


def test_every_answer_has_a_request_id_and_is_not_stored(api: Api) -> None:
    for reply in (
        api.get("statistics"),
        api.get("objects/episode/no-id"),
        api.get("/nowhere"),
        api.get("/health"),
        api.call("DELETE", "objects/episode/x"),
        Api("ada").get("statistics"),
        api.post("remember", {"zzz": 1}),
    ):
        assert len(reply.headers["X-Request-ID"]) == 32
        assert reply.headers["Cache-Control"] == "no-store"
        if reply.status >= 400:
            assert PROBLEM <= reply.json.keys()
            assert reply.json["request_id"] == reply.headers["X-Request-ID"]
            assert reply.headers["Content-Type"] == "application/problem+json"
            assert reply.json["type"] == f"urn:charactermemory:problem:{reply.code}"
    assert api.get("/health", X_Request_ID="mine-1").headers["X-Request-ID"] == "mine-1"
    assert api.get("/health", X_Request_ID="<script>").headers["X-Request-ID"] != "<script>"


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"content": "a", "unknown": 1}, "/unknown"),
        ({"content": 5}, "/content"),
        ({"content": "NUL \x00"}, "/content"),
        ({"content": " \n\t"}, "/content"),
        ({"content": "\u200b\ufeff"}, "/content"),
        ({"observations": [{"text": "a"}, {"text": "\u2003"}]}, "/observations/1/text"),
        ({"content": "a", "scene": {"time": "2026-01-01T10:00:00"}}, "/scene/time"),
        ({"content": "a", "scene": {"time": "1700000000"}}, "/scene/time"),
        ({"content": "a", "scene": {"time": 1700000000}}, "/scene/time"),
        ({"content": "a", "scene": {"time": "0001-01-01T00:00:00+05:00"}}, "/scene/time"),
        ({"content": "a", "scene": {"time": "2026-01-01T10:00:00Z", "custom_values": {"a/b~": 1}}},
         "/scene/custom_values/a~1b~0"),
        ({"observations": [{"text": "a"}, {"text": "b", "position": 1.0}]}, "/observations/1/position"),
        ({"observations": [{"text": "a", "position": True}]}, "/observations/0/position"),
        ({"observations": [{"text": "a", "position": -1}]}, "/observations/0/position"),
        ({"observations": [{"text": "a", "salience_score": "0.5"}]}, "/observations/0/salience_score"),
        ({"observations": [{}]}, "/observations/0/text"),
        ({"memory_link_drafts": {}}, "/memory_link_drafts"),
        ([], ""),
    ],
)  # fmt: skip
def test_a_body_that_does_not_fit_is_refused_by_place(api: Api, body: Any, pointer: str) -> None:
    reply = api.post("remember", body)
    assert (reply.status, reply.code) == (400, "invalid_body")
    assert [item["pointer"] for item in reply.json["errors"]] == [pointer]


def test_pointers_do_not_name_branches_of_unions(api: Api) -> None:
    draft = {"candidate_type": "episode", "candidate": {"draft": {"x": 1}, "provenance": {}}}
    reply = api.post("plans/validate", {"candidates": [draft, {"candidate_type": "dream"}, {}]})
    assert [item["pointer"] for item in reply.json["errors"]] == [
        "/candidates/0/candidate/draft/x",
        "/candidates/0/candidate/provenance/producer_kind",
        "/candidates/0/candidate/provenance/rationale",
        "/candidates/1",
        "/candidates/2",
    ]


@pytest.mark.parametrize(
    "raw",
    [b" ", b"{", b"\xff", b'{"content": "\\ud800"}', b"[" * 100_000, b'{"content":' + b"9" * 5_000 + b"}"],
)
def test_what_is_no_json_is_refused(api: Api, raw: bytes) -> None:
    reply = api.call("POST", "remember", raw=raw)
    assert (reply.status, reply.code) == (400, "invalid_body")
    assert reply.json["errors"][0]["detail"]


@pytest.mark.parametrize(
    "limits",
    [{"max_vector_candidates": 1_001}, {"max_graph_roots": -1}],
)
def test_limits_out_of_range_are_refused(api: Api, limits: dict[str, int]) -> None:
    reply = api.post("retrieve", {"topic": "a", "candidate_limits": limits})
    (name,) = limits
    assert reply.status == 400
    assert [item["pointer"] for item in reply.json["errors"]] == [f"/candidate_limits/{name}"]


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("limit=0", "limit"), ("limit=101", "limit"), ("limit=5.0", "limit"), ("limit=+5", "limit"),
        ("limit=", "limit"), ("limit=1&limit=2", "limit"), ("unknown=1", "unknown"), ("type=dream", "type"),
        ("cursor=abc", "cursor"),
    ],
)  # fmt: skip
def test_a_query_that_does_not_fit_is_refused_by_name(api: Api, query: str, parameter: str) -> None:
    reply = api.get(f"objects?{query}")
    assert reply.status == 400
    assert [item["parameter"] for item in reply.json["errors"]] == [parameter]


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin-1", ""]
)
def test_other_media_types_are_refused(api: Api, kind: str) -> None:
    reply = api.call("POST", "remember", {"content": "a"}, Content_Type=kind)
    assert reply.status == 415
    assert (
        api.call("POST", "remember", {"content": "a"}, Content_Type="application/json;charset=UTF-8").status
        == 201
    )


def test_a_body_that_cannot_be_read_says_how_to_send_it(api: Api) -> None:
    form = api.call("POST", "remember", raw=b"content=a", Content_Type="application/x-www-form-urlencoded")
    assert (form.status, form.code) == (415, "unsupported_media_type")
    assert "Content-Type: application/json" in form.json["detail"]
    packed = api.call("POST", "remember", raw=gzip.compress(b'{"content": "a"}'), Content_Encoding="gzip")
    assert (packed.status, packed.code) == (415, "unsupported_media_type")
    assert "gzip" in packed.json["detail"]
    assert api.call("POST", "plans", {"content": "a"}, Content_Encoding="identity").status == 200
    # A test client always tells a length; a server leaves it out of what came in chunks.
    environ = {"HTTP_TRANSFER_ENCODING": "chunked", "CONTENT_TYPE": "application/json"}
    request = Request(WSGIRequest({**RequestFactory()._base_environ(), **environ}))
    with pytest.raises(BadRequest, match="Content-Length"):
        read_body(request, 100)
    lost = api.get("statistics/")
    assert (lost.status, lost.code) == (404, "not_found")
    assert "no address ends with /" in lost.json["detail"]


def test_a_large_body_is_refused_unread(api: Api, settings: Any) -> None:
    settings.CHARACTER_MEMORY = {**settings.CHARACTER_MEMORY, "API": {"MAX_BODY_BYTES": 100}}
    reply = api.post("remember", {"content": "x" * 100})
    assert (reply.status, reply.code) == (413, "body_too_large")
    assert api.post("plans", {"content": "x"}).status == 200
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 10
    assert api.post("plans", {"content": "x"}).status == 200, "Django's limit is about forms"


def test_memory_is_not_deleted(api: Api) -> None:
    for path in ("objects/episode/0", "objects", "external-keys/a", "remember", "statistics"):
        reply = api.call("DELETE", path)
        assert reply.status == 405
        assert "forget" in reply.json["detail"]
        assert "DELETE" not in reply.headers["Allow"]
    assert api.call("OPTIONS", "remember").status == 405
    assert api.call("HEAD", "statistics").status == 200


def test_nobody_is_asked_to_sign_in(api: Api) -> None:
    reply = Api("ada").get("statistics")
    assert (reply.status, reply.code) == (401, "not_authenticated")
    assert reply.headers["WWW-Authenticate"] == 'Bearer realm="memory"'
    for token in ("", "cm_", "cm_abc_def", "x" * 5_000, api.token[:-1]):  # type: ignore[index]
        assert Api("ada", token).get("statistics").code == "invalid_api_key"


def test_a_key_serves_no_longer_than_it_may(api: Api) -> None:
    assert api.get("statistics").status == 200
    key = ApiKey.objects.get()
    for change in (
        {"expires_at": timezone.now() - timedelta(seconds=1)},
        {"expires_at": None, "revoked_at": timezone.now()},
    ):
        ApiKey.objects.update(**change)
        assert api.get("statistics").status == 401
    ApiKey.objects.update(revoked_at=None)
    assert api.get("statistics").status == 200
    get_user_model().objects.filter(pk=key.user_id).update(is_active=False)
    assert api.get("statistics").status == 401
    assert api.token is not None
    assert api.token.split("_", 2)[2] not in json.dumps(list(ApiKey.objects.values()), default=str)


@pytest.mark.parametrize("scope", ALL)
def test_a_key_does_what_its_scopes_say(tenant: Tenant, scope: str) -> None:
    api = tenant("ada", (scope,))
    calls = {
        "read": api.post("retrieve", {"topic": "a"}),
        "write": api.post("plans", {"content": "a"}),
        "review": api.post("forget?dry_run=true", {"rationale": "a"}),
        "operate": api.get("objects"),
    }
    for needed, reply in calls.items():
        if needed == scope:
            assert reply.status in (200, 422)
        else:
            assert (reply.status, reply.code) == (403, "scope_missing")


def test_a_key_is_no_more_than_its_user(tenant: Tenant) -> None:
    api = tenant("ada", operator=False)
    assert api.get("objects").status == 403
    MemoryCollection.objects.update(owner=None)
    assert api.get("statistics").status == 404


def test_a_session_writes_with_the_csrf_token_only(api: Api) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(get_user_model().objects.get())
    session = Api("ada", client=client)
    assert session.get("statistics").status == 200
    refused = session.post("remember", {"content": "a"})
    assert refused.status == 403
    client.cookies["csrftoken"] = "a" * 32
    assert session.post("remember", {"content": "a"}, X_CSRFToken="a" * 32).status == 201


def test_staff_with_permissions_reach_every_collection(api: Api) -> None:
    staff = get_user_model().objects.create_user("staff")
    client = Client()
    client.force_login(staff)
    session = Api("ada", client=client)
    assert session.get("statistics").status == 404
    assert session.get("/collections").json["results"] == []
    permit(staff, "view_memory_content")
    assert session.get("statistics").status == 200
    assert [item["name"] for item in session.get("/collections").json["results"]] == ["ada"]
    assert session.post("plans", {"content": "a"}).status == 403
    permit(staff, "write_memory")
    assert session.post("plans", {"content": "a"}).status == 200
    assert session.get("repairs").status == 403
    permit(staff, "operate_memory")
    assert session.get("repairs").status == 200


def test_a_host_brings_its_own_policy(api: Api, settings: Any) -> None:
    policy = "tests.api.test_requests.NobodyWrites"
    settings.CHARACTER_MEMORY = {**settings.CHARACTER_MEMORY, "API": {"ACCESS_POLICY_CLASS": policy}}
    assert api.get("statistics").status == 200
    assert api.post("plans", {"content": "a"}).status == 403


def test_too_many_requests_wait(api: Api, settings: Any) -> None:
    rates = {"memory_read": "2/min", "memory_write": None}
    settings.CHARACTER_MEMORY = {**settings.CHARACTER_MEMORY, "API": {"THROTTLE_RATES": rates}}
    assert [api.get("statistics").status for _ in range(3)] == [200, 200, 429]
    refused = api.get("statistics")
    assert refused.code == "throttled"
    assert 0 < int(refused.headers["Retry-After"]) <= 60
    assert api.post("plans", {"content": "a"}).status == 200
    assert api.get("/health").status == 200


class GoneCache(BaseCache):
    """A cache whose server does not answer."""

    def __init__(self, location: str, params: dict[str, Any]) -> None:
        super().__init__(params)

    def get(self, *_: Any, **__: Any) -> Any:
        raise ConnectionError("redis://user:secret@cache:6379 refused")


def test_a_cache_that_is_out_takes_the_counting_with_it_and_not_the_memory(
    api: Api, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.CACHES = {"default": {"BACKEND": "tests.api.test_requests.GoneCache"}}
    assert api.get("statistics").status == 200
    assert api.post("remember", {"content": "It rained."}).status == 201
    assert "requests are not counted, for the cache failed: ConnectionError" in caplog.messages
    assert "secret" not in caplog.text


def test_nobody_waits_for_the_requests_of_somebody_else(api: Api, tenant: Tenant, settings: Any) -> None:
    rates = {"memory_read": "1/min"}
    settings.CHARACTER_MEMORY = {**settings.CHARACTER_MEMORY, "API": {"THROTTLE_RATES": rates}}
    assert [api.get("statistics").status for _ in range(2)] == [200, 429]
    assert tenant("bob").get("statistics").status == 200


class NobodyWrites(AccessPolicy):
    """A host's policy."""

    def user_may(self, user: Any, collection: MemoryCollection, action: Action) -> bool:
        return action is not Action.WRITE and super().user_may(user, collection, action)


@pytest.mark.django_db(transaction=True)
def test_a_name_that_no_database_compares_is_a_name_that_is_not_there(
    postgres: str, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Routed, "alias", postgres)
    settings.DATABASE_ROUTERS = ["tests.repairs.world.Routed"]
    staff = Principal(get_user_model()(is_superuser=True))
    with pytest.raises(NotFound) as told:
        admit(AccessPolicy(), staff, "ada\0", Action.READ)
    assert told.value.code == "collection_not_found"


@pytest.mark.django_db(transaction=True)
def test_no_request_is_a_transaction_in_any_database(postgres: str) -> None:
    view: Any = MemoryView.as_view()
    assert view._non_atomic_requests == {"default", postgres}
