"""Importing a chat: what it becomes, and that importing again, grown or interrupted, adds only what is missing."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from charactermemory import (
    CharacterMemory,
    DerivedMemory,
    Entity,
    Episode,
    ForgetMemoryDraft,
    MemoryObjectRef,
    ObjectType,
    Observation,
    RememberWritePlan,
)
from memory_app.chat_import import importer
from memory_app.chat_import.formats import ChatSession, ChatTurn, read_jsonl, read_locomo
from memory_app.chat_import.importer import ChatChanged, episode_id, import_chat, observation_id, speaker_id
from tests.chat_import.conftest import OpenMemory

DATA = Path(__file__).parents[1] / "data"
START = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)


def session(
    key: str,
    *texts: str,
    speakers: Sequence[str | None] = ("Ada", "Bo"),
    start: datetime = START,
    **fields: Any,
) -> ChatSession:
    """A session of `texts`, said in turn by `speakers`, a minute apart."""
    turns = tuple(
        ChatTurn(str(place), speakers[place % len(speakers)], start + timedelta(minutes=place), text)
        for place, text in enumerate(texts)
    )
    return ChatSession(key, start, None, turns, **fields)


def everything(memory: CharacterMemory) -> bytes:
    """The whole graph, receipts included: equal before and after means nothing at all was written."""
    return b"".join(memory.upkeep.export())


def episode(memory: CharacterMemory, of: ChatSession) -> Episode:
    ref = MemoryObjectRef.of(ObjectType.EPISODE, episode_id(of))
    found = memory.browse.get(ref)[ref].object
    assert isinstance(found, Episode)
    return found


def observations(memory: CharacterMemory, of: ChatSession) -> list[Observation]:
    refs = [MemoryObjectRef.of(ObjectType.OBSERVATION, observation_id(of, turn)) for turn in of.turns]
    found = memory.browse.get(*refs)
    return [item for ref in refs if ref in found and isinstance(item := found[ref].object, Observation)]


def test_a_session_becomes_an_episode_and_each_turn_an_observation(memory: CharacterMemory) -> None:
    (talk, *_) = sessions = read_jsonl(DATA / "companion_chat.jsonl")
    report = import_chat(memory, sessions)
    turns = sum(len(item.turns) for item in sessions)
    assert (
        (report.sessions, report.turns) == (report.new_sessions, report.new_turns) == (len(sessions), turns)
    )
    assert (report.new_speakers, report.owed) == (2, 0)

    stored = episode(memory, talk)
    assert (stored.scene.time, stored.scene.time.utcoffset()) == (talk.time, talk.time.utcoffset())
    assert stored.created_at == talk.time
    assert (stored.summary, stored.source_conversation_id, stored.raw_ref) == (
        talk.summary,
        talk.key,
        talk.key,
    )
    speakers = {name: speaker_id(talk, name) for name in ("Jonah", "Pip")}
    assert [(p.key, p.name) for p in stored.scene.participants] == [
        (speakers[n], n) for n in ("Jonah", "Pip")
    ]

    said = observations(memory, talk)
    assert [item.text for item in said] == [turn.text for turn in talk.turns]
    assert [item.position for item in said] == list(range(len(talk.turns)))
    assert [item.observed_at for item in said] == [turn.time for turn in talk.turns]
    assert [item.created_at for item in said] == [turn.time for turn in talk.turns]
    assert [item.speaker_entity_id for item in said] == [speakers[turn.speaker or ""] for turn in talk.turns]
    assert {item.episode_id for item in said} == {stored.id}
    assert memory.upkeep.verify().differences == 0


def test_a_speaker_is_a_notion_with_a_given_name(memory: CharacterMemory) -> None:
    early, late = (
        session("a", "One.", speakers=["Ada"]),
        session("b", "Two.", speakers=["Ada"], start=START + timedelta(1)),
    )
    import_chat(memory, [early, late])
    notion = speaker_id(early, "Ada")
    assert speaker_id(late, "Ada") == notion
    page, _ = memory.browse.list()
    (entity,) = [item.object for item in page if isinstance(item.object, Entity)]
    (belief,) = [item.object for item in page if isinstance(item.object, DerivedMemory)]
    assert (entity.id, entity.created_at) == (notion, early.time)
    assert [(a.subject, a.name) for a in belief.assertions] == [(notion, "Ada")]
    assert belief.given_by_application and belief.entity_ids == (notion,)
    assert belief.created_at == belief.updated_at == early.time
    assert memory.stores.graph.notions_known_as(["ada"]) == {"ada": (notion,)}


def test_one_name_in_two_conversations_is_two_notions(memory: CharacterMemory) -> None:
    """Identity is never guessed (DESIGN R12)."""
    here, there = session("a", "One.", conversation="c1"), session("b", "Two.", conversation="c2")
    import_chat(memory, [here, there])
    assert speaker_id(here, "Ada") != speaker_id(there, "Ada")
    assert len(memory.stores.graph.notions_known_as(["ada"])["ada"]) == 2


def test_a_turn_without_speaker_has_none(memory: CharacterMemory) -> None:
    talk = session("s", "A door closes.", speakers=[None])
    assert import_chat(memory, [talk]).new_speakers == 0
    assert observations(memory, talk)[0].speaker_entity_id is None
    assert episode(memory, talk).scene.participants == ()


def test_a_given_turn_id_is_its_raw_reference_a_mere_position_is_not(memory: CharacterMemory) -> None:
    talk = ChatSession(
        "s", START, None, (ChatTurn("0", None, None, "One."), ChatTurn("m-7", None, None, "Two."))
    )
    import_chat(memory, [talk])
    assert [item.raw_ref for item in observations(memory, talk)] == [None, "m-7"]
    assert [item.observed_at for item in observations(memory, talk)] == [START, START]


@pytest.mark.parametrize(
    "reader",
    [lambda: read_jsonl(DATA / "companion_chat.jsonl"), lambda: read_locomo(DATA / "companion_locomo.json")],
)
def test_importing_twice_changes_nothing(open_memory: OpenMemory, reader: Any) -> None:
    import_chat(open_memory(), reader())
    before = everything(open_memory())
    memory = open_memory()
    report = import_chat(memory, reader())
    assert (report.new_sessions, report.new_turns, report.new_speakers) == (0, 0, 0)
    assert everything(memory) == before


def test_ids_come_from_the_source_alone_and_are_fixed_for_ever() -> None:
    talk = session("s", "One.")
    assert str(episode_id(talk)) == "9b910492-ab3c-5d6b-9795-3c54ffe9873a"
    assert str(observation_id(talk, talk.turns[0])) == "409d6d53-ce8d-52a2-81e9-ce53aa7317f2"
    assert str(speaker_id(talk, "Ada")) == "61570917-730d-57ff-b24a-4e66a0d0b26b"


def test_an_appended_chat_brings_only_what_is_new(memory: CharacterMemory) -> None:
    """Into old sessions as well, whose episodes stay as they are, and with people who join."""
    import_chat(memory, [session("a", "One.", "Two.")])
    before = episode(memory, session("a"))
    grown = session("a", "One.", "Two.", "Three.", speakers=["Ada", "Bo", "Cem"])
    later = session("b", "Four.", start=START + timedelta(1))
    seen: list[int] = []
    report = import_chat(memory, [grown, later], seen.append)
    assert (report.new_sessions, report.new_turns, report.new_speakers) == (1, 2, 1)
    assert sum(seen) == 4 and seen[0] == 2
    assert episode(memory, grown) == before
    assert [item.position for item in observations(memory, grown)] == [0, 1, 2]
    assert observations(memory, grown)[2].speaker_entity_id == speaker_id(grown, "Cem")
    assert memory.stores.graph.notions_known_as(["cem"]) == {"cem": (speaker_id(grown, "Cem"),)}


def test_what_was_forgotten_stays_forgotten_when_the_chat_is_imported_again(memory: CharacterMemory) -> None:
    talk = session("a", "One.", "Two.")
    import_chat(memory, [talk])
    ref = MemoryObjectRef.of(ObjectType.OBSERVATION, observation_id(talk, talk.turns[0]))
    memory.forget(ForgetMemoryDraft.suppress(ref, "asked to"))
    assert import_chat(memory, [talk]).new_turns == 0
    assert memory.browse.get(ref)[ref].suppressed


@pytest.mark.parametrize(
    ("field", "changed"),
    [
        ("text", session("a", "One.", "Other.")),
        ("speaker", session("a", "One.", "Two.", speakers=["Ada"])),
        ("speaker", session("a", "One.", "Two.", speakers=["Ada", None])),
        ("time", session("a", "One.", "Two.", start=START + timedelta(1))),
        ("place in its session", ChatSession("a", START, None, (
            ChatTurn("new", "Ada", START, "Zero."), *session("a", "One.").turns))),
    ],
)  # fmt: skip
def test_a_changed_chat_is_refused_before_anything_is_written(
    memory: CharacterMemory, field: str, changed: ChatSession
) -> None:
    import_chat(memory, [session("a", "One.", "Two.")])
    before = everything(memory)
    with pytest.raises(ChatChanged) as caught:
        import_chat(memory, [session("new", "Hello.", start=START - timedelta(1)), changed])
    assert (caught.value.session, caught.value.field) == ("a", field)
    assert f"another {field}" in str(caught.value) and "appended to" in str(caught.value)
    assert everything(memory) == before


class Stop(Exception):
    pass


def test_an_interrupted_import_resumes(open_memory: OpenMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped after each of its commits, it brings what is left, and in the end nothing is missing."""
    monkeypatch.setattr(importer, "BATCH_OBJECTS", 60)
    sessions = read_locomo(DATA / "companion_locomo.json")
    turns = sum(len(item.turns) for item in sessions)
    already: list[int] = []
    while not already or already[-1] < turns:
        calls: list[int] = []

        def stop_after_a_commit(number: int, calls: list[int] = calls) -> None:
            calls.append(number)
            if len(calls) == 2:
                raise Stop

        with contextlib.suppress(Stop):
            import_chat(open_memory(), sessions, stop_after_a_commit)
        already.append(calls[0])
    assert len(already) == 5 and already == sorted(set(already)) and already[0] == 0
    memory = open_memory()
    assert sum(len(observations(memory, item)) for item in sessions) == turns
    assert memory.upkeep.verify().differences == 0


