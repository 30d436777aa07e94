"""What values an object may have, and that the stores keep them (core-12 to core-14)."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from copy import deepcopy
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from pydantic import ValidationError

from charactermemory.domain.beliefs import BeliefAssertion
from charactermemory.domain.digest import digest
from charactermemory.domain.kinds import DerivedType, Modality, RelationType, ThreadStatus
from charactermemory.domain.objects import (
    DerivedMemory,
    Entity,
    Episode,
    MemoryLink,
    MemoryObject,
    MemoryThread,
    Observation,
)
from charactermemory.domain.scene import Participant, Scene, Setting
from charactermemory.errors import DeterministicIdCollision
from charactermemory.ids import about_link_id
from charactermemory.remember.drafts import (
    DerivedMemoryDraft,
    EpisodeDraft,
    MemoryThreadDraft,
    ObservationDraft,
)
from charactermemory.remember.plan import CandidateValidation, CandidateValidationStatus
from tests.support.fixtures import OpenRig
from tests.support.plans import (
    AT,
    belief,
    episode,
    episode_ref,
    link,
    link_ref,
    memory_ref,
    notion,
    notion_ref,
    observation,
    observation_ref,
    plan,
    thread,
    thread_ref,
    uid,
)
from tests.support.rig import Rig

TOKYO = timezone(timedelta(hours=9))
VALID, INVALID = CandidateValidationStatus.VALID, CandidateValidationStatus.INVALID


def scored(score: float) -> tuple[Any, ...]:
    """One draft of each kind that has a salience."""
    return (
        episode(1, salience_score=score),
        observation(2, 1, "hello", salience_score=score),
        thread(3).replace(salience_score=score),
        belief(4, "It is so.", (5,), salience_score=score),
        notion(5),
    )


@pytest.mark.spec("core-12")
def test_a_blank_summary_is_invalid_and_none_is_valid(rig: Rig) -> None:
    [blank] = rig.memory.validate_plan(plan(episode(1, " ")))
    assert blank.status is INVALID
    assert [issue.kind for issue in blank.errors] == ["empty_episode_summary"]
    [unseen] = rig.memory.validate_plan(plan(episode(1, "\u200b")))
    assert [issue.kind for issue in unseen.errors] == ["empty_episode_summary"]
    [without] = rig.memory.validate_plan(plan(episode(1, None)))
    assert (without.status, without.errors) == (VALID, ())


@pytest.mark.spec("core-12")
@pytest.mark.parametrize("score", [-0.01, 1.01])
def test_scores_outside_zero_to_one_are_invalid(rig: Rig, score: float) -> None:
    def seen(row: CandidateValidation) -> list[tuple[str, str | None, str | None]]:
        return [(issue.kind, issue.field, issue.actual) for issue in row.errors]

    rows = rig.memory.validate_plan(plan(*scored(score)))
    fields = ("episode_salience", "observation_salience", "memory_thread_salience", "derived_memory_salience")
    assert [seen(row) for row in rows[:4]] == [[("invalid_score", field, repr(score))] for field in fields]
    assert [row.status for row in rows] == [INVALID] * 4 + [VALID]


@pytest.mark.spec("core-12")
@pytest.mark.parametrize("score", [0.0, 1.0])
def test_both_ends_of_the_range_are_accepted(rig: Rig, score: float) -> None:
    drafts = plan(*scored(score))
    assert [row.status for row in rig.memory.validate_plan(drafts)] == [VALID] * 5
    rig.memory.commit(drafts)
    for ref in (episode_ref(1), observation_ref(2), thread_ref(3), memory_ref(4)):
        assert rig.stored(ref).object.salience_score == score


@pytest.mark.spec("core-12")
@pytest.mark.parametrize("score", [float("nan"), float("inf"), float("-inf"), True, "0.5"])
@pytest.mark.parametrize(
    "construct",
    [
        lambda score: EpisodeDraft(salience_score=score),
        lambda score: ObservationDraft(text="a", salience_score=score),
        lambda score: MemoryThreadDraft(title="a", summary="a", salience_score=score),
        lambda score: DerivedMemoryDraft(derived_type=DerivedType.CLAIM, text="a", salience_score=score),
    ],
)
def test_what_is_no_finite_number_is_refused_at_construction(construct: Any, score: Any) -> None:
    with pytest.raises(ValidationError) as refused:
        construct(score)
    assert [error["loc"] for error in refused.value.errors()] == [("salience_score",)]


def everything(at: datetime, scene_time: datetime) -> tuple[MemoryObject, ...]:
    """One object of every type with all its fields filled, all its times `at`, and the derived About link."""
    made: dict[str, Any] = {"created_at": at}
    return (
        Entity(id=uid(1), **made),
        Episode(
            id=uid(2),
            modality=Modality.VOICE_TRANSCRIPT,
            scene=Scene(
                time=scene_time,
                participants=(
                    Participant(key=uid(1), name="Ada", description="in a red coat"),
                    Participant(name="nobody known"),
                    Participant(description="a stranger"),
                ),
                setting=Setting(key="room:1", words="the kitchen"),
                custom_values={"weather": "rain\n\t\"'\\ 漢字", "mood": ""},
            ),
            summary="They talked\r\nof gardens.",
            source_conversation_id="conversation-1",
            raw_ref="raw://1",
            salience_score=0.1 + 0.2,
            **made,
        ),
        Observation(
            id=uid(3),
            episode_id=uid(2),
            position=7,
            speaker_entity_id=uid(1),
            observed_at=at,
            modality=Modality.VOICE_TRANSCRIPT,
            text="  verbatim \u00a0",
            raw_ref="raw://2",
            salience_score=1e-7,
            **made,
        ),
        MemoryThread(
            id=uid(4),
            title="Garden",
            summary="",
            status=ThreadStatus.DORMANT,
            last_touched_at=at,
            salience_score=1.0,
            canonical_key="garden",
            updated_at=at,
            **made,
        ),
        DerivedMemory(
            id=uid(5),
            derived_type=DerivedType.REFLECTION,
            text="Ada likes gardens.",
            derived_from_episode_ids=(uid(2),),
            derived_from_observation_ids=(uid(3),),
            thread_ids=(uid(4),),
            entity_ids=(uid(1),),
            assertions=(BeliefAssertion.known_as(uid(1), "Ada"),),
            salience_score=0.0,
            updated_at=at,
            **made,
        ),
        MemoryLink(
            id=uid(6),
            from_id=uid(2),
            from_type=episode_ref(2).object_type,
            to_id=uid(4),
            to_type=thread_ref(4).object_type,
            relation=RelationType.PART_OF_THREAD,
            rationale="said so",
            **made,
        ),
        MemoryLink(
            id=about_link_id(uid(5), uid(1)),
            from_id=uid(5),
            from_type=memory_ref(5).object_type,
            to_id=uid(1),
            to_type=notion_ref(1).object_type,
            relation=RelationType.ABOUT,
            **made,
        ),
    )


def drafts_of(objects: tuple[MemoryObject, ...]) -> list[Any]:
    """The drafts from which a commit makes these objects, derived links left out."""
    drafts = {
        Episode: EpisodeDraft,
        Observation: ObservationDraft,
        MemoryThread: MemoryThreadDraft,
        DerivedMemory: DerivedMemoryDraft,
    }
    made: list[Any] = []
    for item in objects:
        fields = {name: getattr(item, name) for name in type(item).model_fields}
        if isinstance(item, Entity):
            made.append(notion(item.id.int).replace(created_at=item.created_at))
        elif isinstance(item, MemoryLink):
            if item.relation is not RelationType.ABOUT:
                times = {"rationale": item.rationale, "created_at": item.created_at}
                made.append(link(item.id, item.source, item.relation, item.target, **times))
        else:
            made.append(drafts[type(item)](**fields))  # type: ignore[index]
    return made


TIMES = [
    (kind, field)
    for kind in (Episode, Observation, Entity, MemoryThread, DerivedMemory, MemoryLink)
    for field in ("created_at", "updated_at", "last_touched_at", "observed_at")
    if field in kind.model_fields
]


@pytest.mark.spec("core-13")
@pytest.mark.parametrize(("kind", "field"), TIMES)
def test_a_naive_time_is_refused_at_construction(kind: Any, field: str) -> None:
    item = next(item for item in everything(AT, AT) if isinstance(item, kind))
    with pytest.raises(ValidationError) as refused:
        item.replace(**{field: datetime(2026, 1, 1, 9, 30)})
    assert [error["loc"] for error in refused.value.errors()] == [(field,)]


@pytest.mark.spec("core-13")
def test_a_naive_scene_time_is_refused_at_construction() -> None:
    with pytest.raises(ValidationError) as refused:
        Scene(time=datetime(2026, 1, 1, 9, 30))
    assert [error["loc"] for error in refused.value.errors()] == [("time",)]


@pytest.mark.spec("core-13")
def test_times_are_stored_in_utc_and_a_scene_keeps_its_offset(rig: Rig) -> None:
    local = AT.astimezone(TOKYO)
    objects = everything(local, local)
    rig.memory.commit(plan(*drafts_of(objects)))
    for item in objects:
        for value in (item, rig.stored(item.ref).object):
            for field in ("created_at", "updated_at", "last_touched_at", "observed_at"):
                if (time := getattr(value, field, None)) is not None:
                    assert time == AT
                    assert time.utcoffset() == timedelta(0)
    scene = rig.stored(episode_ref(2)).object.scene
    assert scene.time == AT
    assert scene.time.utcoffset() == timedelta(hours=9)


@pytest.mark.spec("core-13")
def test_the_same_instant_with_another_scene_offset_collides(rig: Rig) -> None:
    rig.memory.commit(plan(episode(1, "tea", scene=Scene(time=AT.astimezone(TOKYO)))))
    before = rig.contents()
    with pytest.raises(DeterministicIdCollision) as refused:
        rig.memory.commit(plan(episode(1, "tea", scene=Scene(time=AT.astimezone(UTC)))))
    assert refused.value.object == episode_ref(1)
    assert rig.contents() == before


@pytest.mark.spec("core-14")
@pytest.mark.parametrize("mode", ["persistent", "in_memory", "service"])
def test_stored_objects_equal_the_originals_on_every_connection(open_rig: OpenRig, mode: str) -> None:
    rig = open_rig(mode=mode)
    at = datetime(2026, 3, 4, 5, 6, 7, 890123, tzinfo=UTC)
    objects = everything(at, at.astimezone(timezone(timedelta(hours=-3, minutes=-30))))
    rig.memory.commit(plan(*drafts_of(objects)))
    for item in objects:
        stored = rig.stored(item.ref).object
        assert stored == item
        assert digest(stored) == digest(item)  # equality alone would overlook the scene's offset
    read_back = rig.stored(episode_ref(2)).object
    assert read_back.scene.time.utcoffset() == timedelta(hours=-3, minutes=-30)
    assert rig.stored(link_ref(uid(6))).object.created_at.microsecond == 890123


# --- beyond the numbered cases ---------------------------------------------------------------------

LONG = {"text": 50_001, "name": 1_001, "key": 1_025}
"""One character more than the limits."""


@pytest.mark.parametrize(
    ("where", "construct"),
    [
        ("text", lambda: ObservationDraft(text="a" * LONG["text"])),
        ("summary", lambda: EpisodeDraft(summary="a" * LONG["text"])),
        ("title", lambda: MemoryThreadDraft(title="a" * LONG["name"], summary="a")),
        ("name", lambda: BeliefAssertion(subject=uid(1), name="a" * LONG["name"])),
        ("words", lambda: Setting(words="a" * LONG["name"])),
        ("key", lambda: Setting(key="a" * LONG["key"])),
        ("raw_ref", lambda: EpisodeDraft(raw_ref="a" * LONG["key"])),
        ("canonical_key", lambda: MemoryThreadDraft(title="a", summary="a", canonical_key="a" * LONG["key"])),
        ("text", lambda: ObservationDraft(text="")),
        ("text", lambda: ObservationDraft(text=" \t\u2028\u200b")),
        ("text", lambda: ObservationDraft(text="a\0b")),
        ("text", lambda: ObservationDraft(text="a\udfffb")),
        ("custom_values", lambda: Scene(time=AT, custom_values={"a": "\0"})),
        ("text", lambda: ObservationDraft(text=b"a")),
        ("id", lambda: ObservationDraft(id=str(uid(1)), text="a")),
        ("position", lambda: ObservationDraft(text="a", position=-1)),
        ("position", lambda: ObservationDraft(text="a", position=True)),
        ("modality", lambda: ObservationDraft(text="a", modality="telepathy")),
        ("confidence", lambda: ObservationDraft(text="a", confidence=0.5)),
    ],
)
def test_what_has_no_shape_is_refused_at_construction_by_field(where: str, construct: Any) -> None:
    with pytest.raises(ValidationError) as refused:
        construct()
    assert {error["loc"][0] for error in refused.value.errors()} == {where}


def test_the_digest_is_the_documented_one() -> None:
    entity = Entity(id=uid(1), created_at=datetime(2026, 1, 1, tzinfo=UTC))
    assert digest(entity) == "99e30f98a786ded8b6ffba668501084808ffaeb9a97f224498ebcda84e4ba464"


def test_a_scene_offset_finer_than_a_minute_is_invalid(rig: Rig) -> None:
    odd = Scene(time=AT.astimezone(timezone(timedelta(hours=9, seconds=30))))
    [row] = rig.memory.validate_plan(plan(episode(1, "tea", scene=odd)))
    [issue] = row.errors
    assert (issue.kind, issue.field) == ("invalid_scene_time_offset", "scene.time")


@pytest.mark.parametrize(
    "change",
    [
        lambda values: values.update(weather="sun"),
        lambda values: values.__setitem__("weather", "sun"),
        lambda values: values.__ior__({"weather": "sun"}),
        lambda values: values.setdefault("mood", "good"),
        lambda values: values.pop("weather"),
        lambda values: values.popitem(),
        lambda values: values.__delitem__("weather"),
        lambda values: values.clear(),
    ],
)
def test_the_values_of_a_scene_do_not_change(change: Callable[[dict[str, str]], object]) -> None:
    """A memory hands out scenes that it keeps: who changed one would change what it tells others."""
    given = {"weather": "rain"}
    for scene in (Scene(time=AT), Scene(time=AT, custom_values=given)):
        for one in (scene, pickle.loads(pickle.dumps(scene)), deepcopy(scene), scene.replace(setting=None)):
            assert one == scene
            with pytest.raises(TypeError, match="do not change"):
                change(one.custom_values)
            assert one == scene
        assert scene.custom_values | {"mood": "good"} == dict(scene.custom_values, mood="good")
    given["weather"] = "sun"
    assert scene.custom_values == {"weather": "rain"}
