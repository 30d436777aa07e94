"""The sample life: it holds together and tells its story, and a life that does not is refused."""

from __future__ import annotations

import tomllib
from collections import defaultdict
from datetime import timedelta
from importlib import resources

import pytest
from pydantic import ValidationError

from charactermemory.domain.kinds import DerivedType, RelationType
from charactermemory.ids import ObjectType
from memory_app.sample.life import Memory
from memory_app.sample.loader import SampleLife, SampleLifeError, load_life, parse_life

TOML = resources.files("memory_app.sample").joinpath("life.toml").read_text("utf-8")


@pytest.fixture(scope="module")
def life() -> SampleLife:
    return load_life()


def memories(life: SampleLife) -> dict[str, Memory]:
    """Every memory of the life by key, replacements included."""
    found = {m.key: m for m in life.beginning.beliefs}
    for session in life.sessions:
        found |= {m.key: m for m in (*session.memories, *(c.replacement for c in session.corrections))}
    return found


def test_it_is_several_months_of_talk(life: SampleLife) -> None:
    turns = [turn for session in life.sessions for turn in session.turns]
    assert 14 <= len(life.sessions) <= 18
    assert 70 <= len(turns) <= 100
    assert life.sessions[-1].time - life.sessions[0].time > timedelta(days=180)
    assert len({turn.text for turn in turns}) == len(turns)
    assert len({session.time.utcoffset() for session in life.sessions}) == 3  # winter, summer, and a trip
    assert len({session.setting.key for session in life.sessions}) >= 5
    assert any(len(session.participants) > 1 for session in life.sessions)
    assert life.character.key not in {p.key for s in life.sessions for p in s.participants}


def test_everything_a_pack_can_show_is_in_it(life: SampleLife) -> None:
    assert set(life.object_types.values()) == set(ObjectType) - {ObjectType.MEMORY_LINK}
    assert {memory.kind for memory in memories(life).values()} == set(DerivedType)
    relations = {link.relation for session in life.sessions for link in session.links}
    assert {RelationType.FULFILLS_COMMITMENT, RelationType.RESOLVES} <= relations
    threads = [key for key, kind in life.object_types.items() if kind is ObjectType.MEMORY_THREAD]
    assert 3 <= len(threads) <= 4


def test_people_and_threads_recur(life: SampleLife) -> None:
    seen: dict[str, int] = defaultdict(int)
    for session in life.sessions:
        present = {person.key for person in session.participants if person.key}
        for key in present.union(session.involves, session.threads):
            seen[key] += 1
    recurring = {key for key, count in seen.items() if count >= 3}
    assert {"person:robin", "person:theo", "person:bram", "person:saskia"} <= recurring
    assert {"thread:harmonium", "thread:north", "project:harmonium"} <= recurring


def test_a_name_is_replaced_by_supersession_and_never_by_another_notion(life: SampleLife) -> None:
    before, after = memories(life)["name:marit"], memories(life)["name:robin"]
    assert after.supersedes == ("name:marit",)
    assert before.about == after.about == ("person:robin",)
    assert [(n.of, n.name) for n in (*before.names, *after.names)] == [
        ("person:robin", "Marit"),
        ("person:robin", "Robin"),
    ]


def test_a_mistaken_belief_is_corrected_with_its_reason(life: SampleLife) -> None:
    (correction,) = [c for session in life.sessions for c in session.corrections]
    wrong, right = memories(life)[correction.target], correction.replacement
    assert right.kind is DerivedType.CORRECTION and right.about == wrong.about
    assert "fell out" in wrong.text and "for his work" in right.text
    assert correction.rationale and correction.requested_by == "Hanne"


def test_what_is_asked_to_be_forgotten_is_a_whole_episode_and_its_content_stands_nowhere_else(
    life: SampleLife,
) -> None:
    ((forgetting, session),) = [(f, s) for s in life.sessions for f in s.forgettings]
    assert forgetting.targets == ("session:car-park",)
    assert forgetting.rationale and forgetting.requested_by == "Hanne"
    (question,) = [q for q in life.questions if q.suppressed]
    assert set(question.suppressed) == {"session:car-park", "claim:theo-leaving"}
    rest = TOML[: TOML.index('key = "session:car-park"')] + TOML[TOML.index('key = "session:robin"') :]
    spoken = rest[: rest.index("[[questions]]")].lower()
    assert question.absent and not [word for word in question.absent if word.lower() in spoken]
    assert session.key == "session:let-go"


def test_the_promise_is_months_older_than_the_question_about_it(life: SampleLife) -> None:
    (made,) = [s.time for s in life.sessions if "promise:metronome" in {m.key for m in s.memories}]
    (question,) = [q for q in life.questions if "promise:metronome" in q.found]
    promise = memories(life)["promise:metronome"]
    assert promise.kind is DerivedType.COMMITMENT
    assert question.time - made > timedelta(days=150)
    assert "metronome" not in question.topic
    assert "promise:metronome" not in {link.target for s in life.sessions for link in s.links}


def test_questions_cover_the_story(life: SampleLife) -> None:
    assert 5 <= len(life.questions) <= 6
    superseded = {key for question in life.questions for key in question.superseded}
    assert {"name:marit", "belief:bram-left"} <= superseded
    assert all(question.shows for question in life.questions)


