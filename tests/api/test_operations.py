"""Recall, revisions, objects, keys, repairs and collections over HTTP: what each does, and what it refuses."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from unittest.mock import patch
from uuid import UUID

import pytest
from django.db import InterfaceError, OperationalError
from django.utils import timezone

from charactermemory import errors
from charactermemory.ids import MemoryObjectRef, ObjectType, new_id
from memory_app.models import ExternalKey, MemoryCollection, RepairMarker
from memory_app.runtime import get_memory
from tests.api.conftest import Api, Tenant, permit
from tests.support.plans import AT, episode, naming, notion, observation, plan, uid

ORIGIN = {"rationale": "she said so", "correction_origin": {"external_refs": [{"raw_ref": "chat 2"}]}}


def believe(api: Api, text: str) -> dict[str, str]:
    """Store a belief resting on an episode of its own; return its reference."""
    stored = api.remember("We talked.", derived_memory_drafts=[{"derived_type": "claim", "text": text}])
    return stored["derived_memory"]


def test_retrieve_brings_what_was_remembered(api: Api) -> None:
    api.remember("Ada planted tomatoes in spring.")
    reply = api.post("retrieve", {"topic": "tomatoes"})
    assert reply.status == 200
    assert [item["text"] for item in reply.json["pack"]["salient_observations"]] == [
        "Ada planted tomatoes in spring."
    ]
    assert reply.json["rationale"]["degraded"] == []
    assert "trace" not in reply.json
    assert "trace" in api.post("retrieve", {"topic": "tomatoes", "include_trace": True}).json


def test_retrieve_writes_a_prompt_within_its_budget(api: Api) -> None:
    for number in range(5):
        api.remember(f"Ada planted {number} tomatoes in spring.")
    whole = api.post("retrieve?format=prompt", {"topic": "tomatoes"})
    assert whole.status == 200
    assert "Ada planted 3 tomatoes" in whole.json["text"]
    assert whole.json["degraded"] == whole.json["left_out"] == []
    budget = whole.json["tokens"] // 2
    less = api.post(f"retrieve?format=prompt&budget={budget}&style=xml", {"topic": "tomatoes"})
    assert less.json["tokens"] <= budget
    assert less.json["left_out"]
    for query in ("format=prompt&budget=0", "format=prompt&budget=1000001", "format=pdf"):
        assert api.post(f"retrieve?{query}", {"topic": "tomatoes"}).status == 400
    for name, value in (("budget", "5"), ("style", "xml")):
        reply = api.post(f"retrieve?{name}={value}", {"topic": "tomatoes"})
        assert (reply.status, reply.code) == (422, "contradicting_query")
        assert reply.json["errors"] == [{"parameter": name, "detail": "it belongs to format=prompt"}]


def test_a_prompt_tells_who_is_there_from_a_namesake(api: Api) -> None:
    said = observation(5, 9, "I planted tomatoes.", speaker_entity_id=uid(1))
    people = [notion(1), notion(2), naming(3, 1, "Ada"), naming(4, 2, "Ada")]
    get_memory("ada").commit(plan(episode(9), said, *people))
    asked = {"topic": "tomatoes", "scene": {"time": AT.isoformat(), "participants": [{"key": str(uid(2))}]}}
    told = api.post("retrieve?format=prompt", asked).json
    assert "another Ada: I planted" in told["volatile"]
    alone = api.post("retrieve?format=prompt", {"topic": "tomatoes"}).json
    assert ") Ada: I planted" in alone["volatile"]


def test_retrieve_without_any_type_is_refused(api: Api) -> None:
    reply = api.post("retrieve", {"topic": "a", "object_type_defaults": []})
    assert (reply.status, reply.json["errors"][0]["pointer"]) == (422, "/object_type_defaults")


def test_recall_without_its_provider_says_so(api: Api) -> None:
    api.remember("Ada planted tomatoes in spring.")
    embedder = type(get_memory("ada").stores.embedder)
    failure = errors.EmbeddingError("transport", "no route")
    names = ("generate_embedding", "bulk_generate_embeddings")
    with patch.multiple(embedder, **{name: lambda *a, **k: (_ for _ in ()).throw(failure) for name in names}):
        reply = api.post("retrieve?format=prompt", {"topic": "a cue never met before"})
    assert reply.status == 200
    assert reply.json["degraded"]


def test_a_correction_is_previewed_then_made(api: Api) -> None:
    belief = believe(api, "Ada likes beans.")
    draft = ORIGIN | {"targets": [{"kind": "derived_memory", "id": belief["id"]}]}
    draft["replacement_derived_memories"] = [
        {"derived_type": "claim", "text": "Ada likes peas.",
         "correction_origin_provenance": ORIGIN["correction_origin"],
         "derived_from_episode_ids": [api.remember("We talked again.")["episode"]["id"]]}
    ]  # fmt: skip
    preview = api.post("correct?dry_run=true", draft)
    assert preview.status == 200
    assert api.get(f"objects/derived_memory/{belief['id']}").json["superseded"] is False
    made = api.post("correct", draft)
    assert made.status == 200
    assert made.json["complete"] is True
    assert made.json["graph_mutated_object_ids"] == preview.json["graph_mutated_object_ids"]
    old = api.get(f"objects/derived_memory/{belief['id']}").json
    assert (old["superseded"], old["current"]) == (True, False)
    for start in (belief["id"], old["superseded_by"][0]):
        chain = api.get(f"objects/derived_memory/{start}/history").json["results"]
        assert [item["object"]["text"] for item in chain] == ["Ada likes beans.", "Ada likes peas."]
    unknown = api.post("correct", draft | {"targets": [{"kind": "derived_memory", "id": str(new_id())}]})
    assert (unknown.status, unknown.code) == (404, "object_not_found")
    silent = api.post("correct", draft | {"rationale": " "})
    assert (silent.status, silent.code) == (422, "lifecycle_draft_invalid")


def test_a_forget_is_previewed_then_made(api: Api) -> None:
    refs = api.remember("Ada planted tomatoes in spring.")
    draft = {"targets": [refs["episode"]], "rationale": "she asked for it"}
    preview = api.post("forget?dry_run=true", draft)
    assert preview.status == 200
    assert api.get(f"objects/episode/{refs['episode']['id']}").json["suppressed"] is False
    made = api.post("forget", draft)
    assert made.json["graph_mutated_object_ids"] == preview.json["graph_mutated_object_ids"]
    assert len(made.json["graph_mutated_object_ids"]) == 2
    assert api.get(f"objects/episode/{refs['episode']['id']}").json["suppressed"] is True
    assert api.post("retrieve", {"topic": "tomatoes"}).json["pack"]["salient_observations"] == []


@pytest.mark.parametrize("address", ["dream/0", "episode/x", f"episode/{UUID(int=7)}", "episode/%00"])
def test_an_address_that_names_nothing_is_404(api: Api, address: str) -> None:
    for end in ("", "/history"):
        reply = api.get(f"objects/{address}{end}")
        assert (reply.status, reply.code) == (404, "object_not_found")


def test_operators_browse_page_by_page(api: Api) -> None:
    for number in range(4):
        api.remember(f"word {number}")
    forgotten = api.remember("gone")["observation"]
    assert api.post("forget", {"targets": [forgotten], "rationale": "r"}).status == 200

    def walk(query: str) -> list[dict[str, Any]]:
        seen, cursor = [], ""
        while True:
            page = api.get(f"objects?limit=3{query}{cursor}").json
            assert len(page["results"]) <= 3
            seen += page["results"]
            if "next" not in page:
                return seen
            cursor = f"&cursor={page['next']}"

    everything = walk("")
    assert (
        len(everything)
        == len({(item["object"]["object_type"], item["object"]["id"]) for item in everything})
        == 10
    )
    assert len(walk("&type=episode")) == 5
    assert [item["object"]["id"] for item in walk("&state=suppressed")] == [forgotten["id"]]
    assert len(walk("&type=observation&state=current")) == 4
    cursor = api.get("objects?limit=1&type=episode").json["next"]
    assert api.get(f"objects?limit=1&type=entity&cursor={cursor}").code == "invalid_cursor"


def test_a_hosts_key_stands_for_one_object(api: Api) -> None:
    refs = api.remember("We met.", entity_drafts=[{}])
    key = "external-keys/user/42 \u00e9%2f"
    assert api.get(key).code == "external_key_not_found"
    first = api.put(key, refs["entity"])
    assert (first.status, api.put(key, refs["entity"]).status) == (201, 200)
    assert first.json["object"] == refs["entity"]
    assert api.get(key).json == first.json
    other = api.put(key, refs["episode"])
    assert (other.status, other.code) == (409, "external_key_taken")
    assert api.put("external-keys/x", {"object_type": "entity", "id": str(new_id())}).status == 404
    assert api.put(f"external-keys/{'x' * 256}", refs["entity"]).code == "invalid_key"
    assert ExternalKey.objects.count() == 1


def test_statistics_tell_where_everything_stands(api: Api) -> None:
    api.remember("We met.")
    reply = api.get("statistics")
    assert reply.status == 200
    assert reply.json["indexed"] == 1
    assert reply.json["statistics_state"] == "healthy"
    assert reply.json["head"] > 0


def test_repairs_are_listed_counted_replayed_and_cancelled(api: Api) -> None:
    ref = api.remember("We met.")["observation"]
    common = {
        "collection": "ada", "object_type": "observation", "object_id": ref["id"], "origin": "commit",
        "cause_code": "embedding:http:429", "detail": "never shown", "available_at": timezone.now(),
        "due_since": timezone.now(),
    }  # fmt: skip
    dead = RepairMarker.objects.create(store="vector", status="dead", attempts=8, **common)
    done = RepairMarker.objects.create(store="statistics", status="succeeded", **common)
    RepairMarker.objects.create(store="vector", status="dead", **(common | {"collection": "other"}))
    page = api.get("repairs")
    assert [item["id"] for item in page.json["results"]] == [done.pk, dead.pk]
    assert b"never shown" not in page.raw
    first = api.get("repairs?limit=1")
    assert [item["id"] for item in first.json["results"]] == [done.pk]
    rest = api.get(f"repairs?limit=1&cursor={first.json['next']}")
    assert [item["id"] for item in rest.json["results"]] == [dead.pk]
    assert "next" not in rest.json
    assert [item["id"] for item in api.get("repairs?status=dead").json["results"]] == [dead.pk]
    summary = api.get("repairs/summary").json
    assert (summary["dead"], summary["succeeded"], summary["pending"]) == (1, 1, 0)
    assert api.post(f"repairs/{done.pk}/replay").code == "repair_succeeded"
    replayed = api.post(f"repairs/{dead.pk}/replay")
    assert replayed.status == 202
    assert replayed.json["status"] != "dead"
    soon = timezone.now() + timedelta(hours=1)
    RepairMarker.objects.filter(pk=dead.pk).update(status="pending", available_at=soon)
    assert api.post(f"repairs/{dead.pk}/replay").status == 202
    assert RepairMarker.objects.get(pk=dead.pk).available_at < soon, "a waiting one is tried now"
    assert api.post(f"repairs/{done.pk}/cancel").code == "repair_not_waiting"
    for number in ("0", "x", "9" * 30, str(RepairMarker.objects.get(collection="other").pk)):
        for deed in ("replay", "cancel"):
            assert api.post(f"repairs/{number}/{deed}").code == "repair_not_found"
    RepairMarker.objects.filter(pk=dead.pk).update(status="dead")
    cancelled = api.post(f"repairs/{dead.pk}/cancel")
    assert (cancelled.status, cancelled.json["status"]) == (200, "cancelled")


def test_collections_are_created_listed_and_archived(api: Api) -> None:
    assert api.post("/collections", {"name": "grace"}).code == "scope_missing"
    owner = MemoryCollection.objects.get().owner
    permit(owner, "add_memorycollection")
    made = api.post("/collections", {"name": "grace"})
    assert made.status == 201
    assert (made.json["name"], made.json["language"], made.json["archived"]) == ("grace", "english", False)
    assert api.post("/collections", {"name": "grace"}).code == "collection_name_taken"
    for name in ("", "Grace", "-a", "a" * 129, "a\n"):
        assert api.post("/collections", {"name": name}).status == 400
    first = api.get("/collections?limit=1").json
    rest = api.get(f"/collections?limit=1&cursor={first['next']}").json
    assert [item["name"] for item in first["results"] + rest["results"]] == ["ada", "grace"]
    assert "next" not in rest
    grace = Api("grace", api.token)
    grace.remember("We met.")
    assert grace.post("archive").json["archived"] is True
    for refused in (
        grace.post("remember", {"content": "a"}),
        grace.post("retrieve", {"topic": "met"}),
        grace.put("external-keys/a", {"object_type": "entity", "id": str(new_id())}),
    ):
        assert (refused.status, refused.code) == (409, "collection_archived")
    assert grace.get("/collections/grace").json["archived"] is True


def test_nobody_comes_by_a_memory_that_lost_its_row(api: Api) -> None:
    permit(MemoryCollection.objects.get().owner, "add_memorycollection")
    get_memory("grace").remember("A secret of somebody else's.")
    MemoryCollection.objects.filter(name="grace").delete()
    assert api.post("/collections", {"name": "grace"}).code == "collection_name_taken"
    assert MemoryCollection.objects.get(name="grace").owner is None
    assert Api("grace", api.token).get("statistics").status == 404


def test_a_collection_whose_stores_cannot_be_opened_is_not_created(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    permit(MemoryCollection.objects.get().owner, "add_memorycollection")

    def down(*given: Any, **options: Any) -> Any:
        raise errors.StoreUnavailable("graph", "10.0.0.7 refused")

    with monkeypatch.context() as patched:
        patched.setattr("memory_app.api.operation.get_memory", down)
        assert api.post("/collections", {"name": "grace"}).code == "store_unavailable"
    assert api.post("/collections", {"name": "grace"}).status == 201


def test_a_key_lists_the_collections_that_it_opens_and_no_others_of_its_user(api: Api) -> None:
    MemoryCollection.objects.create(name="grace", owner=MemoryCollection.objects.get().owner)
    assert [item["name"] for item in api.get("/collections").json["results"]] == ["ada"]


def test_a_tenant_lists_its_own_collections(api: Api, tenant: Tenant) -> None:
    reader = tenant("bob", operator=False)
    assert [item["name"] for item in reader.get("/collections").json["results"]] == ["bob"]


@pytest.mark.parametrize(
    ("failure", "status", "code"),
    [
        (errors.StoreUnavailable("graph", "10.0.0.7 refused"), 503, "store_unavailable"),
        (errors.StoreInUse("graph", "in use", "/srv/secret", "pid 7"), 503, "store_in_use"),
        (errors.CommitOutcomeUnknown("graph", "10.0.0.7"), 503, "commit_outcome_unknown"),
        (errors.GraphWentBack("ada", 1, 2), 503, "graph_went_back"),
        (errors.EmbeddingError("http", "10.0.0.7"), 502, "embedding"),
        (errors.GraphQueryError("hydration", "10.0.0.7"), 500, "graph_query"),
        (errors.PlanTooLarge("objects", 10, 5), 413, "plan_too_large"),
        (errors.CascadeTooLarge(10, 5), 422, "cascade_too_large"),
        (errors.UnsupportedSchemaVersion("plan", "1", "2"), 422, "unsupported_schema_version"),
        (errors.DuplicatePosition(UUID(int=1), 2), 409, "duplicate_position"),
        (errors.ReplacementIdentityConflict(UUID(int=1), "duplicate_in_plan"), 409,
         "replacement_identity_conflict"),
        (errors.OriginalSourceReferenceMismatch(
            MemoryObjectRef.of(ObjectType.EPISODE, UUID(int=1)), "raw", "10.0.0.7", "b"
        ), 422, "original_source_reference_mismatch"),
        (RuntimeError("10.0.0.7"), 500, "internal_error"),
    ],
    ids=lambda value: str(getattr(value, "code", value)),
)  # fmt: skip
def test_a_failure_is_told_by_its_kind_and_without_the_servers_secrets(
    api: Api, failure: Exception, status: int, code: str
) -> None:
    with patch("memory_app.api.operation.get_memory", side_effect=failure):
        reply = api.post("remember", {"content": "a"})
    assert (reply.status, reply.code) == (status, code)
    assert ("Retry-After" in reply.headers) == (status == 503)
    for secret in ("10.0.0.7", "/srv", "pid"):
        assert secret not in reply.raw.decode()


@pytest.mark.parametrize("failure", [OperationalError, InterfaceError])
def test_a_database_that_is_out_may_be_asked_again_later_and_the_server_still_answers(
    api: Api, failure: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def out(*_: Any, **__: Any) -> None:
        raise failure("server 10.0.0.7 closed the connection")

    monkeypatch.setattr("django.db.models.sql.compiler.SQLCompiler.execute_sql", out)
    for reply in (api.get("/collections"), api.post("remember", {"content": "a"})):
        assert (reply.status, reply.code) == (503, "store_unavailable")
        assert reply.headers["Retry-After"] and "10.0.0.7" not in reply.raw.decode()
    assert api.get("/health").status == 200
    assert api.get("/openapi.json").status == 200


def test_wrong_settings_are_the_servers_fault(api: Api, settings: Any) -> None:
    settings.CHARACTER_MEMORY = {**settings.CHARACTER_MEMORY, "EMBEDDING_PROVIDER": "nonsense"}
    reply = api.post("remember", {"content": "a"})
    assert (reply.status, reply.code) == (500, "internal_error")
    assert "EMBEDDING" not in reply.raw.decode()
