"""The facade's main scenarios, over the facade itself and over both clients: nobody can tell them apart."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import httpx
import pytest
from django.test import Client

from charactermemory import (
    CorrectionTarget,
    CorrectMemoryDraft,
    DerivedMemoryDraft,
    DerivedType,
    ExternalSourceReference,
    ForgetMemoryDraft,
    MemoryLinkDraft,
    MemoryObjectRef,
    ObjectType,
    RelationType,
    RememberInput,
    RememberPlanDefaults,
    RetrievalContext,
    SourceProvenanceReference,
    new_id,
)
from charactermemory.client import AsyncMemoryClient, MemoryClient, RequestFailed
from charactermemory.errors import (
    CharacterMemoryError,
    DeterministicIdCollision,
    GraphExpansionRootNotFound,
    InvalidInput,
    OutOfDomain,
    StoreUnavailable,
    VectorDatabaseError,
    WritePlanValidationRejected,
)
from memory_app.runtime import get_memory
from tests.api.conftest import Api
from tests.support.plans import AT, belief, episode, episode_ref, memory_ref, notion, plan, uid

URL = "http://testserver/api/v1"
SAID = SourceProvenanceReference(external_refs=(ExternalSourceReference(raw_ref="chat 2"),))


@pytest.mark.parametrize("kind", [MemoryClient, AsyncMemoryClient])
@pytest.mark.parametrize("name", ["../admin", "ada/objects", "ada?x=", "Ada", ""])
def test_a_client_asks_for_no_collection_that_cannot_be(kind: Any, name: str) -> None:
    with pytest.raises(OutOfDomain, match="collection_name"):
        kind(URL, name, "cm_key")


class Awaited:
    """An asynchronous client whose methods wait."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name == "browse":
            return Awaited(found)

        return lambda *args, **kwargs: finished(found(*args, **kwargs))


def finished(coroutine: Any) -> Any:
    """Run what never has to wait, without an event loop: Django would take another connection in one."""
    with pytest.raises(StopIteration) as end:
        coroutine.send(None)
    return end.value.value


def serve(request: httpx.Request) -> httpx.Response:
    """Answer a request as the server would."""
    sent = {name: value for name, value in request.headers.items() if name not in ("host", "content-length")}
    kind = sent.pop("content-type", "")
    answer = Client().generic(
        request.method, request.url.raw_path.decode(), request.content, content_type=kind, headers=sent
    )
    return httpx.Response(answer.status_code, headers=dict(answer.headers), content=answer.content)


async def serve_later(request: httpx.Request) -> httpx.Response:
    return serve(request)


@pytest.fixture(params=["facade", "client", "async"])
def memory(request: pytest.FixtureRequest, api: Api) -> Any:
    """One memory, near or far."""
    if request.param == "facade":
        return get_memory("ada")
    if request.param == "client":
        return MemoryClient(URL, "ada", api.token, transport=httpx.MockTransport(serve))
    return Awaited(AsyncMemoryClient(URL, "ada", api.token, transport=httpx.MockTransport(serve_later)))


def test_a_plan_is_made_judged_stored_and_stored_again(memory: Any) -> None:
    defaults = RememberPlanDefaults.fixed("seed", AT)
    made = memory.prepare(RememberInput.new("It rained."), defaults=defaults)
    assert made == memory.prepare(RememberInput.new("It rained."), defaults=defaults)
    assert [row.status for row in memory.validate_plan(made)] == ["valid"] * len(made.candidates)
    first, again = memory.commit(made), memory.commit(made)
    assert first.complete
    assert first.persisted_object_ids == again.persisted_object_ids
    found = memory.browse.get(*first.persisted_object_ids, MemoryObjectRef.of(ObjectType.EPISODE, new_id()))
    assert found.keys() == set(first.persisted_object_ids)
    assert {item.object.created_at for item in found.values()} == {AT}


def test_an_invalid_plan_and_a_taken_id_are_refused(memory: Any) -> None:
    with pytest.raises(WritePlanValidationRejected) as refused:
        memory.commit(plan(notion(1), belief(2, "It rains.", (9,))))
    assert [row.status for row in refused.value.validations] == ["valid", "invalid"]
    memory.commit(plan(episode(1, "We met.")))
    with pytest.raises(DeterministicIdCollision) as taken:
        memory.commit(plan(episode(1, "We parted.")))
    assert taken.value.object == episode_ref(1)
    with pytest.raises(InvalidInput) as empty:
        memory.remember(RememberInput())
    assert [where for where, _ in empty.value.problems] == ["/content"]


