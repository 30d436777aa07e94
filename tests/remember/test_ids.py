"""Ids that follow from names: golden vectors, framing, and what changes them (core-1 to core-5)."""

from __future__ import annotations

import copy
import pickle
from datetime import timedelta, timezone
from uuid import UUID

import pytest
from pydantic import TypeAdapter, ValidationError

from charactermemory.domain.kinds import DerivedType, RelationType
from charactermemory.domain.provenance import SourceSpan
from charactermemory.domain.scene import Participant, Scene, Setting
from charactermemory.ids import (
    MemoryId,
    MemoryObjectRef,
    ObjectType,
    about_link_id,
    derive_id,
    supersedes_link_id,
)
from charactermemory.memory import CharacterMemory
from charactermemory.remember.drafts import (
    DerivedMemoryDraft,
    EntityDraft,
    EpisodeDraft,
    MemoryLinkDraft,
    MemoryThreadDraft,
    ObservationDraft,
)
from charactermemory.remember.plan import RememberWritePlan
from charactermemory.remember.prepare import (
    PrepareOptions,
    RememberInput,
    RememberPlanDefaults,
    prepare,
)
from tests.support.plans import AT, uid

FIXED = RememberPlanDefaults.fixed("fixed-operation", AT)
BARE = PrepareOptions(include_vector_index_candidates=False, include_stats_update_candidates=False)

GOLDEN = {
    "episode:0": "995e5298-e044-58a4-9653-4dc54cc52c46",
    "observation:0": "b1d498ee-68b4-569e-aba4-db736a1b8e50",
    "observation:1": "4fa2a9d4-414c-558e-9c3c-3282a69eb223",
    "entity:0": "5f80e8df-3761-5689-a167-6762b3537d4e",
    "thread:0": "7ae8f071-e0d7-5d71-b1e2-ae89faaca833",
    "derived:0": "a42abd45-1d4d-588b-8ebf-e49b7e766c5d",
    "caller-link:0": "972f8d4c-d03e-5f12-a53b-a2d25238e3b4",
    "hint-link:entity:0": "bd8e8d98-712d-57a8-be12-924689f55ccd",
}
"""Fixed for ever: stored ids depend on them."""


def everything(words: str) -> RememberInput:
    """An input that brings a candidate of every kind, all of whose texts are `words`."""
    return RememberInput(
        scene=Scene(
            time=AT,
            participants=(Participant(key=uid(7), name=words, description=words),),
            setting=Setting(key=words, words=words),
            custom_values={words: words},
        ),
        episode=EpisodeDraft.new(f"{words} as a whole"),
        observations=(ObservationDraft.new(words), ObservationDraft.new(words)),
        entity_ids=(uid(7),),
        raw_refs=(words,),
        source_spans=(SourceSpan.raw(words),),
        entity_drafts=(EntityDraft(),),
        memory_thread_drafts=(MemoryThreadDraft.new(words, words),),
        derived_memory_drafts=(DerivedMemoryDraft.new(DerivedType.CLAIM, words),),
        memory_link_drafts=(
            MemoryLinkDraft.new(
                ObjectType.ENTITY, uid(7), RelationType.ASSOCIATED_WITH, ObjectType.ENTITY, uid(8)
            ),
        ),
    )


def ids_of(plan: RememberWritePlan) -> list[MemoryId | None]:
    return [item.candidate.draft.id for _, item in plan.object_candidates]


@pytest.mark.spec("core-1")
@pytest.mark.parametrize("words", ["hello", "Something else altogether, with 漢字 and \u00a0 spaces "])
def test_fixed_defaults_give_the_golden_ids_whatever_the_content(words: str) -> None:
    assert ids_of(prepare(everything(words), BARE, FIXED)) == [UUID(text) for text in GOLDEN.values()]


@pytest.mark.spec("core-2")
def test_the_facade_makes_new_ids_each_time_and_keeps_those_of_drafts(memory: CharacterMemory) -> None:
    data = everything("hello")
    first, second = ids_of(memory.prepare(data)), ids_of(memory.prepare(data))
    assert len(first) == len(GOLDEN)
    assert set(first).isdisjoint(second)

    named = data.replace(
        episode=EpisodeDraft(id=uid(1)),
        observations=(ObservationDraft(id=uid(2), text="a"), ObservationDraft(id=uid(3), text="b")),
        entity_drafts=(EntityDraft(id=uid(4)),),
        memory_thread_drafts=(MemoryThreadDraft(id=uid(5), title="t", summary="s"),),
        derived_memory_drafts=(DerivedMemoryDraft(id=uid(6), derived_type=DerivedType.CLAIM, text="d"),),
        memory_link_drafts=(data.memory_link_drafts[0].replace(id=uid(9)),),
        entity_ids=(),
    )
    given = [uid(number) for number in (1, 2, 3, 4, 5, 6, 9)]
    assert ids_of(memory.prepare(named)) == given
    assert ids_of(memory.prepare(named)) == given


@pytest.mark.spec("core-3")
def test_the_same_input_gives_the_same_plan_and_json_keeps_it() -> None:
    data = everything("hello").with_scene(
        Scene.at(AT.astimezone(timezone(timedelta(hours=9))), words="by the river")
    )
    first, second = prepare(data, PrepareOptions(), FIXED), prepare(data, PrepareOptions(), FIXED)
    assert first == second
    assert first.to_json() == second.to_json()

    read_back = RememberWritePlan.from_json(first.to_json())
    assert read_back == first
    assert read_back.to_json() == first.to_json()  # equality alone would overlook the scene's offset
    assert "null" not in first.to_json()


@pytest.mark.spec("core-4")
def test_parts_are_framed() -> None:
    assert derive_id("ab", "c") != derive_id("a", "bc")


@pytest.mark.spec("core-5")
def test_derived_links_of_one_pair_differ() -> None:
    supersedes, about = supersedes_link_id(uid(1), uid(2)), about_link_id(uid(1), uid(2))
    assert supersedes == UUID("0bff0f8e-8d65-586b-a3d5-ed644bb61da2")
    assert about == UUID("7aa75560-d950-5ad1-bab9-b6802b11501e")
    assert supersedes != about


def test_a_reference_is_a_value() -> None:
    ref = MemoryObjectRef(object_type=ObjectType.EPISODE, id=UUID(int=7))
    same = TypeAdapter(MemoryObjectRef).validate_json(f'{{"id": "{UUID(int=7)}", "object_type": "episode"}}')
    for twin in (same, copy.deepcopy(ref), pickle.loads(pickle.dumps(ref))):
        assert twin == ref and hash(twin) == hash(ref)
        assert (twin.object_type, twin.id) == (ObjectType.EPISODE, UUID(int=7))
    assert repr(ref) == f"MemoryObjectRef(object_type={ObjectType.EPISODE!r}, id={UUID(int=7)!r})"
    assert str(ref) == f"episode {UUID(int=7)}"
    with pytest.raises(AttributeError):
        ref.id = UUID(int=8)
    with pytest.raises(ValidationError, match="instance of ObjectType"):
        MemoryObjectRef(object_type="episode", id=UUID(int=7))  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="instance of UUID"):
        MemoryObjectRef(object_type=ObjectType.EPISODE, id="7")  # type: ignore[arg-type]


def test_references_sort_by_id_then_type() -> None:
    refs = [MemoryObjectRef.of(kind, UUID(int=number)) for kind in ObjectType for number in (3, 1, 2)]
    assert sorted(refs) == sorted(
        refs, key=lambda ref: (ref.id.bytes, list(ObjectType).index(ref.object_type))
    )
