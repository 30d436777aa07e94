"""`Idempotency-Key`: the same request twice is done once, whatever happened to the first."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from charactermemory.ids import new_id
from memory_app import operations
from memory_app.models import IdempotencyRecord
from memory_app.runtime import get_memory
from tests.api.conftest import Api


def stored() -> list[Any]:
    """Everything the memory holds."""
    return get_memory("ada").browse.list()[0]


def test_the_outcome_is_kept_and_answered_again(api: Api) -> None:
    first = api.post("remember", {"content": "a", "raw_refs": ["x"]}, Idempotency_Key="one")
    again = api.post("remember", {"raw_refs": ["x"], "content": "a"}, Idempotency_Key="one")
    assert (first.status, again.status) == (201, 201)
    assert again.json == first.json
    assert again.headers["Idempotency-Replayed"] == "true"
    assert "Idempotency-Replayed" not in first.headers
    assert len(stored()) == 2
    assert api.post("remember", {"content": "a"}, Idempotency_Key="two").status == 201
    assert len(stored()) == 4


def test_a_key_is_for_one_request(api: Api) -> None:
    assert api.post("remember", {"content": "a"}, Idempotency_Key="one").status == 201
    for path, body in (("remember", {"content": "b"}), ("remember?update_vectors=false", {"content": "a"})):
        reply = api.post(path, body, Idempotency_Key="one")
        assert (reply.status, reply.code) == (422, "idempotency_key_reused")
    assert len(stored()) == 2


@pytest.mark.parametrize("key", ["", "a b", "\u00fc", "x" * 256])
def test_a_key_must_be_one(api: Api, key: str) -> None:
    reply = api.post("remember", {"content": "a"}, Idempotency_Key=key)
    assert (reply.status, reply.code) == (400, "invalid_idempotency_key")


def test_a_request_in_progress_is_a_conflict(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    api.remember("opens the memory")
    inner: list[int] = []
    memory = get_memory("ada")
    commit = type(memory).commit

    def slow(self: Any, *args: Any) -> Any:
        reply = api.post("remember", {"content": "a"}, Idempotency_Key="one")
        inner.append(reply.status)
        assert reply.code == "idempotency_in_progress"
        return commit(self, *args)

    monkeypatch.setattr(type(memory), "commit", slow)
    assert api.post("remember", {"content": "a"}, Idempotency_Key="one").status == 201
    assert inner == [409]


def test_a_request_cut_off_after_its_commit_is_done_once(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process dies between the commit and the note of its outcome; the lease ends, the client repeats."""
    api.remember("opens the memory")
    with monkeypatch.context() as patch:
        patch.setattr(
            "memory_app.api.views.remembering.RememberAnswer.of",
            lambda outcome: (_ for _ in ()).throw(SystemError("cut off")),
        )
        assert api.post("remember", {"content": "a"}, Idempotency_Key="one").status == 500
    assert len(stored()) == 4
    again = api.post("remember", {"content": "a"}, Idempotency_Key="one")
    assert again.status == 201
    assert len(again.json["persisted_object_ids"]) == 2
    assert len(stored()) == 4


def test_a_failure_is_not_kept(api: Api) -> None:
    target = {"targets": [{"object_type": "episode", "id": str(new_id())}], "rationale": "r"}
    assert api.post("forget", target, Idempotency_Key="one").status == 404
    assert api.post("forget", target, Idempotency_Key="one").status == 404
    assert IdempotencyRecord.objects.get().state == IdempotencyRecord.State.RUNNING


def test_a_link_is_made_once_and_its_words_stay_in_the_memory(api: Api) -> None:
    refs = api.remember("We met.", entity_drafts=[{}])
    draft = {
        "from_type": "episode", "from_id": refs["episode"]["id"], "relation": "involves",
        "to_type": "entity", "to_id": refs["entity"]["id"], "rationale": "a word of the memory",
    }  # fmt: skip
    first = api.post("link", draft, Idempotency_Key="one")
    again = api.post("link", draft, Idempotency_Key="one")
    assert (first.status, again.status) == (201, 201)
    assert again.json["link"] == first.json["link"]
    assert again.headers["Idempotency-Replayed"] == "true"
    assert "a word" not in str(list(IdempotencyRecord.objects.values()))


def test_corrections_and_forgettings_are_answered_again(api: Api) -> None:
    refs = api.remember("We met.")
    target = {"targets": [refs["observation"]], "rationale": "r"}
    first = api.post("forget", target, Idempotency_Key="one")
    assert first.json["graph_mutated_object_ids"]
    again = api.post("forget", target, Idempotency_Key="one")
    assert again.json == first.json, "a second run would find nothing left to change"


def test_old_rows_give_way(api: Api) -> None:
    api.post("remember", {"content": "a"}, Idempotency_Key="one")
    IdempotencyRecord.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert api.post("remember", {"content": "b"}, Idempotency_Key="one").status == 201
    assert IdempotencyRecord.objects.count() == 1


def test_outcomes_are_deleted_once_they_have_expired(api: Api) -> None:
    api.post("remember", {"content": "a"}, Idempotency_Key="one")
    api.post("remember", {"content": "b"}, Idempotency_Key="two")
    IdempotencyRecord.objects.filter(key="one").update(expires_at=timezone.now())
    assert operations.repair.prune() == 1
    assert IdempotencyRecord.objects.get().key == "two"


@pytest.mark.django_db(transaction=True)
def test_of_many_at_once_one_is_done(api: Api) -> None:
    api.remember("opens the memory")
    replies: list[Any] = []

    def call() -> None:
        from django.db import connection

        replies.append(Api("ada", api.token).post("remember", {"content": "a"}, Idempotency_Key="one"))
        connection.close()

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {reply.status for reply in replies} <= {201, 409}
    assert any(reply.status == 201 for reply in replies)
    assert len(stored()) == 4
