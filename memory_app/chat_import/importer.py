"""Imports a chat: one session an episode, one turn an observation, one speaker a notion with its name.

Ids and times come from the source alone, so that importing again meets the same objects again. The importer
looks before it writes and adds only what is missing: importing twice changes nothing, an appended chat
brings its new turns, and an interrupted import goes on where it ended. What is stored is never changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from charactermemory import (
    SCHEMA_VERSION,
    BeliefAssertion,
    CandidateProvenance,
    CharacterMemory,
    CharacterMemoryError,
    DerivedMemoryDraft,
    DerivedType,
    EntityDraft,
    Episode,
    EpisodeDraft,
    MemoryId,
    MemoryObjectRef,
    ObjectType,
    Observation,
    ObservationDraft,
    Participant,
    RememberWritePlan,
    Scene,
    Stored,
    candidate,
    derive_id,
)
from charactermemory.domain.provenance import ProducerKind
from charactermemory.remember.plan import ObjectCandidate
from memory_app.chat_import.chat import ChatSession, ChatTurn

NAMESPACE = "memory_app.chat_import"
"""First part of every id of an import. Fixed: a second import finds by it what the first one stored."""

BATCH_OBJECTS = 500
"""Objects and links of one commit; the graph takes no more at once (consistency.md R4)."""
BATCH_CHARACTERS = 2_000_000
"""Characters of one commit: at most six bytes each in JSON, they stay below a plan's 16 MiB (decisions R1)."""
READ_PAGE = 1_000
"""Objects looked up at a time (decisions R10)."""
_PROVENANCE = CandidateProvenance.unavailable(ProducerKind.IMPORT_TOOL)
_AnyDraft = EntityDraft | DerivedMemoryDraft | EpisodeDraft | ObservationDraft

Progress = Callable[[int], None]
"""Called with the number of turns done since the last call."""


@dataclass(eq=False)
class ChatChanged(CharacterMemoryError):
    """A chat says something else than what was imported of it before; only appending is understood."""

    code: ClassVar[str] = "chat_changed"
    session: str
    turn: str | None
    field: str

    def describe(self) -> str:
        """Name session, turn and field, and what can be done."""
        what = f"turn {self.turn!r} of session {self.session!r}" if self.turn else f"session {self.session!r}"
        return (
            f"{what} is stored with another {self.field}; a chat can be appended to, not changed. Restore it, "
            "or give the changed session a name of its own"
        )


@dataclass(frozen=True)
class ImportReport:
    """What a chat holds and what of it was new. `owed` objects could not be indexed and wait for a sweep."""

    sessions: int
    turns: int
    new_sessions: int
    new_turns: int
    new_speakers: int
    owed: int


def episode_id(session: ChatSession) -> MemoryId:
    """Return the id of a session's episode."""
    return derive_id(NAMESPACE, "session", session.key)


def observation_id(session: ChatSession, turn: ChatTurn) -> MemoryId:
    """Return the id of a turn's observation."""
    return derive_id(NAMESPACE, "turn", session.key, turn.key)


def speaker_id(session: ChatSession, name: str) -> MemoryId:
    """Return the id of the notion of who speaks under `name` in the conversation that the session is part of."""
    return derive_id(NAMESPACE, "speaker", session.conversation or "", name)


def import_chat(
    memory: CharacterMemory, sessions: Sequence[ChatSession], progress: Progress = lambda turns: None
) -> ImportReport:
    """Store what is new of a chat, in commits of whole sessions where they fit.

    Raises:
        ChatChanged: a stored session or turn reads otherwise now; nothing is written.
        CharacterMemoryError: see `CharacterMemory.commit`; what was committed before stays, and importing
            again goes on from there.
    """
    memory.upkeep.sweep()
    chat = _Chat(memory, sessions)
    chat.check()
    turns = sum(len(session.turns) for session in sessions)
    progress(turns - chat.new[ObjectType.OBSERVATION])
    owed: set[MemoryObjectRef] = set()
    for batch in _batches(chat.missing()):
        outcome = memory.commit(RememberWritePlan.new().with_candidates(*batch))
        owed.update(ref for marker in outcome.repair_needed for ref in marker.objects)
        progress(sum(item.candidate_type == "observation" for item in batch))
    return ImportReport(
        sessions=len(sessions),
        turns=turns,
        new_sessions=chat.new[ObjectType.EPISODE],
        new_turns=chat.new[ObjectType.OBSERVATION],
        new_speakers=chat.new[ObjectType.ENTITY],
        owed=len(owed),
    )


