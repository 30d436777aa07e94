"""Two tenants side by side: nothing of the one is ever told to the other, whatever is asked and by whom."""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass, field
from typing import Any
from uuid import NAMESPACE_URL, uuid4, uuid5

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from memory_app import urls
from memory_app.api import policy
from memory_app.api.actions import Action
from memory_app.api.schema import description
from memory_app.models import ApiKey, MemoryCollection, RepairMarker
from tests.api.conftest import Api, Reply, Tenant, permit

pytestmark = pytest.mark.long

SEED = 20
SCOPES = ("read", "write", "review", "operate")
AT = "2026-01-01T10:00:00Z"


@dataclass
class Side:
    """One tenant: its ways in, by name, and everything that is only its own."""

    name: str
    ways: dict[str, Api]
    secrets: set[str] = field(default_factory=set)
    refs: dict[str, dict[str, str]] = field(default_factory=dict)
    repair: int = 0
    cursors: dict[str, str] = field(default_factory=dict)

    @property
    def whole(self) -> Api:
        """The way that may everything."""
        return self.ways["key"]

    def takes_note(self, reply: Reply) -> None:
        """Learn which ids are this side's."""
        self.secrets |= {ref["id"] for ref in _refs(reply.json)}


@dataclass(frozen=True)
class Deed:
    """One request; `operation` is what the API calls it."""

    operation: str
    method: str
    path: str
    body: Any = None


def _refs(value: Any) -> list[dict[str, str]]:
    if isinstance(value, dict):
        if value.keys() == {"object_type", "id"} and isinstance(value["id"], str):
            return [value]
        return [ref for item in value.values() for ref in _refs(item)]
    return [ref for item in value for ref in _refs(item)] if isinstance(value, list) else []


@pytest.fixture
def sides(tenant: Tenant) -> tuple[Side, Side]:
    """Two tenants, each with a key that may everything, a key of each scope, and a session."""
    return _side(tenant, "aquamarine"), _side(tenant, "bergamot")


def _side(tenant: Tenant, name: str) -> Side:
    key = tenant(name, operator=False)
    collection = MemoryCollection.objects.get(name=name)
    owner = get_user_model().objects.get(username=f"{name}-owner")
    permit(owner, "add_memorycollection")
    ways = {"key": key}
    for scope in SCOPES:
        ways[scope] = Api(name, ApiKey.objects.issue(owner, scope, [scope], [collection])[1])
    client = Client(raise_request_exception=False)
    client.force_login(owner)
    return Side(name, ways | {"session": Api(name, client=client)}, {name})


def furnish(side: Side) -> None:
    """Give a side something of each kind: memories, a key, threads, a repair, collections to page through."""
    for number in range(3):
        belief = {"derived_type": "claim", "text": _text(side, f"belief{number}")}
        reply = side.whole.post(
            "remember",
            {"content": _text(side, f"seen{number}"), "entity_drafts": [{}], "memory_thread_drafts": [],
             "derived_memory_drafts": [belief], "raw_refs": ["chat"]},
        )  # fmt: skip
        assert reply.status == 201, reply.raw
        side.takes_note(reply)
        for ref in reply.json["persisted_object_ids"]:
            side.refs[f"{ref['object_type']}{number}"] = ref
    assert side.whole.put(f"external-keys/{side.name}", side.refs["episode0"]).status == 201
    for thread in ("kept", "spare"):
        body = {"id": f"{thread}-{side.name}", "metadata": {"note": _text(side, f"note-{thread}")}}
        assert side.whole.post("threads", body).status == 201
        for said in ("first", "second"):
            message = {"role": "user", "content": _text(side, said + thread)}
            assert side.whole.post(f"threads/{body['id']}/messages", message).status == 201
    row = RepairMarker.objects.create(
        collection=side.name, store="vector", object_type="episode", object_id=side.refs["episode0"]["id"],
        origin="commit", cause_code=side.name, available_at=timezone.now(), due_since=timezone.now(),
    )  # fmt: skip
    side.repair = row.pk
    assert side.whole.post("/collections", {"name": f"{side.name}-second"}).status == 201
    pages = {
        "objects": "objects?limit=1",
        "threads": "threads?limit=1",
        "collections": "/collections?limit=1",
    }
    pages["messages"] = f"threads/kept-{side.name}/messages?limit=1"
    side.cursors = {name: side.whole.get(path).json["next"] for name, path in pages.items()}


def _text(side: Side, what: str) -> str:
    """A text with a word that only this side has."""
    word = f"{what}of{side.name}".translate(str.maketrans("0123456789-", "zyxwvutsrqp"))
    side.secrets.add(word)
    return f"The river of {word}."