def test_commits_hold_whole_sessions_and_no_more_than_the_graph_takes(
    memory: CharacterMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importer, "BATCH_OBJECTS", 30)
    commits: list[RememberWritePlan] = []
    commit = CharacterMemory.commit

    def watched(self: CharacterMemory, plan: RememberWritePlan, *options: Any) -> Any:
        commits.append(plan)
        return commit(self, plan, *options)

    monkeypatch.setattr(CharacterMemory, "commit", watched)
    small = [session(f"s{n}", *map(str, range(8)), start=START + timedelta(n)) for n in range(5)]
    large = session("long", *map(str, range(70)), start=START + timedelta(9))
    report = import_chat(memory, [*small, large])
    assert report.new_turns == 110
    # Two speakers are a notion, a belief and a link each: 6 + 9 + 9, then 3 × 9, then 71 in pieces.
    assert [len(plan.object_candidates) for plan in commits] == [4 + 9 + 9, 27, 30, 30, 11]
    assert [item.position for item in observations(memory, large)] == list(range(70))


def test_long_texts_are_divided_by_their_length_too(
    memory: CharacterMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importer, "BATCH_CHARACTERS", 100)
    talk = session("s", *("x" * 40 + str(n) for n in range(5)))
    tokens = memory.stores.graph.head()
    import_chat(memory, [talk])
    assert memory.stores.graph.head() - tokens == 3
    assert len(observations(memory, talk)) == 5


def test_a_session_larger_than_a_real_commit_is_stored(memory: CharacterMemory) -> None:
    talk = session("s", *(f"Turn {n}." for n in range(600)))
    assert import_chat(memory, [talk]).new_turns == 600
    assert memory.stores.graph.head() == 2
