"""Remember, plans and links over HTTP."""

from __future__ import annotations

from typing import Any

from charactermemory.ids import new_id
from memory_app.runtime import get_memory
from tests.api.conftest import Api
from tests.support.plans import belief, episode, notion, plan

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


def test_what_could_not_be_derived_is_named_and_the_rest_is_stored(api: Api, monkeypatch: Any) -> None:
    def fail(*args: Any) -> None:
        from charactermemory.errors import VectorDatabaseError

        raise VectorDatabaseError("edge", "io", "the disk is full")

    api.remember("The first opens the memory.")
    monkeypatch.setattr(type(get_memory("ada").stores.vectors), "write", fail)
    reply = api.post("remember", {"content": "Ada planted tomatoes."})
    assert reply.status == 201
    assert reply.json["complete"] is False
    (marker,) = reply.json["repair_needed"]
    assert marker["kind"] == "vector_index"
    (observation,) = marker["objects"]
    assert api.get(f"objects/observation/{observation['id']}").status == 200


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