def test_what_was_remembered_comes_to_mind(memory: Any) -> None:
    outcome = memory.remember("Ada planted tomatoes in spring.")
    assert outcome.complete
    for asked in ("tomatoes", RetrievalContext.new("tomatoes").with_trace()):
        found = memory.retrieve(asked)
        assert [item.text for item in found.pack.salient_observations] == ["Ada planted tomatoes in spring."]
        assert (found.trace is not None) == (asked != "tomatoes")
    nothing_asked = memory.retrieve(RetrievalContext())
    assert nothing_asked.rationale.telemetry.query_embedding_dimension is None


def test_a_correction_supersedes_and_a_forgetting_suppresses(memory: Any) -> None:
    draft = DerivedMemoryDraft.new(DerivedType.CLAIM, "Ada likes beans.")
    stored = memory.remember(RememberInput.new("We talked.").with_derived_memory(draft))
    (old,) = (ref for ref in stored.persisted_object_ids if ref.object_type is ObjectType.DERIVED_MEMORY)
    correction = CorrectMemoryDraft.new(CorrectionTarget.derived_memory(old.id), "wrong").with_origin(SAID)
    preview = memory.plan_correction(correction)
    assert memory.browse.get(old)[old].current
    made = memory.correct(correction)
    assert made.graph_mutated_object_ids == preview.graph_mutated_object_ids
    chain = memory.browse.history(old)
    assert [item.current for item in chain] == [False, True]
    forgetting = ForgetMemoryDraft.suppress(chain[1].ref, "not to be known")
    assert memory.plan_forget(forgetting).graph_mutated_object_ids == (chain[1].ref,)
    assert memory.forget(forgetting).graph_mutated_object_ids == (chain[1].ref,)
    assert [item.current for item in memory.browse.history(old)] == [False, False]
    assert memory.browse.history(memory_ref(0x99)) == []
    with pytest.raises(GraphExpansionRootNotFound) as missing:
        memory.forget(ForgetMemoryDraft.suppress(memory_ref(0x99), "r"))
    assert missing.value.object_id == uid(0x99)


def test_two_objects_are_linked(memory: Any) -> None:
    memory.commit(plan(episode(1, "We met."), notion(2)))
    draft = MemoryLinkDraft.new(ObjectType.EPISODE, uid(1), RelationType.INVOLVES, ObjectType.ENTITY, uid(2))
    outcome = memory.link(draft)
    assert outcome.complete
    assert (outcome.link.from_id, outcome.link.to_id) == (uid(1), uid(2))
    seen, after = memory.browse.list(limit=2)
    assert len(seen) == 2
    rest, after = memory.browse.list(after, 2)
    assert {item.ref for item in seen + rest} == {
        episode_ref(1),
        outcome.link.ref,
        *(i.ref for i in seen + rest),
    }
    with pytest.raises(CharacterMemoryError):
        memory.link(draft.replace(to_id=new_id()))