def deeds(place: str, about: Side, own: Side, mark: str) -> list[Deed]:
    """Return a request for every operation, in the collection `place`, about what is `about`'s."""
    at = f"/collections/{place}"
    episode, belief, notion = (
        about.refs[f"{kind}{mark}"] for kind in ("episode", "derived_memory", "entity")
    )
    observation, text = about.refs[f"observation{mark}"], _text(own, f"told{mark}")
    object_at = f"{at}/objects/{belief['object_type']}/{belief['id']}"
    thread, spare = f"{at}/threads/kept-{about.name}", f"{at}/threads/spare-{about.name}"
    origin = {"rationale": text, "correction_origin": {"external_refs": [{"raw_ref": "chat"}]}}
    wrong = origin | {"targets": [{"kind": "derived_memory", "id": belief["id"]}]}
    source = {"object_type": "observation", "id": observation["id"], "original_raw_ref": "chat"}
    draft = {
        "id": str(uuid5(NAMESPACE_URL, f"{own.name} {place} {about.name} {mark}")), "derived_type": "claim",
        "text": text, "derived_from_episode_ids": [episode["id"]], "created_at": AT, "updated_at": AT,
        "schema_version": "episodic_memory_initial",
    }  # fmt: skip
    provenance = {"producer_kind": "caller", "rationale": {"origin": "unavailable"}}
    candidate = {"candidate_type": "derived_memory", "candidate": {"draft": draft, "provenance": provenance}}
    ends = {"from_type": "episode", "from_id": episode["id"], "to_type": "entity", "to_id": notion["id"]}
    anchored = {"topic": "river", "anchors": [belief["id"]], "include_trace": True}
    return [
        Deed("health", "GET", "/health"),
        Deed("openapi", "GET", "/openapi.json"),
        Deed("list_collections", "GET", "/collections"),
        Deed("list_collections", "GET", f"/collections?limit=1&cursor={about.cursors['collections']}"),
        Deed("create_collection", "POST", "/collections", {"name": f"{own.name}-{uuid4().hex}"}),
        Deed("get_collection", "GET", at),
        Deed("prepare", "POST", f"{at}/plans", {"content": text, "entity_ids": [notion["id"]]}),
        Deed("validate_plan", "POST", f"{at}/plans/validate", {"candidates": [candidate]}),
        Deed("commit", "POST", f"{at}/plans/commit", {"candidates": [candidate]}),
        Deed("remember", "POST", f"{at}/remember", {"content": text, "entity_ids": [notion["id"]]}),
        Deed("link", "POST", f"{at}/link", ends | {"relation": "mentions"}),
        Deed("retrieve", "POST", f"{at}/retrieve", anchored),
        Deed("retrieve", "POST", f"{at}/retrieve?format=prompt", {"topic": _text(about, "seen0")}),
        Deed("correct", "POST", f"{at}/correct?dry_run=true", wrong),
        Deed(
            "correct",
            "POST",
            f"{at}/correct",
            origin | {"targets": [{"kind": "source_object", "target": source}]},
        ),
        Deed("forget", "POST", f"{at}/forget?dry_run=true", {"targets": [episode], "rationale": text}),
        Deed("forget", "POST", f"{at}/forget", {"targets": [belief], "rationale": text}),
        Deed("list_objects", "GET", f"{at}/objects"),
        Deed("list_objects", "GET", f"{at}/objects?limit=1&cursor={about.cursors['objects']}"),
        Deed("get_object", "GET", object_at),
        Deed("get_history", "GET", f"{object_at}/history"),
        Deed("list_threads", "GET", f"{at}/threads"),
        Deed("list_threads", "GET", f"{at}/threads?limit=1&cursor={about.cursors['threads']}"),
        Deed("create_thread", "POST", f"{at}/threads", {"metadata": {"note": text}}),
        Deed("search_threads", "POST", f"{at}/threads/search", {"content": "river"}),
        Deed("get_thread", "GET", thread),
        Deed("change_thread", "PATCH", thread, {"metadata": {"more": text}}),
        Deed("list_messages", "GET", f"{thread}/messages"),
        Deed("list_messages", "GET", f"{thread}/messages?limit=1&cursor={about.cursors['messages']}"),
        Deed("post_message", "POST", f"{thread}/messages", {"role": "user", "content": text}),
        Deed("preview_window", "GET", f"{thread}/window"),
        Deed("delete_thread", "DELETE", spare),
        Deed("put_external_key", "PUT", f"{at}/external-keys/{about.name}", about.refs["episode0"]),
        Deed("get_external_key", "GET", f"{at}/external-keys/{about.name}"),
        Deed("get_statistics", "GET", f"{at}/statistics"),
        Deed("list_repairs", "GET", f"{at}/repairs"),
        Deed("get_repair_summary", "GET", f"{at}/repairs/summary"),
        Deed("replay_repair", "POST", f"{at}/repairs/{about.repair}/replay"),
        Deed("cancel_repair", "POST", f"{at}/repairs/{about.repair}/cancel"),
        Deed("archive_collection", "POST", f"{at}/archive"),
    ]


