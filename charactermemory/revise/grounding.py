"""How a correction's replacements are grounded: sources, lineage, identity (memory-core §9.3-9.4)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from charactermemory.domain.kinds import DerivedType
from charactermemory.domain.objects import DEFAULT_SALIENCE, DerivedMemory, sorted_ids
from charactermemory.domain.provenance import SourceProvenanceReference
from charactermemory.errors import LifecycleDraftInvalid, ReplacementIdentityConflict
from charactermemory.ids import MemoryId, correction_seed, replacement_id
from charactermemory.revise.drafts import CorrectMemoryDraft, ReplacementDerivedMemoryDraft


class Sources:
    """The experiences a correction rests on, gathered in order and without repeats."""

    def __init__(self) -> None:
        self.episode_ids: dict[MemoryId, None] = {}
        self.observation_ids: dict[MemoryId, None] = {}

    def absorb(self, memory: DerivedMemory) -> None:
        """Add the sources of a memory that is corrected."""
        self.episode_ids |= dict.fromkeys(memory.derived_from_episode_ids)
        self.observation_ids |= dict.fromkeys(memory.derived_from_observation_ids)

    @property
    def reference(self) -> SourceProvenanceReference:
        """Everything gathered."""
        return SourceProvenanceReference(
            episode_ids=tuple(self.episode_ids), observation_ids=tuple(self.observation_ids)
        )


def seed_of(draft: CorrectMemoryDraft) -> UUID:
    """Return the seed of the correction's deterministic ids.

    Covers targets, superseded ids, origin, rationale and the replacements without their ids; not the trace
    flag, the cascade policy, who asked, or anything read from the graph (memory-core §9.4).
    """
    replacements = [item.replace(id=None) for item in draft.replacement_derived_memories]
    view: dict[str, Any] = {
        "targets": [target.model_dump(mode="json") for target in draft.targets],
        "superseded_derived_memory_ids": [str(item) for item in draft.superseded_derived_memory_ids],
        "correction_origin": draft.correction_origin.model_dump(mode="json"),
        "rationale": draft.rationale,
        "replacement_derived_memories": [item.model_dump(mode="json") for item in replacements],
    }
    return correction_seed(json.dumps(view, separators=(",", ":"), ensure_ascii=False))


def replacement_ids(draft: CorrectMemoryDraft) -> tuple[MemoryId, ...]:
    """Return the ids of the replacements, the draft's own or derived from it; one for the default.

    Raises:
        ReplacementIdentityConflict: two replacements have one id.
    """
    seed = seed_of(draft)
    given = [item.id for item in draft.replacement_derived_memories] or [None]
    ids = tuple(id_ or replacement_id(seed, index) for index, id_ in enumerate(given))
    seen: set[MemoryId] = set()
    for id_ in ids:
        if id_ in seen:
            raise ReplacementIdentityConflict(id_, "duplicate_in_plan")
        seen.add(id_)
    return ids


@dataclass(frozen=True)
class Lineage:
    """What a correction supersedes.

    A retry finds its own earlier output among the current memories of a source; that is no predecessor, and
    what it superseded itself stands in its place.

    Attributes:
        superseded: the memories gathered, sorted by id.
        own: the ids of the correction's replacements.
        earlier: what is stored under them already.
    """

    superseded: Sequence[DerivedMemory]
    own: frozenset[MemoryId]
    earlier: Mapping[MemoryId, DerivedMemory]

    def before(self, replacement: MemoryId) -> list[DerivedMemory]:
        """Return whose threads and notions this replacement takes over; in a retry it has its own already."""
        return [item for item in self.superseded if item.id == replacement or item.id not in self.own]

    def predecessors(self, replacement: MemoryId, named: Iterable[MemoryId]) -> tuple[MemoryId, ...]:
        """Return what this replacement supersedes: what its draft names, and all that was gathered."""
        found = {*named, *(item.id for item in self.superseded)}
        if found & self.own and replacement in self.earlier:
            found |= set(self.earlier[replacement].supersedes)
        return sorted_ids(found - self.own)


def replacements_of(
    draft: CorrectMemoryDraft, ids: Sequence[MemoryId], sources: Sources, lineage: Lineage
) -> tuple[ReplacementDerivedMemoryDraft, ...]:
    """Return the grounded replacements under their ids; one default where the draft gives none.

    Raises:
        LifecycleDraftInvalid: a replacement is unsound once grounded, or a given belief would be replaced
            by a default one that rests on nothing.
    """
    drafts = draft.replacement_derived_memories or (_default(draft, sources, lineage.superseded),)
    grounded = tuple(
        _grounded(item.replace(id=id_), draft, sources, lineage)
        for id_, item in zip(ids, drafts, strict=True)
    )
    if not draft.replacement_derived_memories:
        _refuse_ungrounded_default(grounded[0], lineage.superseded)
    for index, item in enumerate(grounded):
        item.check(f"replacement_derived_memories[{index}]")
    return grounded


def _default(
    draft: CorrectMemoryDraft, sources: Sources, superseded: Sequence[DerivedMemory]
) -> ReplacementDerivedMemoryDraft:
    return ReplacementDerivedMemoryDraft(
        derived_type=DerivedType.CORRECTION,
        text=draft.rationale,
        derived_from_episode_ids=tuple(sources.episode_ids),
        derived_from_observation_ids=tuple(sources.observation_ids),
        thread_ids=_union(memory.thread_ids for memory in superseded),
        entity_ids=_union(memory.entity_ids for memory in superseded),
        salience_score=max((memory.salience_score for memory in superseded), default=DEFAULT_SALIENCE),
        original_source_provenance=sources.reference,
        correction_origin_provenance=draft.correction_origin,
    )


def _grounded(
    item: ReplacementDerivedMemoryDraft, draft: CorrectMemoryDraft, sources: Sources, lineage: Lineage
) -> ReplacementDerivedMemoryDraft:
    assert item.id is not None
    references = (item.original_source_provenance, item.correction_origin_provenance, draft.correction_origin)
    episodes = _union([item.derived_from_episode_ids, *(ref.episode_ids for ref in references)])
    observations = _union([item.derived_from_observation_ids, *(ref.observation_ids for ref in references)])
    if not item.given_by_application and not episodes and not observations:
        episodes, observations = tuple(sources.episode_ids), tuple(sources.observation_ids)
    before = lineage.before(item.id)
    return item.replace(
        derived_from_episode_ids=episodes,
        derived_from_observation_ids=observations,
        thread_ids=item.thread_ids or _union(memory.thread_ids for memory in before),
        entity_ids=item.entity_ids or _union(memory.entity_ids for memory in before),
        supersedes=lineage.predecessors(item.id, item.supersedes),
    )


def _refuse_ungrounded_default(
    item: ReplacementDerivedMemoryDraft, superseded: Sequence[DerivedMemory]
) -> None:
    sourced = item.derived_from_episode_ids or item.derived_from_observation_ids
    if superseded and not sourced and all(memory.given_by_application for memory in superseded):
        raise LifecycleDraftInvalid(
            "missing_given_replacement",
            "a given belief is corrected by an explicit replacement that declares given_by_application",
        )


def _union(lists: Iterable[Iterable[MemoryId]]) -> tuple[MemoryId, ...]:
    return sorted_ids(id_ for ids in lists for id_ in ids)
