"""Whatever Unicode a text is made of comes back unchanged: API, graph, index and export (field reports F)."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from charactermemory.domain.model import says_nothing
from charactermemory.domain.names import fold_white_space
from charactermemory.ids import MemoryObjectRef, ObjectType
from memory_app.runtime import get_memory
from tests.api.conftest import Api

# Every scalar value but NUL, which is refused: all classes, and each of those that break things now and then.
SCALARS = st.characters(exclude_categories=("Cs",), exclude_characters="\x00")
CLASSES = st.sampled_from(
    ["\u0001", "\u001c", "\u007f", "\u0085", "\u00a0", "\u00df", "e\u0301", "\u0130", "\u200d", "\u202e", "\u2028",
     "\ufeff", "\ufffd", "\ufffe", "\uffff", "\ue000", "\U0001f469\u200d\U0001f680", "\U000e0041", "\U0010ffff",
     "\uac00", "\u1112\u1161", "\\", '"', "\r\n", "\t", "\\u0041", "<&>", "{0}%s"]
)  # fmt: skip
TEXTS = st.lists(st.one_of(SCALARS, CLASSES), min_size=1, max_size=60).map("".join)
TEXTS = TEXTS.filter(lambda text: not says_nothing(text))  # blank ones are refused


@pytest.fixture
def opened(api: Api) -> Api:
    api.remember("opens the memory")
    return api


@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(text=TEXTS)
def test_a_text_is_the_same_everywhere(opened: Api, text: str) -> None:
    key = "k-" + text[:50]
    ref = opened.remember(text, raw_refs=[key])["observation"]
    memory, typed = get_memory("ada"), TypeAdapter(MemoryObjectRef).validate_json(_json(ref))

    stored = opened.get(f"objects/observation/{ref['id']}").json["object"]
    assert (stored["text"], stored["raw_ref"]) == (text, key)
    held: Any = memory.stores.graph.read([typed], anew=True)[typed].object
    assert (held.text, held.raw_ref) == (text, key)
    assert _indexed(memory, typed) == fold_white_space(text)
    line = next(line for line in memory.upkeep.export() if _is_text_of(line, ref["id"]))
    assert _literal(line) == text


def _json(value: dict[str, str]) -> str:
    import json

    return json.dumps(value)


def _indexed(memory: Any, ref: MemoryObjectRef) -> str | None:
    """The text that the index keeps beside the vector of an object."""
    after: str | None = None
    while True:
        page, after = memory.stores.vectors.scan(after, 1_000)
        for found, text in page:
            if found == ref:
                return str(text)
        if after is None:
            return None


def _is_text_of(line: bytes, id: str) -> bool:
    return (
        f"urn:charactermemory:{ObjectType.OBSERVATION.value}:{id}> ".encode() in line
        and b"vocab:text> " in line
    )


def _literal(line: bytes) -> str:
    from pyoxigraph import RdfFormat, parse

    (quad,) = parse(line, format=RdfFormat.N_QUADS)
    return str(quad.object.value)


@pytest.mark.parametrize("text", ["a\x00b", "a\ud800b"])
def test_what_no_store_keeps_is_refused_by_place(opened: Api, text: str) -> None:
    reply = opened.post("remember", {"content": text})
    assert (reply.status, reply.code) == (400, "invalid_body")
    assert re.search(r"character 1|column \d+", reply.json["errors"][0]["detail"])
