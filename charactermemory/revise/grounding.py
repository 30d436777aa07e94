"""How a correction's replacements are grounded: sources, lineage, identity (memory-core §9.3-9.4)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
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


def replacements_of(
    draft: CorrectMemoryDraft, sources: Sources, superseded: Sequence[DerivedMemory]
) -> tuple[ReplacementDerivedMemoryDraft, ...]:
    """Return the grounded replacements with their ids; one default where the draft gives none.

    Raises:
        LifecycleDraftInvalid: a replacement is unsound once grounded, or a given belief would be replaced
            by a default one that rests on nothing.
        ReplacementIdentityConflict: two replacements have one id.
    """
    seed = seed_of(draft)
    drafts = draft.replacement_derived_memories
    if drafts:
        grounded = [_grounded(item, draft, sources, superseded) for item in drafts]
    else:
        grounded = [_grounded(_default(draft, sources, superseded), draft, sources, superseded)]
        _refuse_ungrounded_default(grounded[0], superseded)
    for item in grounded:
        item.check()
    named = [
        item if item.id is not None else item.replace(id=replacement_id(seed, index))
        for index, item in enumerate(grounded)
    ]
    seen: set[MemoryId] = set()
    for item in named:
        assert item.id is not None
        if item.id in seen:
            raise ReplacementIdentityConflict(item.id, "duplicate_in_plan")
        seen.add(item.id)
    return tuple(named)


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
    item: ReplacementDerivedMemoryDraft,
    draft: CorrectMemoryDraft,
    sources: Sources,
    superseded: Sequence[DerivedMemory],
) -> ReplacementDerivedMemoryDraft:
    references = (item.original_source_provenance, item.correction_origin_provenance, draft.correction_origin)
    episodes = _union([item.derived_from_episode_ids, *(ref.episode_ids for ref in references)])
    observations = _union([item.derived_from_observation_ids, *(ref.observation_ids for ref in references)])
    if not item.given_by_application and not episodes and not observations:
        episodes, observations = tuple(sources.episode_ids), tuple(sources.observation_ids)
    return item.replace(
        derived_from_episode_ids=episodes,
        derived_from_observation_ids=observations,
        thread_ids=item.thread_ids or _union(memory.thread_ids for memory in superseded),
        entity_ids=item.entity_ids or _union(memory.entity_ids for memory in superseded),
        supersedes=_union([item.supersedes, [memory.id for memory in superseded]]),
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