class _Chat:
    """A chat beside what the memory holds of it."""

    def __init__(self, memory: CharacterMemory, sessions: Sequence[ChatSession]) -> None:
        self.sessions = sessions
        self.met: dict[MemoryId, datetime] = {}
        for session in sessions:
            for key in _present(session):
                self.met.setdefault(key, session.time)
        refs = list(self._refs())
        self.stored: dict[MemoryObjectRef, Stored] = {}
        for start in range(0, len(refs), READ_PAGE):
            self.stored |= memory.browse.get(*refs[start : start + READ_PAGE])
        self.new = Counter(ref.object_type for ref in refs if ref not in self.stored)

    def _refs(self) -> Iterator[MemoryObjectRef]:
        """Yield everything the chat comes to, each once."""
        for key in self.met:
            yield MemoryObjectRef.of(ObjectType.ENTITY, key)
            yield MemoryObjectRef.of(ObjectType.DERIVED_MEMORY, _belief_id(key))
        for session in self.sessions:
            yield _episode(episode_id(session))
            yield from (_observation(observation_id(session, turn)) for turn in session.turns)

    def check(self) -> None:
        """Compare everything that is stored already with what the chat says now."""
        for session in self.sessions:
            found = self.stored.get(_episode(episode_id(session)))
            if found and isinstance(found.object, Episode) and found.object.scene.time != session.time:
                raise ChatChanged(session.key, None, "time")
            for position, turn in enumerate(session.turns):
                found = self.stored.get(_observation(observation_id(session, turn)))
                if found and isinstance(found.object, Observation):
                    self._compare(session, position, turn, found.object)

    @staticmethod
    def _compare(session: ChatSession, position: int, turn: ChatTurn, stored: Observation) -> None:
        speaker = speaker_id(session, turn.speaker) if turn.speaker is not None else None
        said = {
            "place in its session": (position, stored.position),
            "text": (turn.text, stored.text),
            "time": (turn.time or session.time, stored.observed_at),
            "speaker": (speaker, stored.speaker_entity_id),
        }
        for field, (now, before) in said.items():
            if now != before:
                raise ChatChanged(session.key, turn.key, field)

    def missing(self) -> Iterator[list[ObjectCandidate]]:
        """Yield what is not stored yet, session by session; whatever something refers to comes before it."""
        introduced: set[MemoryId] = set()
        for session in self.sessions:
            present = _present(session)
            drafts = [
                draft
                for key, name in present.items()
                if key not in introduced
                for draft in _speaker_drafts(key, name, self.met[key])
            ]
            introduced |= present.keys()
            drafts.append(_episode_draft(session, present))
            drafts += [_observation_draft(session, place, turn) for place, turn in enumerate(session.turns)]
            new = [candidate(draft, _PROVENANCE) for draft in drafts if draft.ref not in self.stored]
            if new:
                yield new


def _batches(sessions: Iterator[list[ObjectCandidate]]) -> Iterator[list[ObjectCandidate]]:
    """Pack sessions into commits; only one that is larger than a commit is divided."""
    batch: list[ObjectCandidate] = []
    objects = characters = 0
    for items in sessions:
        if batch and not _fits(objects + sum(map(_weight, items)), characters + sum(map(_length, items))):
            yield batch
            batch, objects, characters = [], 0, 0
        for item in items:
            if not _fits(objects + _weight(item), characters + _length(item)):
                yield batch
                batch, objects, characters = [], 0, 0
            batch.append(item)
            objects += _weight(item)
            characters += _length(item)
    if batch:
        yield batch


def _fits(objects: int, characters: int) -> bool:
    return objects <= BATCH_OBJECTS and characters <= BATCH_CHARACTERS


def _weight(item: ObjectCandidate) -> int:
    """Objects and links that a candidate becomes: a belief brings a link to each of its notions."""
    return 1 + len(getattr(item.candidate.draft, "entity_ids", ()))


def _length(item: ObjectCandidate) -> int:
    draft = item.candidate.draft
    return len(getattr(draft, "text", None) or getattr(draft, "summary", None) or "")


def _present(session: ChatSession) -> dict[MemoryId, str]:
    """Return who speaks in a session, in the order of their first turns."""
    names = (turn.speaker for turn in session.turns if turn.speaker is not None)
    return {speaker_id(session, name): name for name in dict.fromkeys(names)}


def _speaker_drafts(key: MemoryId, name: str, at: datetime) -> list[_AnyDraft]:
    """Return the notion of a speaker and the given belief that names it."""
    belief = DerivedMemoryDraft(
        id=_belief_id(key),
        derived_type=DerivedType.REFLECTION,
        text=f"I know {name} by that name.",
        entity_ids=(key,),
        assertions=(BeliefAssertion.known_as(key, name),),
        given_by_application=True,
        created_at=at,
        updated_at=at,
        schema_version=SCHEMA_VERSION,
    )
    return [EntityDraft(id=key, created_at=at, schema_version=SCHEMA_VERSION), belief]


def _episode_draft(session: ChatSession, present: dict[MemoryId, str]) -> EpisodeDraft:
    people = tuple(Participant(key=key, name=name) for key, name in present.items())
    return EpisodeDraft(
        id=episode_id(session),
        scene=Scene(time=session.time, participants=people),
        summary=session.summary,
        source_conversation_id=session.key,
        raw_ref=session.key,
        created_at=session.time,
        schema_version=SCHEMA_VERSION,
    )


def _observation_draft(session: ChatSession, position: int, turn: ChatTurn) -> ObservationDraft:
    at = turn.time or session.time
    return ObservationDraft(
        id=observation_id(session, turn),
        episode_id=episode_id(session),
        position=position,
        speaker_entity_id=speaker_id(session, turn.speaker) if turn.speaker is not None else None,
        observed_at=at,
        text=turn.text,
        # A place in the file is no reference that a host would know the turn by.
        raw_ref=turn.key if turn.key != str(position) else None,
        created_at=at,
        schema_version=SCHEMA_VERSION,
    )


def _belief_id(speaker: MemoryId) -> MemoryId:
    return derive_id(NAMESPACE, "name", speaker)


def _episode(id_: MemoryId) -> MemoryObjectRef:
    return MemoryObjectRef.of(ObjectType.EPISODE, id_)


def _observation(id_: MemoryId) -> MemoryObjectRef:
    return MemoryObjectRef.of(ObjectType.OBSERVATION, id_)
