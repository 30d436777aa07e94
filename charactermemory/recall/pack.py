"""The continuity context pack: what a character in this situation has in mind (recall.md §7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from charactermemory.domain.model import Model
from charactermemory.domain.objects import DerivedMemory, Episode, MemoryObject, MemoryThread, Observation
from charactermemory.ids import MemoryId, MemoryObjectRef
from charactermemory.ports.transcript import RecentTurn
from charactermemory.recall.context import SectionLimits
from charactermemory.recall.echoes import Echoes
from charactermemory.recall.floors import Gate
from charactermemory.recall.ranking import Path, Ranked, Scores
from charactermemory.recall.roads.road import CueKind
from charactermemory.recall.sections import (
    AssignmentReason,
    OmittedAsRepetition,
    OmittedByLimit,
    Place,
    Section,
    SectionAssignment,
    Selected,
    place_of,
)
from charactermemory.recall.tokens import TokenCounter, estimate_tokens
from charactermemory.recall.verdict import Verdict

if TYPE_CHECKING:
    from charactermemory.recall.render import Names, Rendered, Scenes, Style


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
    """Nine sections, each best first, and one admission per memory in overall rank order.

    `recent_turns` stand outside: what a transcript holds of late on the topic and nobody remembers yet.
    """

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
    recent_turns: tuple[RecentTurn, ...] = ()

    def render(
        self,
        *,
        fence: str,
        budget: int | None = None,
        counter: TokenCounter = estimate_tokens,
        style: Style = "markdown",
        names: Names | None = None,
        scenes: Scenes | None = None,
    ) -> Rendered:
        """Write the pack for a prompt, fenced as data. See `recall.render.render`."""
        from charactermemory.recall.render import render

        return render(
            self, fence=fence, budget=budget, counter=counter, style=style, names=names, scenes=scenes
        )


class SectionPressure(Model):
    """How full one section is, and how many ranked memories found no room."""

    section: Section
    limit: int
    included_count: int
    omitted_by_limit_count: int


class Placed(NamedTuple):
    """Where one ranked object went: the place it belongs to, and its rank there; None if it is left out.

    `repeats`: left out because of that memory of the pack, which says the same.
    """

    item: Ranked
    place: Place
    rank: int | None = None
    repeats: MemoryObjectRef | None = None

    @property
    def omitted(self) -> bool:
        """Whether it belongs to a section and is not in it."""
        return self.rank is None and isinstance(self.place, Section)

    def assignment(self) -> SectionAssignment:
        """Return the published form."""
        reason: AssignmentReason
        if not isinstance(self.place, Section):
            reason = self.place
        elif self.repeats is not None:
            reason = OmittedAsRepetition(
                intended_section=self.place, repeats=self.repeats, scores=self.item.scores()
            )
        elif self.rank is None:
            reason = OmittedByLimit(intended_section=self.place, scores=self.item.scores())
        else:
            reason = Selected(scores=self.item.scores())
        section = self.place if self.rank is not None and isinstance(self.place, Section) else None
        return SectionAssignment(object=self.item.ref, section=section, rank=self.rank, reason=reason)


@dataclass(frozen=True, slots=True)
class Packed:
    """The pack, where each ranked object went (in rank order), and how full the sections are.

    `short`: an object that was not read would have had room.
    """

    pack: ContinuityContextPack
    placed: tuple[Placed, ...]
    pressure: tuple[SectionPressure, ...]
    short: bool


def build_pack(
    ranked: Sequence[Ranked],
    verdict: Verdict,
    limits: SectionLimits,
    explain: Callable[[Ranked], tuple[tuple[str, ...], Path]],
) -> Packed:
    """Walk the ranked list once; no section borrows room from another, each keeps its floors.

    `explain` tells the roads that reached an object, and its shortest path.
    """
    entries: dict[Section, list[Any]] = {section: [] for section in Section}
    overfull = dict.fromkeys(Section, 0)
    admissions: list[Admission] = []
    placed: list[Placed] = []
    short = False
    echoes = Echoes()
    kinds: dict[Section, list[frozenset[CueKind]]] = {section: [] for section in Section}
    places: list[tuple[Ranked, MemoryObject | None, Place]] = []
    for item in ranked:
        content = verdict.content(item.ref)
        place = place_of(item.ref, content)
        places.append((item, content, place))
        if isinstance(place, Section):
            kinds[place].append(item.kinds)
    gates = {section: Gate(of, getattr(limits, section.value)) for section, of in kinds.items()}
    for item, content, place in places:
        if not isinstance(place, Section):
            placed.append(Placed(item, place))
            continue
        gate = gates[place]
        fits = gate.admits(item.kinds)
        if not fits or content is None:
            short = short or fits
            overfull[place] += 1
            placed.append(Placed(item, place))
            continue
        repeats = echoes.met(content)
        if repeats is not None:
            placed.append(Placed(item, place, repeats=repeats))
            continue
        gate.admit(item.kinds)
        entries[place].append(_entry(content))
        rank = len(entries[place])
        placed.append(Placed(item, place, rank))
        roads, path = explain(item)
        admissions.append(
            Admission(
                object=item.ref,
                section=place,
                rank=rank,
                scores=item.scores(),
                admitted_by=roads,
                path=path,
            )
        )
    return Packed(
        pack=ContinuityContextPack(
            **{section.value: tuple(held) for section, held in entries.items()}, admissions=tuple(admissions)
        ),
        placed=tuple(placed),
        pressure=tuple(
            SectionPressure(
                section=section,
                limit=getattr(limits, section.value),
                included_count=len(held),
                omitted_by_limit_count=overfull[section],
            )
            for section, held in entries.items()
        ),
        short=short,
    )


def _entry(content: MemoryObject) -> MemoryObject | DerivedEntry:
    if not isinstance(content, DerivedMemory):
        return content
    return DerivedEntry(
        memory=content,
        source_episode_ids=content.derived_from_episode_ids,
        source_observation_ids=content.derived_from_observation_ids,
    )