def test_nothing_of_one_tenant_is_told_to_the_other(
    sides: tuple[Side, Side], monkeypatch: pytest.MonkeyPatch
) -> None:
    # By default operating is a right over the whole deployment; here each side operates its own.
    monkeypatch.setattr(policy, "OWNER", frozenset(Action))
    for side in sides:
        furnish(side)
    # Everything works on one's own, so that what is told afterwards is told by operations that tell something.
    worked = set()
    for own, other in (sides, sides[::-1]):
        for deed in deeds(own.name, own, own, "0"):
            if deed.operation not in ("archive_collection", "delete_thread"):
                reply = play(own.whole, deed, own, other)
                assert reply.status < 300, (deed, reply.raw)
                worked.add(deed.operation)
    # Then everything by everyone, about what is the other's: in one's own collection, and in the other's.
    everything = [
        (own, other, way, deed)
        for own, other in (sides, sides[::-1])
        for way in own.ways
        for place in (own, other)
        for deed in deeds(place.name, other, own, "1")
        if (place, deed.operation) != (own, "archive_collection")
    ]
    random.Random(SEED).shuffle(everything)
    for own, other, way, deed in everything:
        reply = play(own.ways[way], deed, own, other)
        if f"/collections/{other.name}" in deed.path:
            assert reply.status == 404, (way, deed, reply.raw)
    for own, other in (sides, sides[::-1]):
        for deed in deeds(own.name, own, own, "2"):
            if deed.operation in ("archive_collection", "delete_thread"):
                assert play(own.whole, deed, own, other).status < 300, deed
                worked.add(deed.operation)
    described = json.loads(description())["paths"].values()
    assert worked == {item["operationId"] for methods in described for item in methods.values()}


def rights() -> dict[str, Action | None]:
    """What each operation needs, as it is declared."""
    views = [getattr(pattern.callback, "cls", None) for pattern in urls.urlpatterns]
    declared = [
        method.operation
        for view in views
        for name in ("get", "post", "put", "patch", "delete")
        if hasattr(method := getattr(view, name, None), "operation")
    ]
    return {operation.id: operation.action for operation in declared}


def test_a_key_may_do_what_its_scope_says_and_no_more(
    sides: tuple[Side, Side], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy, "OWNER", frozenset(Action))
    own, _other = sides
    furnish(own)
    needed = rights()
    # Creating needs the scope to operate, and is about no collection; archiving would end the test.
    told = [deed for deed in deeds(own.name, own, own, "0") if needed[deed.operation] is not None]
    told.sort(key=lambda deed: deed.operation == "archive_collection")
    for deed in told:
        for scope in SCOPES:
            reply = own.ways[scope].call(deed.method, deed.path, deed.body)
            refused = (reply.status, (reply.json or {}).get("code")) == (403, "scope_missing")
            assert refused == (scope != needed[deed.operation]), (scope, deed, reply.raw)
    create = {"name": f"{own.name}-third"}
    for scope in SCOPES:
        assert own.ways[scope].post("/collections", create).status == (201 if scope == "operate" else 403)


def play(way: Api, deed: Deed, own: Side, other: Side) -> Reply:
    """Make a request; nothing that only the other side has may be in the answer, if it was not in the request."""
    reply = way.call(deed.method, deed.path, deed.body)
    assert reply.status < 500, (deed, reply.raw)
    sent, told = f"{deed.path} {deed.body}", reply.raw.decode() + str(dict(reply.headers))
    leaked = [secret for secret in other.secrets if secret in told and secret not in sent]
    assert not leaked, (deed, reply.raw)
    if reply.status < 300:
        own.secrets |= {ref["id"] for ref in _refs(reply.json)} - other.secrets
    return reply


def test_another_tenants_collection_is_as_much_work_as_none(sides: tuple[Side, Side]) -> None:
    """The same queries in the same order, the same answer: nobody learns what there is."""
    own, other = sides
    assert other.whole.get("statistics").status == 200
    for way in own.ways.values():
        answers = []
        for name in (other.name, "nowhere"):
            with CaptureQueriesContext(connection) as queries:
                reply = way.get(f"/collections/{name}/statistics")
            shapes = [re.sub(r"\b\d+\b", "0", q["sql"].replace(name, "?")) for q in queries.captured_queries]
            problem = {**reply.json, "request_id": "", "instance": reply.json["instance"].replace(name, "?")}
            answers.append((reply.status, shapes, problem))
        assert answers[0] == answers[1]
        assert answers[0][0] == 404


def test_ids_of_another_tenant_do_not_exist(sides: tuple[Side, Side]) -> None:
    own, other = sides
    refs = other.whole.post("remember", {"content": "a", "entity_drafts": [{}]}).json["persisted_object_ids"]
    mine = own.whole
    for ref in refs:
        for path in (
            f"objects/{ref['object_type']}/{ref['id']}",
            f"objects/{ref['object_type']}/{ref['id']}/history",
        ):
            stranger = mine.get(path.replace(ref["id"], str(uuid4())))
            reply = mine.get(path)
            assert (reply.status, reply.json["detail"]) == (stranger.status, stranger.json["detail"])
            assert reply.status == 404
    episode = next(ref for ref in refs if ref["object_type"] == "episode")
    forgotten = mine.post("forget", {"targets": [episode], "rationale": "a"})
    assert (forgotten.status, forgotten.code) == (404, "object_not_found")
    assert mine.put("external-keys/a", episode).status == 404
    kept = other.whole.get(f"objects/episode/{episode['id']}")
    assert kept.json["suppressed"] is False