def test_a_write_whose_derived_part_fails_says_so(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    draft = DerivedMemoryDraft.new(DerivedType.CLAIM, "Ada likes beans.")
    beliefs = RememberInput.new("We talked.").with_derived_memory(draft).with_derived_memory(draft)
    stored = memory.remember(beliefs).persisted_object_ids
    old, other = (ref for ref in stored if ref.object_type is ObjectType.DERIVED_MEMORY)
    made = memory.prepare(RememberInput.new("It rained."))

    def fail(*args: Any) -> None:
        raise VectorDatabaseError("edge", "io", "the disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(type(get_memory("ada").stores.vectors), "write", fail)
        written = memory.commit(made)
        corrected = memory.correct(
            CorrectMemoryDraft.new(CorrectionTarget.derived_memory(old.id), "wrong").with_origin(SAID)
        )
        forgotten = memory.forget(ForgetMemoryDraft.suppress(other, "not to be known"))
    for outcome, kind in (
        (written, "vector_index"),
        (corrected, "vector_maintenance"),
        (forgotten, "vector_maintenance"),
    ):
        assert not outcome.complete
        (marker,) = outcome.repair_needed
        assert marker.kind == kind
    assert [item.current for item in memory.browse.history(old)] == [False, True]
    assert memory.browse.get(other)[other].suppressed
    again = memory.commit(made)
    assert again.complete and not again.repair_needed


# --- what only a client has ----------------------------------------------------------------------


@pytest.fixture
def client(api: Api) -> MemoryClient:
    return MemoryClient(URL + "/", "ada", api.token, transport=httpx.MockTransport(serve))


def test_a_key_names_an_object_and_a_prompt_is_written(client: MemoryClient) -> None:
    with client:
        client.commit(plan(notion(2)), idempotency_key="one")
        ref = MemoryObjectRef.of(ObjectType.ENTITY, uid(2))
        assert client.external_key("user/42 \u00e9") is None
        assert client.set_external_key("user/42 \u00e9", ref) == ref == client.external_key("user/42 \u00e9")
        client.remember("Ada planted tomatoes.", idempotency_key="two")
        assert client.remember("Ada planted tomatoes.", idempotency_key="two").complete
        assert client.statistics()["indexed"] == 1
        prompt = client.prompt("tomatoes", budget=500)
        assert "Ada planted tomatoes." in prompt.text
        assert prompt.tokens <= 500


def test_refusals_and_silence_are_errors_of_the_memory(client: MemoryClient, api: Api) -> None:
    elsewhere = MemoryClient(URL, "bob", api.token, transport=httpx.MockTransport(serve))
    with pytest.raises(RequestFailed) as hidden:
        elsewhere.browse.get(episode_ref(1))
    assert (hidden.value.status, hidden.value.problem) == (404, "collection_not_found")
    assert hidden.value.request_id in str(hidden.value)

    def broken(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    silent = MemoryClient(URL, "ada", transport=httpx.MockTransport(broken))
    with pytest.raises(StoreUnavailable, match="refused"):
        silent.retrieve("a")


def answered(status: int, **answer: Any) -> MemoryClient:
    """A client that is always answered so."""
    return MemoryClient(
        URL, "ada", transport=httpx.MockTransport(lambda request: httpx.Response(status, **answer))
    )


@pytest.mark.parametrize("status", [200, 204, 301, 404, 500])
def test_what_is_no_answer_of_the_api_says_what_the_client_wants(status: int) -> None:
    with pytest.raises(RequestFailed, match=f"{status} no_problem: .+ address"):
        answered(status, text="" if status == 204 else "<html>").retrieve("a")


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_proxy_without_its_server_is_a_memory_out_of_reach(status: int) -> None:
    with pytest.raises(StoreUnavailable, match=f"a proxy answered {status}"):
        answered(status, text="<html>").retrieve("a")


def test_who_asks_too_often_is_told_how_long_to_wait() -> None:
    problem = {"code": "throttled", "detail": "Too many."}
    with pytest.raises(RequestFailed) as refused:
        answered(429, json=problem, headers={"Retry-After": "17"}).retrieve("a")
    assert refused.value.retry_after_seconds == 17
    with pytest.raises(RequestFailed) as refused:
        answered(429, json=problem, headers={"Retry-After": "Mon, 30 Nov 2026 16:00:00 GMT"}).retrieve("a")
    assert refused.value.retry_after_seconds is None


@pytest.mark.parametrize("key", ["", "turn 1", "Zug-für-Zug", "x" * 256])
def test_a_key_that_no_server_takes_is_refused_before_anything_is_sent(
    client: MemoryClient, key: str
) -> None:
    with pytest.raises(InvalidInput, match="idempotency_key"):
        client.remember("It rained.", idempotency_key=key)


def test_a_text_that_cannot_be_kept_is_refused_as_the_facade_refuses_it(client: MemoryClient) -> None:
    for deed in (client.remember, client.retrieve, client.prompt):
        with pytest.raises(InvalidInput, match="at most 50000 characters"):
            deed("x" * 50_001)


def test_the_core_alone_loads_no_http_client() -> None:
    code = "import charactermemory, sys; sys.exit('httpx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
