"""Remember, plans and links over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from charactermemory.errors import RetrievalStatsStoreError, VectorDatabaseError
from charactermemory.ids import new_id
from memory_app.runtime import get_memory
from tests.api.conftest import Api
from tests.support.plans import belief, episode, notion, plan

BELIEF = {"derived_type": "claim", "text": "Ada likes beans."}
INVOLVES = {"relation": "involves", "from_type": "episode", "to_type": "entity"}


def test_remember_stores_and_says_what(api: Api) -> None:
    reply = api.post("remember", {"content": "Ada planted tomatoes."})
    assert reply.status == 201
    assert reply.json["complete"] is True
    assert {ref["object_type"] for ref in reply.json["persisted_object_ids"]} == {"episode", "observation"}
    assert len(reply.json["vector_indexed_object_ids"]) == 1
    (observation,) = [r for r in reply.json["persisted_object_ids"] if r["object_type"] == "observation"]
    stored = api.get(f"objects/observation/{observation['id']}")
    assert stored.status == 200
    assert stored.json["object"]["text"] == "Ada planted tomatoes."
    assert stored.json["current"] is True


def test_a_plan_is_prepared_judged_and_committed_and_again(api: Api) -> None:
    fixed = "operation_seed=one&created_at=2026-01-01T09:30:00Z"
    made = api.post(f"plans?{fixed}", {"content": "It rained."})
    assert made.status == 200
    assert api.post(f"plans?{fixed}", {"content": "It rained."}).json == made.json
    verdict = api.post("plans/validate", made.json)
    assert (verdict.status, verdict.json["valid"]) == (200, True)
    first, second = api.post("plans/commit", made.json), api.post("plans/commit", made.json)
    assert (first.status, second.status) == (201, 201)
    assert first.json["persisted_object_ids"] == second.json["persisted_object_ids"]
    assert len(get_memory("ada").browse.list()[0]) == 2


def test_an_invalid_plan_is_refused_with_a_row_for_each_candidate(api: Api) -> None:
    stranger = new_id()
    sent = wire(plan(notion(1), belief(2, "It rains.", (9,), entity_ids=(stranger,))))
    verdict = api.post("plans/validate", sent)
    assert (verdict.status, verdict.json["valid"]) == (200, False)
    refused = api.post("plans/commit", sent)
    assert refused.status == 422
    assert refused.code == "write_plan_validation_rejected"
    assert [row["status"] for row in refused.json["candidates"]] == ["valid", "invalid"]
    assert refused.json["candidates"] == verdict.json["validations"]
    assert refused.json["candidates"][1]["errors"][0]["kind"] == "unknown_object_ref"
    assert get_memory("ada").browse.list()[0] == []


def test_an_id_with_other_content_is_a_conflict(api: Api) -> None:
    assert api.post("plans/commit", wire(plan(episode(1, "We met.")))).status == 201
    taken = api.post("plans/commit", wire(plan(episode(1, "We parted."))))
    assert (taken.status, taken.code) == (409, "deterministic_id_collision")
    assert [ref["object_type"] for ref in taken.json["objects"]] == ["episode"]


def test_a_link_is_stored_and_its_ends_must_be(api: Api) -> None:
    stored = api.remember("We met.", entity_drafts=[{}])
    ends = {"from_id": stored["episode"]["id"], "to_id": stored["entity"]["id"]}
    linked = api.post("link", INVOLVES | ends | {"rationale": "they did"})
    assert linked.status == 201
    assert linked.json["complete"] is True
    assert linked.json["link"]["rationale"] == "they did"
    unknown = api.post("link", INVOLVES | ends | {"to_id": str(new_id())})
    assert (unknown.status, unknown.code) == (404, "unknown_object_ref")
    forbidden = api.post(
        "link",
        {"relation": "supersedes", "from_type": "derived_memory", "to_type": "derived_memory"}
        | {"from_id": str(new_id()), "to_id": str(new_id())},
    )
    assert (forbidden.status, forbidden.code) == (422, "authored_supersedes_link")


def test_what_could_not_be_derived_is_named_and_the_rest_is_stored(
    api: Api, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.CHARACTER_MEMORY = {**settings.CHARACTER_MEMORY, "STATISTICS": "core"}
    stored = api.remember("We met.", entity_drafts=[{}], derived_memory_drafts=[BELIEF])
    old, ends = (
        stored["derived_memory"],
        {"from_id": stored["episode"]["id"], "to_id": stored["entity"]["id"]},
    )
    stores = get_memory("ada").stores

    def fail(*args: Any, **named: Any) -> None:
        raise VectorDatabaseError("edge", "io", "the disk is full")

    def lose(*args: Any, **named: Any) -> None:
        raise RetrievalStatsStoreError("sqlite", "the disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(type(stores.vectors), "write", fail)
        broken.setattr(type(stores.statistics), "apply", lose)
        remembered = api.post("remember", {"content": "Ada planted tomatoes."}, Idempotency_Key="k")
        linked = api.post("link", INVOLVES | ends)
        origin = {"rationale": "r", "correction_origin": {"external_refs": [{"raw_ref": "chat"}]}}
        corrected = api.post("correct", origin | {"targets": [{"kind": "derived_memory", "id": old["id"]}]})
        forgotten = api.post("forget", {"targets": [stored["episode"]], "rationale": "r"})
    for reply, status, kinds in (
        (remembered, 201, {"vector_index", "stats_update"}),
        (linked, 201, {"stats_update"}),
        (corrected, 200, {"vector_maintenance", "stats_update"}),
        (forgotten, 200, {"vector_maintenance", "stats_update"}),
    ):
        assert (reply.status, reply.json["complete"]) == (status, False), reply.raw
        assert {marker["kind"] for marker in reply.json["repair_needed"]} == kinds
    # The memory itself has all of it.
    (observation,) = [r for r in remembered.json["persisted_object_ids"] if r["object_type"] == "observation"]
    assert api.get(f"objects/observation/{observation['id']}").json["current"] is True
    assert api.get(f"objects/derived_memory/{old['id']}").json["superseded"] is True
    assert api.get(f"objects/episode/{stored['episode']['id']}").json["suppressed"] is True
    again = api.post("remember", {"content": "Ada planted tomatoes."}, Idempotency_Key="k")
    assert again.json == remembered.json, "the outcome of the first run, whatever was repaired since"
    get_memory("ada").upkeep.sweep()
    stands = api.get("statistics").json
    assert (stands["vectors"]["lag"], stands["statistics"]["lag"]) == (0, 0)


def test_too_much_to_say_is_refused_before_anything_is_written(api: Api) -> None:
    neither = api.post("remember", {})
    assert (neither.status, neither.code) == (422, "invalid_input")
    assert neither.json["errors"][0]["pointer"] == "/content"
    long = api.post("remember", {"content": "x" * 50_001})
    assert (long.status, long.json["errors"][0]["pointer"]) == (400, "/content")


def wire(made: Any) -> Any:
    """The wire form of a plan."""
    import json

    return json.loads(made.to_json())
