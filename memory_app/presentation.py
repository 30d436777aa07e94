"""What a recall brought, in words: each memory with its time and why it came, and what was left out and why.

Pure of layout; `terminal` lays it out. Forgotten words are never among what is read here to be shown.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo

from django.utils import timezone

from charactermemory import (
    CharacterMemory,
    DerivedMemory,
    Episode,
    MemoryId,
    MemoryObject,
    MemoryObjectRef,
    MemoryThread,
    ObjectType,
    Observation,
    RetrievalOutcome,
    Stored,
    describe,
)
from charactermemory.domain.objects import memory_time
from charactermemory.recall.omissions import LifecycleFilterReason, StaleCandidateReason
from charactermemory.recall.ranking import Path, Scores
from charactermemory.recall.render import unseen_episodes

ROADS = {"topic": "the topic", "anchor": "who is there"}
"""Roads in words; one that is not here goes by its token."""


@dataclass(frozen=True)
class Entry:
    """One memory of the pack.

    `kind` is its type in words, `when` the time it is of, by the clock of its scene, or of the host where it has
    none; `roads` and `way` say why it came: which cues reached it, and over which memories and relations; an
    empty way means directly. `match` is how well it fits the topic itself, in meaning and in words, without what
    stands around it: from 0 to 1 among the memories of one answer; unlike the rank it compares across sections.
    """

    ref: MemoryObjectRef
    section: str
    kind: str
    text: str
    when: datetime
    roads: str
    way: str
    match: float


@dataclass(frozen=True)
class Replaced:
    """A superseded memory that was left out, and what is held instead; None if that was forgotten since."""

    ref: MemoryObjectRef
    text: str
    now: str | None


@dataclass(frozen=True)
class Recollection:
    """A recall in words, strongest memory first.

    `entries` and `replaced` are those to show, of `admitted` memories and `superseded` ones in all. `forgotten`
    counts by type, `others` by reason; `degraded` names what recall had to do without.
    """

    entries: tuple[Entry, ...]
    admitted: int
    replaced: tuple[Replaced, ...]
    superseded: int
    forgotten: tuple[tuple[str, int], ...]
    others: tuple[tuple[str, int], ...]
    degraded: tuple[str, ...]


def recollect(memory: CharacterMemory, outcome: RetrievalOutcome) -> Recollection:
    """Put an outcome in words; reads what its paths and omissions refer to.

    What was superseded stands in the order in which what took its place came back.

    Raises:
        StoreError: the graph could not be read.
    """
    words = _Words(memory, outcome)
    rationale = outcome.rationale
    decisions = {item.object: item for item in rationale.lifecycle_filter_decisions}
    suppressed = [
        ref for ref, item in decisions.items() if item.reason is LifecycleFilterReason.SUPPRESSED_OMITTED
    ]
    places = {admission.object.id: place for place, admission in enumerate(outcome.pack.admissions)}
    superseded = sorted(
        (item for item in decisions.values() if item.reason is LifecycleFilterReason.SUPERSEDED_OMITTED),
        key=lambda item: min((places.get(id_, len(places)) for id_ in item.superseded_by), default=0),
    )
    entries = tuple(words.entries())
    return Recollection(
        entries=entries,
        admitted=len(entries),
        replaced=tuple(
            Replaced(item.object, words.label(item.object, whole=True), words.successor(item.superseded_by))
            for item in superseded
        ),
        superseded=len(superseded),
        forgotten=tuple(sorted(Counter(_words(ref.object_type) for ref in suppressed).items())),
        others=tuple(
            (_words(item.reason), item.count)
            for item in rationale.stale_candidate_omission_reasons
            if item.reason not in _TOLD
        ),
        degraded=tuple(f"{item.road}, {item.part}: {item.cause}" for item in rationale.degraded),
    )


_TOLD = (StaleCandidateReason.LIFECYCLE_MISMATCH, StaleCandidateReason.SUPERSEDED)
"""Reasons of candidates that the lifecycle decisions tell of as well."""


class _Words:
    """Names and texts of everything an outcome refers to."""

    def __init__(self, memory: CharacterMemory, outcome: RetrievalOutcome) -> None:
        self.outcome = outcome
        pack = outcome.pack
        self.content: dict[MemoryObjectRef, MemoryObject] = {}
        self.content |= {item.ref: item for item in pack.active_threads}
        self.content |= {item.ref: item for item in pack.relevant_episodes}
        self.content |= {item.ref: item for item in pack.salient_observations}
        for entry in (
            *pack.derived_memories,
            *pack.preferences,
            *pack.relationship_notes,
            *pack.open_loops,
            *pack.commitments,
            *pack.character_signals,
        ):
            self.content[entry.memory.ref] = entry.memory
        self.read: Mapping[MemoryObjectRef, Stored] = memory.browse.get(*self._referred())
        self.content |= {ref: item.object for ref, item in self.read.items() if not item.suppressed}
        notions = {ref.id for ref in self.content if ref.object_type is ObjectType.ENTITY}
        self.names: Mapping[MemoryId, tuple[str, ...]] = memory.stores.graph.names_of(notions)
        found = [admission.scores for admission in pack.admissions]
        self.most_alike = max((scores.similarity or 0.0 for scores in found), default=0.0) or 1.0
        self.most_words = max((scores.lexical or 0.0 for scores in found), default=0.0) or 1.0

    def _referred(self) -> Iterator[MemoryObjectRef]:
        yield from (MemoryObjectRef.of(ObjectType.EPISODE, id_) for id_ in unseen_episodes(self.outcome.pack))
        for admission in self.outcome.pack.admissions:
            yield from _nodes(admission.path)
        for item in self.outcome.rationale.lifecycle_filter_decisions:
            if item.reason is LifecycleFilterReason.SUPERSEDED_OMITTED:
                yield item.object
                yield from (MemoryObjectRef.of(ObjectType.DERIVED_MEMORY, id_) for id_ in item.superseded_by)

    def entries(self) -> Iterator[Entry]:
        for admission in self.outcome.pack.admissions:
            item = self.content[admission.object]
            yield Entry(
                ref=admission.object,
                section=admission.section.value,
                kind=_words(item.derived_type if isinstance(item, DerivedMemory) else item.object_type),
                text=self.label(admission.object, whole=True),
                when=self._when(item),
                roads=" and ".join(ROADS.get(road, road) for road in admission.admitted_by),
                way=self._way(admission.path),
                match=self._match(admission.scores),
            )

    def _when(self, item: MemoryObject) -> datetime:
        """Return the time of a memory as a clock showed it: where it happened, else in the host's time zone."""
        if isinstance(item, Episode):
            return item.scene.time
        time = item.last_touched_at if isinstance(item, MemoryThread) else memory_time(item)
        zone = self._zone(item.episode_id) if isinstance(item, Observation) else None
        try:
            return timezone.localtime(time, zone)
        except OverflowError:  # at the ends of the calendar
            return time

    def _zone(self, episode: MemoryId) -> tzinfo | None:
        """Return the zone of an episode's clock; of one that was forgotten no more than this is told."""
        ref = MemoryObjectRef.of(ObjectType.EPISODE, episode)
        item = self.read[ref].object if ref in self.read else self.content.get(ref)
        return item.scene.time.tzinfo if isinstance(item, Episode) else None

    def _match(self, scores: Scores) -> float:
        alike = max(scores.similarity or 0.0, 0.0) / self.most_alike
        return (alike + (scores.lexical or 0.0) / self.most_words) / 2

    def _way(self, path: Path) -> str:
        """Name the memories passed on the way, each with the relation that led on from it."""
        nodes = list(_nodes(path))
        return ", ".join(
            f"{self.label(node)} ({_words(step.relation)})"
            for node, step in zip(nodes, path.steps, strict=False)
        )

    def label(self, ref: MemoryObjectRef, whole: bool = False) -> str:
        """Return the text of an object, or enough of it to know it by."""
        match self.content.get(ref):
            case Episode() as item:
                return item.summary if whole and item.summary else describe(item.scene)
            case MemoryThread() as item:
                return f"{item.title}: {item.summary}" if whole else f"“{item.title}”"
            case Observation() | DerivedMemory() as item:
                if whole:
                    return item.text
                return f"“{textwrap.shorten(item.text, _SHORT, placeholder='…')}”"
            case _:
                return " or ".join(self.names.get(ref.id, ())) or f"an unnamed {_words(ref.object_type)}"

    def successor(self, ids: Iterable[MemoryId]) -> str | None:
        """Return what is held instead; the current one where several took the place."""
        stored = [
            item
            for id_ in ids
            if (item := self.read.get(MemoryObjectRef.of(ObjectType.DERIVED_MEMORY, id_)))
            and not item.suppressed
        ]
        stored.sort(key=lambda item: (item.superseded, item.ref.order))
        return self.label(stored[0].ref, whole=True) if stored else None


_SHORT = 40
"""Characters by which a memory is named on the way to another."""


def _nodes(path: Path) -> Iterator[MemoryObjectRef]:
    """Yield the root and every object the path passes, its end included."""
    at = path.root
    yield at
    for step in path.steps:
        at = step.target if step.source == at else step.source
        yield at


def _words(token: str) -> str:
    return _WORDS.get(token, token.replace("_", " "))


_WORDS = {
    "entity": "notion",
    "memory_thread": "thread",
    "derived_memory": "belief",
    "section_limit": "no room left",
}
"""Tokens that a reader would not know; others are their own words."""
