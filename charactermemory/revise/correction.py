"""What a correction would store: everything it needs is read here, before a write (memory-core §9.3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from charactermemory.domain.kinds import SCHEMA_VERSION
from charactermemory.domain.lifecycle import Stored, derived_links
from charactermemory.domain.objects import (
    DerivedMemory,
    Episode,
    MemoryLink,
    MemoryObject,
    Observation,
    check_object,
    sorted_ids,
)
from charactermemory.errors import (
    GraphExpansionRootNotFound,
    OriginalSourceReferenceMismatch,
    ReplacementIdentityConflict,
)
from charactermemory.ids import MemoryId, MemoryObjectRef, ObjectType
from charactermemory.ports.graph import GraphStore
from charactermemory.revise.drafts import (
    CorrectMemoryDraft,
    DerivedMemoryTarget,
    ReplacementDerivedMemoryDraft,
    SourceObjectTarget,
)
from charactermemory.revise.grounding import Lineage, Sources, replacement_ids, replacements_of
from charactermemory.revise.reading import read_all, refs_of


@dataclass(frozen=True)
class CorrectionPlan:
    """What a correction concerns.

    Attributes:
        replacements: every replacement as it is to be stored.
        new: those that are not stored yet; the others were found stored equal (a retry).
        predecessors: what the replacements supersede, sorted.
    """

    replacements: tuple[DerivedMemory, ...]
    new: tuple[DerivedMemory, ...]
    predecessors: tuple[MemoryObjectRef, ...]

    @property
    def links(self) -> tuple[MemoryLink, ...]:
        """The links that are not stored yet."""
        return tuple(link for memory in self.new for link in derived_links(memory))

    @property
    def refs(self) -> tuple[MemoryObjectRef, ...]:
        """Everything whose derived state this correction concerns, retries included."""
        links = (link.ref for memory in self.replacements for link in derived_links(memory))
        return (*(memory.ref for memory in self.replacements), *links, *self.predecessors)


def plan(graph: GraphStore, draft: CorrectMemoryDraft, now: datetime) -> CorrectionPlan:
    """Read what the correction is about and say what it would store; nothing is written.

    Raises:
        LifecycleDraftInvalid, InvalidScore, GraphExpansionRootNotFound, OriginalSourceReferenceMismatch,
        ReplacementIdentityConflict: see `correct`.
    """
    planner = _Planner(graph, draft)
    planner.gather()
    superseded = [planner.superseded[id_] for id_ in sorted_ids(planner.superseded)]
    ids = replacement_ids(draft)
    stored = graph.read(_derived(ids))
    lineage = Lineage(superseded, frozenset(ids), _memories(stored))
    drafts = replacements_of(draft, ids, planner.sources, lineage)
    version = superseded[0].schema_version if superseded else SCHEMA_VERSION
    memories = tuple(_memory(item, now, version) for item in drafts)
    _require_known(graph, memories)
    return CorrectionPlan(
        replacements=memories,
        new=tuple(memory for memory in memories if not _is_retry(memory, stored.get(memory.ref))),
        predecessors=tuple(_derived(sorted_ids(old for memory in memories for old in memory.supersedes))),
    )


class _Planner:
    """Gathers the experiences a correction rests on and the memories it supersedes."""

    def __init__(self, graph: GraphStore, draft: CorrectMemoryDraft) -> None:
        self.graph = graph
        self.draft = draft
        self.sources = Sources()
        self.superseded: dict[MemoryId, DerivedMemory] = {}

    def gather(self) -> None:
        for target in self.draft.targets:
            if isinstance(target, DerivedMemoryTarget):
                self._supersede([target.id])
            else:
                self._correct_source(target)
        self._supersede(self.draft.superseded_derived_memory_ids)

    def _supersede(self, ids: Iterable[MemoryId]) -> None:
        refs = _derived(ids)
        found = read_all(self.graph, refs)
        for ref in refs:
            memory = _present(found, ref)
            assert isinstance(memory, DerivedMemory)
            self.sources.absorb(memory)
            self.superseded.setdefault(memory.id, memory)

    def _correct_source(self, target: SourceObjectTarget) -> None:
        named, ref = target.target, target.ref
        item = _present(self.graph.read([ref]), ref)
        assert isinstance(item, Episode | Observation)
        _compare(ref, "raw", named.original_raw_ref, item.raw_ref)
        if (named.original_source_ref or "").strip():
            _compare(ref, "source", named.original_source_ref, self._conversation_of(item))
        kept = self.sources.episode_ids if isinstance(item, Episode) else self.sources.observation_ids
        kept[item.id] = None
        if self.draft.cascade_policy.apply_to_provenanced_derived_memories:
            self._supersede(self._current_memories())

    def _current_memories(self) -> list[MemoryId]:
        """The current memories that rest on any experience gathered so far, within its episodes too."""
        episodes = tuple(self.sources.episode_ids)
        within = self.graph.observations_of(episodes) if episodes else ()
        observations = {*self.sources.observation_ids, *within}
        refs = _derived(self.graph.memories_from(episodes, observations))
        stored = read_all(self.graph, refs)
        return [ref.id for ref in refs if stored[ref].current]

    def _conversation_of(self, item: Episode | Observation) -> str | None:
        if isinstance(item, Observation):
            ref = MemoryObjectRef.of(ObjectType.EPISODE, item.episode_id)
            episode = _present(self.graph.read([ref]), ref)
            assert isinstance(episode, Episode)
            item = episode
        return item.source_conversation_id


def _compare(ref: MemoryObjectRef, kind: str, provided: str | None, stored: str | None) -> None:
    if provided is not None and provided.strip() and provided != stored:
        raise OriginalSourceReferenceMismatch(ref, kind, provided, stored)


def _memory(item: ReplacementDerivedMemoryDraft, now: datetime, schema_version: str) -> DerivedMemory:
    assert item.id is not None
    memory = DerivedMemory(
        id=item.id,
        derived_type=item.derived_type,
        text=item.text,
        derived_from_episode_ids=item.derived_from_episode_ids,
        derived_from_observation_ids=item.derived_from_observation_ids,
        thread_ids=item.thread_ids,
        entity_ids=item.entity_ids,
        assertions=item.assertions,
        given_by_application=item.given_by_application,
        salience_score=item.salience_score,
        supersedes=item.supersedes,
        created_at=now,
        updated_at=now,
        schema_version=schema_version,
    )
    check_object(memory)
    return memory


def _require_known(graph: GraphStore, memories: Sequence[DerivedMemory]) -> None:
    own = {memory.ref for memory in memories}
    needed: dict[MemoryObjectRef, None] = {}
    for memory in memories:
        kinds: tuple[tuple[ObjectType, tuple[MemoryId, ...]], ...] = (
            (ObjectType.ENTITY, memory.entity_ids),
            (ObjectType.DERIVED_MEMORY, memory.supersedes),
            (ObjectType.EPISODE, memory.derived_from_episode_ids),
            (ObjectType.OBSERVATION, memory.derived_from_observation_ids),
            (ObjectType.MEMORY_THREAD, memory.thread_ids),
        )
        for object_type, ids in kinds:
            needed |= dict.fromkeys(refs_of(object_type, ids))
    existing = graph.existing(needed.keys() - own)
    for ref in needed:
        if ref not in existing and ref not in own:
            raise GraphExpansionRootNotFound(ref.object_type, ref.id)


def _is_retry(memory: DerivedMemory, stored: Stored | None) -> bool:
    if stored is None:
        return False
    earlier = stored.object
    assert isinstance(earlier, DerivedMemory)
    if earlier.replace(created_at=memory.created_at, updated_at=memory.updated_at) != memory:
        raise ReplacementIdentityConflict(memory.id, "divergent_existing")
    return True


def _memories(stored: Mapping[MemoryObjectRef, Stored]) -> dict[MemoryId, DerivedMemory]:
    return {ref.id: item.object for ref, item in stored.items() if isinstance(item.object, DerivedMemory)}


def _present(found: Mapping[MemoryObjectRef, Stored], ref: MemoryObjectRef) -> MemoryObject:
    if ref not in found:
        raise GraphExpansionRootNotFound(ref.object_type, ref.id)
    return found[ref].object


def _derived(ids: Iterable[MemoryId]) -> list[MemoryObjectRef]:
    return refs_of(ObjectType.DERIVED_MEMORY, ids)
