"""Two tenants side by side: nothing of the one is ever told to the other, whatever is asked and by whom."""

from __future__ import annotations

import random
import re
import string
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from memory_app.api import policy
from memory_app.models import RepairMarker
from tests.api.conftest import Api, Reply, Tenant

WORDS = ("river", "lantern", "orchard", "violin", "compass", "harbour", "meadow", "anvil")


@dataclass
class Side:
    """One tenant: its ways in, and everything that is only its own."""

    name: str
    ways: list[Api]
    secrets: set[str] = field(default_factory=set)
    refs: list[dict[str, str]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    repairs: list[int] = field(default_factory=list)
    cursors: list[str] = field(default_factory=list)

    def takes_note(self, reply: Reply) -> None:
        """Learn which ids are this side's."""
        if reply.json is None or reply.status >= 400:
            return
        for ref in _refs(reply.json):
            if ref not in self.refs:
                self.refs.append(ref)
                self.secrets.add(ref["id"])
        if isinstance(reply.json, dict) and reply.json.get("next"):
            self.cursors.append(reply.json["next"])


def _refs(value: Any) -> list[dict[str, str]]:
    if isinstance(value, dict):
        if value.keys() == {"object_type", "id"}:
            return [value]
        return [ref for item in value.values() for ref in _refs(item)]
    return [ref for item in value for ref in _refs(item)] if isinstance(value, list) else []


@pytest.fixture
def sides(tenant: Tenant) -> tuple[Side, Side]:
    """Two tenants, each with a key that may everything, a key of one scope, and a session."""
    return _side(tenant, "aquamarine"), _side(tenant, "bergamot")


def _side(tenant: Tenant, name: str) -> Side:
    from memory_app.models import ApiKey, MemoryCollection

    key = tenant(name, operator=False)
    collection = MemoryCollection.objects.get(name=name)
    owner = get_user_model().objects.get(username=f"{name}-owner")
    _row, reader = ApiKey.objects.issue(owner, "reader", ["read"], [collection])
    client = Client(raise_request_exception=False)
    client.force_login(owner)
    return Side(name, [key, Api(name, reader), Api(name, client=client)], {name})


def deeds(rng: random.Random, own: Side, other: Side) -> tuple[str, str, Any]:
    """Choose one request: to any endpoint, about anything of either side."""
    text = _text(rng, own)
    whose = rng.choice((own, other))
    ref = rng.choice(whose.refs) if whose.refs else {"object_type": "episode", "id": str(uuid4())}
    second = rng.choice(own.refs) if own.refs else ref
    place = f"/collections/{rng.choice((own.name, own.name, other.name))}"
    key = rng.choice([*whose.keys, "nobody"])
    repair = rng.choice([*whose.repairs, 0])
    cursor = rng.choice([*whose.cursors, "x"])
    at = "2026-01-01T10:00:00Z"
    origin = {"rationale": text, "correction_origin": {"external_refs": [{"raw_ref": "chat"}]}}
    plan = {
        "candidates": [
            {
                "candidate_type": "derived_memory",
                "candidate": {
                    "draft": {
                        "id": rng.choice((ref["id"], str(uuid4()))), "derived_type": "claim", "text": text,
                        "derived_from_episode_ids": [ref["id"]], "supersedes": [second["id"]],
                        "created_at": at, "updated_at": at, "schema_version": "1",
                    },
                    "provenance": {"producer_kind": "caller", "rationale": {"origin": "unavailable"}},
                },
            }
        ]
    }  # fmt: skip
    link = {"from_id": ref["id"], "from_type": ref["object_type"], "to_id": second["id"]}
    dry = rng.choice(("", "?dry_run=true"))
    correction = origin | {"targets": [{"kind": "derived_memory", "id": ref["id"]}]}
    source = {"object_type": ref["object_type"], "id": ref["id"], "original_raw_ref": "chat"}
    return rng.choice([
        ("POST", f"{place}/remember", {"content": text}),
        ("POST", f"{place}/remember", {"content": text, "entity_drafts": [{}]}),
        ("POST", f"{place}/remember", {"content": text, "entity_ids": [ref["id"]]}),
        ("POST", f"{place}/plans", {"content": text, "thread_ids": [ref["id"]]}),
        ("POST", f"{place}/plans/validate", plan),
        ("POST", f"{place}/plans/commit", plan),
        ("POST", f"{place}/retrieve", {"topic": rng.choice(WORDS), "anchors": [ref["id"]]}),
        ("POST", f"{place}/retrieve?format=prompt", {"topic": rng.choice(WORDS), "include_trace": True}),
        ("POST", f"{place}/link", link | {"to_type": second["object_type"], "relation": "mentions"}),
        ("POST", f"{place}/correct{dry}", correction),
        ("POST", f"{place}/correct{dry}", origin | {"targets": [{"kind": "source_object", "target": source}]}),
        ("POST", f"{place}/forget{dry}", {"targets": [ref], "rationale": text}),
        ("GET", f"{place}/objects/{ref['object_type']}/{ref['id']}", None),
        ("GET", f"{place}/objects/{ref['object_type']}/{ref['id']}/history", None),
        ("GET", f"{place}/objects?limit=3&cursor={cursor}", None),
        ("GET", f"{place}/objects?limit=3", None),
        ("PUT", f"{place}/external-keys/{own.name}-{rng.randrange(9)}", ref),
        ("GET", f"{place}/external-keys/{key}", None),
        ("GET", f"{place}/statistics", None),
        ("GET", f"{place}/repairs?limit=1", None),
        ("GET", f"{place}/repairs/summary", None),
        ("POST", f"{place}/repairs/{repair}/replay", None),
        ("POST", f"{place}/repairs/{repair}/cancel", None),
        ("POST", f"/collections/{other.name}/archive", None),
        ("GET", place, None),
        ("GET", "/collections?limit=1", None),
        ("GET", f"/collections?cursor={cursor}", None),
        ("POST", "/collections", {"name": f"{own.name}-{rng.randrange(9)}"}),
        ("GET", "/openapi.json", None),
        ("GET", "/health", None),
    ])  # fmt: skip


def _text(rng: random.Random, side: Side) -> str:
    mark = "".join(rng.choices(string.ascii_lowercase, k=12))
    side.secrets.add(mark)
    return f"The {rng.choice(WORDS)} of {mark}."


@pytest.mark.parametrize("seed", range(2))
def test_nothing_of_one_tenant_is_told_to_the_other(
    sides: tuple[Side, Side], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # By default operating is a right over the whole deployment; here each side operates its own.
    monkeypatch.setattr(policy, "OWNER", policy.ALL)
    rng = random.Random(seed)
    for side in sides:
        for _ in range(3):
            side.takes_note(
                side.ways[0].post("remember", {"content": _text(rng, side), "entity_drafts": [{}]})
            )
        side.keys.append(f"{side.name}-0")
        assert side.ways[0].put(f"external-keys/{side.name}-0", side.refs[0]).status == 201
        row = RepairMarker.objects.create(
            collection=side.name, store="vector", object_type="episode", object_id=side.refs[0]["id"],
            origin="commit", cause_code=side.name, available_at=timezone.now(), due_since=timezone.now(),
        )  # fmt: skip
        side.repairs.append(row.pk)
    seen: dict[int, int] = {}
    for turn in range(400):
        own, other = sides if turn % 2 else sides[::-1]
        method, path, body = deeds(rng, own, other)
        reply = rng.choice(own.ways).call(method, path, body)
        seen[reply.status] = seen.get(reply.status, 0) + 1
        assert reply.status < 500, (method, path, reply.raw)
        if f"/collections/{other.name}" in path:
            assert reply.status == 404, (method, path, reply.raw)
        sent = f"{path} {body}"
        told = reply.raw.decode() + str(dict(reply.headers))
        leaked = [secret for secret in other.secrets if secret in told and secret not in sent]
        assert not leaked, (method, path, reply.raw)
        if f"/collections/{own.name}" in path and "dry_run" not in path and method != "GET":
            own.takes_note(_without(reply, other))
    assert seen[200] > 20
    assert seen[201] > 5
    assert seen[404] > 50


def _without(reply: Reply, other: Side) -> Reply:
    """Leave out ids that the request itself brought over."""
    if reply.json is not None and any(secret in reply.raw.decode() for secret in other.secrets):
        return Reply(reply.status, reply.headers, b"", None)
    return reply


def test_another_tenants_collection_is_as_much_work_as_none(sides: tuple[Side, Side]) -> None:
    """The same queries in the same order, the same answer: nobody learns what there is."""
    own, other = sides
    assert other.ways[0].get("statistics").status == 200
    for way in own.ways:
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
    other.takes_note(other.ways[0].post("remember", {"content": "a", "entity_drafts": [{}]}))
    mine = own.ways[0]
    for ref in other.refs:
        for path in (
            f"objects/{ref['object_type']}/{ref['id']}",
            f"objects/{ref['object_type']}/{ref['id']}/history",
        ):
            stranger = mine.get(path.replace(ref["id"], str(uuid4())))
            reply = mine.get(path)
            assert (reply.status, reply.json["detail"]) == (stranger.status, stranger.json["detail"])
            assert reply.status == 404
    episode = next(ref for ref in other.refs if ref["object_type"] == "episode")
    forgotten = mine.post("forget", {"targets": [episode], "rationale": "a"})
    assert (forgotten.status, forgotten.code) == (404, "object_not_found")
    assert mine.put("external-keys/a", episode).status == 404
    kept = other.ways[0].get(f"objects/episode/{episode['id']}")
    assert kept.json["suppressed"] is False
