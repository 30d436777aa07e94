"""The continuity context pack: what a character in this situation has in mind (recall.md §7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from charactermemory.domain.model import Model
from charactermemory.domain.objects import DerivedMemory, Episode, MemoryObject, MemoryThread, Observation
from charactermemory.ids import MemoryId, MemoryObjectRef
from charactermemory.recall.context import SectionLimits
from charactermemory.recall.ranking import Path, Ranked, Scores
from charactermemory.recall.sections import (
    OmittedByLimit,
    Section,
    SectionAssignment,
    Selected,
    section_of,
)
from charactermemory.recall.verdict import Verdict


class DerivedEntry(Model):
    """A derived memory with the experiences it rests on."""

    memory: DerivedMemory
    source_episode_ids: tuple[MemoryId, ...]
    source_observation_ids: tuple[MemoryId, ...]


class Admission(Model):
    """Why one memory of the pack is in it.

    Attributes:
        object: the memory.
        section: where it stands.
        rank: its place there, from 1.
        scores: what its rank is made of.
        admitted_by: every road that reached it.
        path: the shortest way to it.
    """

    object: MemoryObjectRef
    section: Section
    rank: int
    scores: Scores
    admitted_by: tuple[str, ...]
    path: Path


class ContinuityContextPack(Model):
    """Nine sections, each best first, and one admission per memory in overall rank order."""

    active_threads: tuple[MemoryThread, ...] = ()
    relevant_episodes: tuple[Episode, ...] = ()
    salient_observations: tuple[Observation, ...] = ()
    derived_memories: tuple[DerivedEntry, ...] = ()
    preferences: tuple[DerivedEntry, ...] = ()
    relationship_notes: tuple[DerivedEntry, ...] = ()
    open_loops: tuple[DerivedEntry, ...] = ()
    commitments: tuple[DerivedEntry, ...] = ()
    character_signals: tuple[DerivedEntry, ...] = ()
    admissions: tuple[Admission, ...] = ()


class SectionPressure(Model):
    """How full one section is, and how many ranked memories found no room."""

    section: Section
    limit: int
    included_count: int
    omitted_by_limit_count: int


@dataclass(frozen=True, slots=True)
class Packed:
    """The pack, where each ranked object went (in rank order), and how full the sections are."""

    pack: ContinuityContextPack
    assignments: tuple[SectionAssignment, ...]
    pressure: tuple[SectionPressure, ...]


def build_pack(ranked: Sequence[Ranked], verdict: Verdict, limits: SectionLimits) -> Packed:
    """Walk the ranked list once; no section borrows room from another."""
    entries: dict[Section, list[Any]] = {section: [] for section in Section}
    overfull = dict.fromkeys(Section, 0)
    admissions: list[Admission] = []
    assignments: list[SectionAssignment] = []
    for item in ranked:
        content = verdict.content(item.ref)
        section = section_of(content)
        if not isinstance(section, Section):
            assignments.append(SectionAssignment(object=item.ref, reason=section))
            continue
        if len(entries[section]) >= getattr(limits, section.value):
            overfull[section] += 1
            reason = OmittedByLimit(intended_section=section, scores=item.scores)
            assignments.append(SectionAssignment(object=item.ref, reason=reason))
            continue
        entries[section].append(_entry(content))
        place = len(entries[section])
        assignments.append(
            SectionAssignment(
                object=item.ref, section=section, rank=place, reason=Selected(scores=item.scores)
            )
        )
        admissions.append(
            Admission(
                object=item.ref,
                section=section,
                rank=place,
                scores=item.scores,
                admitted_by=item.roads,
                path=item.path,
            )
        )
    return Packed(
        pack=ContinuityContextPack(
            **{section.value: tuple(held) for section, held in entries.items()}, admissions=tuple(admissions)
        ),
        assignments=tuple(assignments),
        pressure=tuple(
            SectionPressure(
                section=section,
                limit=getattr(limits, section.value),
                included_count=len(held),
                omitted_by_limit_count=overfull[section],
            )
            for section, held in entries.items()
        ),
    )


def _entry(content: MemoryObject) -> MemoryObject | DerivedEntry:
    if not isinstance(content, DerivedMemory):
        return content
    return DerivedEntry(
        memory=content,
        source_episode_ids=content.derived_from_episode_ids,
        source_observation_ids=content.derived_from_observation_ids,
    )
