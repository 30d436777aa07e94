"""Telling a story to a memory and asking it afterwards, in as few words as possible, through the facade alone."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any
from uuid import UUID

from charactermemory import (
    BeliefAssertion,
    CharacterMemory,
    CorrectionTarget,
    CorrectMemoryDraft,
    DerivedMemory,
    DerivedMemoryDraft,
    DerivedType,
    EntityDraft,
    Episode,
    EpisodeDraft,
    ForgetMemoryDraft,
    LifecyclePolicy,
    MemoryId,
    MemoryObject,
    MemoryObjectRef,
    MemoryThread,
    MemoryThreadDraft,
    ObjectType,
    Observation,
    ObservationDraft,
    Participant,
    RememberInput,
    ReplacementDerivedMemoryDraft,
    RetrievalContext,
    RetrievalOutcome,
    Scene,
    Setting,
    SourceProvenanceReference,
    ThreadStatus,
)
from charactermemory.recall.sections import Section
from tests.support import plans

DAWN = datetime(2024, 3, 1, 9, 0, tzinfo=UTC)
"""The morning of day 0 of every story."""


def at(day: float) -> datetime:
    """Return the time so many days into the story."""
    return DAWN + timedelta(days=day)


@dataclass(frozen=True)
class Happened:
    """An episode that was told, with its turns in order."""

    episode: MemoryId
    turns: tuple[MemoryId, ...]


@dataclass(frozen=True)
class Recalled:
    """What came back, and what it says."""

    outcome: RetrievalOutcome

    @cached_property
    def memories(self) -> dict[MemoryObjectRef, MemoryObject]:
        """Every memory of the pack, in overall rank order."""
        pack = self.outcome.pack
        held: dict[MemoryObjectRef, MemoryObject] = {}
        for section in Section:
            for entry in getattr(pack, section.value):
                item = getattr(entry, "memory", entry)
                held[item.ref] = item
        return {admission.object: held[admission.object] for admission in pack.admissions}

    def section(self, section: Section) -> list[str]:
        """Return what one section says, best first."""
        ordered = [item.object for item in self.outcome.pack.admissions if item.section is section]
        return [words(self.memories[ref]) for ref in ordered]

    @property
    def said(self) -> list[str]:
        """Return what all of it says, best first."""
        return [words(item) for item in self.memories.values()]

    def brings(self, *parts: str) -> bool:
        """Whether each of these is part of something that came back."""
        return all(any(part in text for text in self.said) for part in parts)

    def left_out(self, ref: MemoryObjectRef) -> set[str]:
        """Return the reasons for which the graph kept a memory out."""
        rows = self.outcome.rationale.lifecycle_filter_decisions
        return {row.reason.value for row in rows if row.object == ref}

    def roads(self, part: str) -> set[str]:
        """Return the roads by which what says this came back."""
        rows = [row for row in self.outcome.pack.admissions if part in words(self.memories[row.object])]
        return {road for row in rows for road in row.admitted_by}


def words(item: MemoryObject) -> str:
    """Return what a memory says; of an episode without a summary, nothing."""
    match item:
        case Observation() | DerivedMemory():
            return item.text
        case MemoryThread():
            return f"{item.title}: {item.summary}"
        case Episode():
            return item.summary or ""
        case _:
            return ""


class Story:
    """A memory that is told things. Days are counted from the story's first morning."""

    def __init__(self, reopen: Callable[[], CharacterMemory]) -> None:
        """Open the memory; `reopen` opens the one and the same every time."""
        self._reopen = reopen
        self.memory = reopen()
        self._numbers = random.Random(0)

    def close(self) -> None:
        """Close the memory."""
        self.memory.close()

    def restart(self) -> None:
        """Let the process's knowledge go and open what is on disk."""
        self.close()
        self.memory = self._reopen()

    # Telling.

    def someone(self, name: str | None = None) -> MemoryId:
        """Meet somebody, or come to know of a place or thing, by name if it has one."""
        notion = self._id()
        self._commit(EntityDraft(id=notion))
        if name is not None:
            self.named(notion, name)
        return notion

    def named(self, notion: MemoryId, name: str) -> MemoryObjectRef:
        """Learn that somebody is called so."""
        return self.concluded(
            DerivedType.CLAIM, f"This is {name}.", about=[notion], assertions=self.naming(notion, name)
        )

    @staticmethod
    def naming(notion: MemoryId, name: str) -> tuple[BeliefAssertion, ...]:
        """Return the assertion that somebody is called so, for a belief that says it."""
        return (BeliefAssertion.known_as(notion, name),)

    def happened(
        self,
        day: float,
        *lines: str | tuple[MemoryId, str],
        present: Iterable[MemoryId] = (),
        where: str | None = None,
        summary: str | None = None,
    ) -> Happened:
        """Live through something: what was said, by whom if that is known, among whom and where."""
        scene = Scene(
            time=at(day),
            participants=tuple(Participant(key=notion) for notion in present),
            setting=Setting(words=where) if where else None,
        )
        told = [(None, line) if isinstance(line, str) else line for line in lines]
        happened = Happened(self._id(), tuple(self._id() for _ in told))
        self.memory.remember(
            RememberInput(
                episode=EpisodeDraft(id=happened.episode, scene=scene, summary=summary),
                observations=tuple(
                    ObservationDraft(id=turn, speaker_entity_id=speaker, text=text)
                    for turn, (speaker, text) in zip(happened.turns, told, strict=True)
                ),
            )
        )
        return happened

    def thread(self, title: str, summary: str, status: ThreadStatus = ThreadStatus.ACTIVE) -> MemoryObjectRef:
        """Take up a matter that goes on, or tell of one that does not any more."""
        draft = MemoryThreadDraft(id=self._id(), title=title, summary=summary, status=status)
        return self._commit(draft)

    def concluded(
        self,
        kind: DerivedType,
        text: str,
        of: Happened | None = None,
        about: Iterable[MemoryId] = (),
        thread: MemoryObjectRef | None = None,
        day: float = 0,
        **fields: Any,
    ) -> MemoryObjectRef:
        """Draw something from what happened, or be given it where nothing did."""
        return self._commit(
            DerivedMemoryDraft(
                id=self._id(),
                derived_type=kind,
                text=text,
                entity_ids=tuple(about),
                thread_ids=(thread.id,) if thread else (),
                derived_from_episode_ids=(of.episode,) if of else (),
                given_by_application=of is None,
                created_at=at(day),
                **fields,
            )
        )

    def corrected(self, wrong: MemoryObjectRef, text: str, of: Happened, **fields: Any) -> MemoryObjectRef:
        """Replace a belief by what turned out to be so, on the word of what happened."""
        held = self.memory.browse.get(wrong)[wrong].object
        assert isinstance(held, DerivedMemory)
        replacement = ReplacementDerivedMemoryDraft(
            id=self._id(),
            derived_type=held.derived_type,
            text=text,
            entity_ids=held.entity_ids,
            derived_from_episode_ids=(of.episode,),
            correction_origin_provenance=SourceProvenanceReference(episode_ids=(of.episode,)),
            **fields,
        )
        self.memory.correct(
            CorrectMemoryDraft.new(CorrectionTarget.derived_memory(wrong.id), "it was wrong")
            .with_replacement(replacement)
            .with_origin(SourceProvenanceReference(episode_ids=(of.episode,)))
        )
        return MemoryObjectRef.of(ObjectType.DERIVED_MEMORY, replacement.id)  # type: ignore[arg-type]

    def forgotten(self, *refs: MemoryObjectRef | Happened) -> None:
        """Let go of memories, episodes with what was said in them."""
        targets = tuple(
            MemoryObjectRef.of(ObjectType.EPISODE, ref.episode) if isinstance(ref, Happened) else ref
            for ref in refs
        )
        self.memory.forget(ForgetMemoryDraft(targets=targets, rationale="asked to let it go"))

    # Asking.

    def asked(
        self,
        topic: str | None = None,
        here: Iterable[MemoryId] = (),
        day: float = 0,
        *,
        everything: bool = False,
        **fields: Any,
    ) -> Recalled:
        """Ask what comes to mind; with `everything`, what was superseded or suppressed too."""
        scene = Scene(time=at(day), participants=tuple(Participant(key=notion) for notion in here))
        policy = LifecyclePolicy(include_suppressed=everything, include_superseded=everything)
        context = RetrievalContext(topic=topic, scene=scene, lifecycle_policy=policy, **fields)
        return Recalled(self.memory.retrieve(context))

    def _commit(self, draft: Any) -> MemoryObjectRef:
        self.memory.commit(plans.plan(plans.complete(draft, DAWN)))
        ref = draft.ref
        assert isinstance(ref, MemoryObjectRef)
        return ref

    def _id(self) -> MemoryId:
        return UUID(int=self._numbers.getrandbits(128), version=4)