def test_what_a_question_expects_left_out_is_near_what_it_finds(life: SampleLife) -> None:
    """Recall reports only what its expansion (two steps from what it found) comes across."""
    near: dict[str, set[str]] = defaultdict(set)

    def join(key: str, *others: str) -> None:
        for other in others:
            near[key].add(other)
            near[other].add(key)

    for memory in memories(life).values():
        join(memory.key, *memory.about, *memory.threads, *memory.sources, *memory.supersedes)
    for session in life.sessions:
        join(session.key, *session.turn_keys, *session.involves, *session.threads)
        for correction in session.corrections:
            join(correction.replacement.key, correction.target)
    for question in life.questions:
        one = set().union(*(near[key] for key in question.found))
        two = one.union(*(near[key] for key in one))
        assert {*question.superseded, *question.suppressed} <= two, question.key
    assert (
        max(len(near[key]) for key in ("person:robin", "person:theo", "person:bram")) <= 16
    )  # one read's fan-out


def test_loading_twice_gives_the_same_frozen_life(life: SampleLife) -> None:
    assert load_life() == life == parse_life(TOML)
    with pytest.raises(ValidationError):
        life.sessions[0].summary = "other"


BROKEN: dict[str, tuple[str, str, str]] = {
    "unknown notion": (
        'involves = ["person:bram"]',
        'involves = ["person:bran"]',
        "'person:bran', which is not there",
    ),
    "notion of another kind": (
        'involves = ["person:bram"]',
        'involves = ["thread:north"]',
        "'thread:north', which is no entity",
    ),
    "unknown source": (
        '["session:waking/morning"]',
        '["session:waking/evening"]',
        "'session:waking/evening'",
    ),
    "a source of later": ('["session:arrival/shed"]', '["session:ferry/rye"]', "which is not there yet"),
    "a key twice": ('key = "pref:mornings"', 'key = "pref:numbers"', "pref:numbers: is there twice"),
    "a turn twice": ('{ key = "rang", by', '{ key = "again", by', "session:midnight/again: is there twice"),
    "an unknown speaker": (
        'by = "person:saskia", text = "Is',
        'by = "person:sas", text = "Is',
        "'person:sas'",
    ),
    "going back in time": ("time = 2025-11-16", "time = 2025-11-08", "session:metronome: is not later"),
    "naming another": (
        'names = [{ of = "person:theo"',
        'names = [{ of = "person:bram"',
        "name:theo: names 'person:bram', which it is not about",
    ),
    "superseding the present": (
        'supersedes = ["loop:f-sharp"]',
        'supersedes = ["note:robin-teases"]',
        "'note:robin-teases', which is not there yet",
    ),
    "superseding in the same breath": (
        'sources = ["session:waking/morning"]',
        'sources = ["session:waking/morning"]\nsupersedes = ["note:admiraal-awake"]',
        "which is not of an earlier session",
    ),
    "resting on what was forgotten": (
        '"session:midnight/rang", "session:timetable',
        '"session:car-park/you", "session:timetable',
        "note:sideways: rests on 'session:car-park/you', which was forgotten before",
    ),
    "forgetting a turn's notion": (
        'targets = ["session:car-park"]',
        'targets = ["person:theo"]',
        "which is no derived_memory or episode",
    ),
    "expecting what was forgotten": (
        'found = ["note:theo"]',
        'found = ["claim:theo-leaving"]',
        "superseded or forgotten",
    ),
    "expecting currency as history": (
        'superseded = ["name:marit"]',
        'superseded = ["name:theo"]',
        "which it is not",
    ),
    "expecting memory as forgotten": (
        ', "claim:theo-leaving"]',
        ', "note:theo"]',
        "as forgotten, which it is not",
    ),
    "an absent word that was said": (
        'absent = ["oyster"',
        'absent = ["lunch"',
        "'lunch' must stand in what was forgotten",
    ),
    "asking too early": (
        "time = 2026-05-29T08:10",
        "time = 2026-05-09T08:10",
        "question:promise: is asked before",
    ),
    "a given belief about nobody": (
        'about = ["person:hanne"]\nnames',
        "names",
        "given:hanne: a given belief has no",
    ),
    "nobody present": (
        'participants = [{ key = "person:hanne", name = "Hanne" }]',
        "participants = [{}]",
        "session:arrival: has a participant without",
    ),
    "an unknown character": (
        'key = "person:mees"\nname',
        'key = "person:mouse"\nname',
        "character: refers to",
    ),
}


@pytest.mark.parametrize(("old", "new", "message"), BROKEN.values(), ids=BROKEN)
def test_a_life_that_does_not_hold_together_is_refused(old: str, new: str, message: str) -> None:
    assert old in TOML
    with pytest.raises(SampleLifeError) as caught:
        parse_life(TOML.replace(old, new, 1))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("salience = 0.9", "salience = 1.5", "salience"),
        ("salience = 0.9", "mood = 0.9", "mood"),
        ('kind = "commitment"', 'kind = "vow"', "kind"),
        ("time = 2025-11-16T21:40:00+01:00", "time = 2025-11-16T21:40:00", "time"),
        ('key = "promise:metronome"', 'key = "The metronome"', "key"),
    ],
)
def test_a_table_of_another_shape_is_refused(old: str, new: str, where: str) -> None:
    with pytest.raises(ValidationError) as caught:
        parse_life(TOML.replace(old, new, 1))
    assert where in str(caught.value)


def test_a_text_that_is_no_toml_is_refused() -> None:
    with pytest.raises(tomllib.TOMLDecodeError):
        parse_life("[character")
