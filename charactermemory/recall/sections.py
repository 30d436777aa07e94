"""Which section of the pack an object belongs to (recall.md §7.1)."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, assert_never

from pydantic import Field

from charactermemory.domain.kinds import DerivedType, ThreadStatus
from charactermemory.domain.model import Model
from charactermemory.domain.objects import (
    DerivedMemory,
    Entity,
    Episode,
    MemoryLink,
    MemoryObject,
    MemoryThread,
    Observation,
)
from charactermemory.ids import MemoryObjectRef, ObjectType
from charactermemory.recall.ranking import Scores


class Section(StrEnum):
    """The nine sections, in the order of the pack."""

    ACTIVE_THREADS = "active_threads"
    RELEVANT_EPISODES = "relevant_episodes"
    SALIENT_OBSERVATIONS = "salient_observations"
    DERIVED_MEMORIES = "derived_memories"
    PREFERENCES = "preferences"
    RELATIONSHIP_NOTES = "relationship_notes"
    OPEN_LOOPS = "open_loops"
    COMMITMENTS = "commitments"
    CHARACTER_SIGNALS = "character_signals"


class Selected(Model):
    """It stands in its section."""

    kind: Literal["selected"] = "selected"
    scores: Scores


class OmittedByLimit(Model):
    """Its section was full."""

    kind: Literal["omitted_by_limit"] = "omitted_by_limit"
    intended_section: Section
    scores: Scores


class OmittedAsRepetition(Model):
    """The pack already has a memory it belongs to that says the same."""

    kind: Literal["omitted_as_repetition"] = "omitted_as_repetition"
    intended_section: Section
    repeats: MemoryObjectRef
    scores: Scores


class OmittedNonActiveThread(Model):
    """A thread that is dormant or resolved stands in no section."""

    kind: Literal["omitted_non_active_thread"] = "omitted_non_active_thread"
    thread_status: ThreadStatus


class OmittedNoPromptSection(Model):
    """Notions and links stand in no section; they connect."""

    kind: Literal["omitted_no_prompt_section"] = "omitted_no_prompt_section"
    object_type: ObjectType


AssignmentReason = Annotated[
    Selected | OmittedByLimit | OmittedAsRepetition | OmittedNonActiveThread | OmittedNoPromptSection,
    Field(discriminator="kind"),
]


Place = Section | OmittedNonActiveThread | OmittedNoPromptSection
"""The section an object belongs to, or why it has none."""

SECTION_OF_TYPE = {
    ObjectType.EPISODE: Section.RELEVANT_EPISODES,
    ObjectType.OBSERVATION: Section.SALIENT_OBSERVATIONS,
}
"""The types whose section is known without their content."""


class SectionAssignment(Model):
    """Where one ranked object went; `section` and `rank` (from 1) only if it was selected."""

    object: MemoryObjectRef
    section: Section | None = None
    rank: int | None = None
    reason: AssignmentReason


_DERIVED_SECTIONS: dict[DerivedType, Section] = {
    DerivedType.REFLECTION: Section.DERIVED_MEMORIES,
    DerivedType.USER_PREFERENCE: Section.PREFERENCES,
    DerivedType.ASSISTANT_PREFERENCE: Section.PREFERENCES,
    DerivedType.COMMITMENT: Section.COMMITMENTS,
    DerivedType.OPEN_LOOP: Section.OPEN_LOOPS,
    DerivedType.CHARACTER_SIGNAL: Section.CHARACTER_SIGNALS,
    DerivedType.RELATIONSHIP_NOTE: Section.RELATIONSHIP_NOTES,
    DerivedType.PROJECT_NOTE: Section.DERIVED_MEMORIES,
    DerivedType.CLAIM: Section.DERIVED_MEMORIES,
    DerivedType.CORRECTION: Section.DERIVED_MEMORIES,
}


_NO_SECTION = {kind: OmittedNoPromptSection(object_type=kind) for kind in ObjectType}


def place_of(ref: MemoryObjectRef, item: MemoryObject | None) -> Place:
    """Return where an object belongs. Every kind is named, so that a new one forces a decision.

    `item` may be missing for a notion and for the types of `SECTION_OF_TYPE`.
    """
    match item:
        case None:
            return SECTION_OF_TYPE.get(ref.object_type) or _NO_SECTION[ref.object_type]
        case Observation():
            return Section.SALIENT_OBSERVATIONS
        case Episode():
            return Section.RELEVANT_EPISODES
        case DerivedMemory():
            return _DERIVED_SECTIONS[item.derived_type]
        case MemoryThread():
            if item.status is ThreadStatus.ACTIVE:
                return Section.ACTIVE_THREADS
            return OmittedNonActiveThread(thread_status=item.status)
        case Entity() | MemoryLink():
            return _NO_SECTION[item.object_type]
        case _:
            assert_never(item)
