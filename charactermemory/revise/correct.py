"""Correct: append beliefs that supersede wrong ones; nothing stored is rewritten (memory-core §9)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from charactermemory.domain.digest import digest
from charactermemory.domain.kinds import SCHEMA_VERSION, RelationType
from charactermemory.domain.lifecycle import LifecycleEvent, Stored, derived_links
from charactermemory.domain.objects import DerivedMemory, Episode, MemoryLink, MemoryObject, Observation
from charactermemory.errors import (
    CascadeTooLarge,
    GraphExpansionRootNotFound,
    MissingOriginalSourceReference,
    OriginalSourceReferenceMismatch,
    ReplacementIdentityConflict,
)
from charactermemory.ids import MemoryId, MemoryObjectRef, ObjectType, new_id
from charactermemory.ports.graph import MAX_CASCADE, GraphStore, WriteBatch
from charactermemory.ports.stores import Stores
from charactermemory.remember.outcome import maintenance_markers
from charactermemory.revise.drafts import (
    CorrectMemoryDraft,
    DerivedMemoryTarget,
    ReplacementDerivedMemoryDraft,
    SourceObjectCorrectionTarget,
)
from charactermemory.revise.grounding import Sources, replacements_of
from charactermemory.revise.outcome import LifecycleMutationOutcome, LifecycleTrace, SupersededBy
from charactermemory.upkeep.derive import derive
from charactermemory.upkeep.verify import ensure_writable


@dataclass(frozen=True)
class _Plan:
    replacements: tuple[DerivedMemory, ...]
    new: tuple[DerivedMemory, ...]
    """The replacements that are not stored yet; the others were found stored equal (a retry)."""
    predecessors: tuple[MemoryId, ...]

    @property
    def links(self) -> tuple[MemoryLink, ...]:
        return tuple(link for memory in self.new for link in derived_links(memory))

    @property
    def refs(self) -> tuple[MemoryObjectRef, ...]:
        """Everything whose derived state this correction concerns, retries included."""
        links = (link.ref for memory in self.replacements for link in derived_links(memory))
        return (*(memory.ref for memory in self.replacements), *links, *_derived_refs(self.predecessors))


def plan_correction(stores: Stores, draft: CorrectMemoryDraft) -> LifecycleMutationOutcome:
    """Return what `correct` would do now; nothing is written.

    Raises:
        The errors of `correct`, but for a cascade that is too large, which is listed.
    """
    draft.check()
    return _preview(draft, _Planner(stores.graph, draft, stores.clock()).plan())


def correct(stores: Stores, draft: CorrectMemoryDraft) -> LifecycleMutationOutcome:
    """Store the replacements with their Supersedes and About links, in one write.

    An identical retry writes nothing to the graph and repairs vectors and statistics.

    Raises:
        LifecycleDraftInvalid: the draft is unsound, before or after grounding; nothing is written.
        GraphExpansionRootNotFound: a target, subject or predecessor is not stored; nothing is written.
        MissingOriginalSourceReference, OriginalSourceReferenceMismatch: a source target is not named rightly.
        ReplacementIdentityConflict: a replacement's id is taken; nothing is written.
        CascadeTooLarge: more than 10,000 memories would be superseded; nothing is written.
        StoreError: see `GraphWriter.apply`.
    """
    draft.check()
    ensure_writable(stores)
    with stores.graph.writing() as writer:
        plan = _Planner(stores.graph, draft, stores.clock()).plan()
        if len(plan.predecessors) > MAX_CASCADE:
            raise CascadeTooLarge(len(plan.predecessors), MAX_CASCADE)
        if plan.new:
            token = writer.apply(_batch(draft, plan))
            if token is not None:
                stores.owe(token, plan.refs)
    report = derive(stores, plan.refs)
    markers = maintenance_markers(report)
    maintenance = next((marker for marker in markers if marker.kind == "vector_maintenance"), None)
    return _preview(draft, plan).replace(
        vector_maintained_object_ids=tuple(sorted({*report.indexed, *report.deleted})),
        vector_maintenance_failure=maintenance,
        stats_update_status=report.statistics,
        repair_needed=markers,
    )


def _batch(draft: CorrectMemoryDraft, plan: _Plan) -> WriteBatch:
    at = plan.new[0].created_at
    event = LifecycleEvent(
        id=new_id(),
        operation="correct",
        at=at,
        rationale=draft.rationale,
        requested_by=draft.requested_by,
        external_refs=draft.correction_origin.external_refs,
        targets=tuple(sorted({_target_ref(target) for target in draft.targets})),
    )
    return WriteBatch(
        operation="correct",
        plan_digest=digest(draft),
        at=at,
        objects=(*plan.new, *plan.links),
        event=event,
        requires=tuple(("superseded_memory", ref) for ref in _derived_refs(plan.predecessors)),
        touched=tuple(_derived_refs(plan.predecessors)),
    )


def _preview(draft: CorrectMemoryDraft, plan: _Plan) -> LifecycleMutationOutcome:
    trace = None
    if draft.include_trace:
        pairs = tuple(
            SupersededBy(superseded_id=link.to_id, successor_id=link.from_id)
            for link in plan.links
            if link.relation is RelationType.SUPERSEDES
        )
        requested = tuple(_target_ref(target) for target in draft.targets)
        trace = LifecycleTrace(requested_targets=requested, superseded_by=pairs)
    maintained = {*(memory.ref for memory in plan.replacements), *_derived_refs(plan.predecessors)}
    return LifecycleMutationOutcome(
        graph_mutated_object_ids=tuple(sorted(memory.ref for memory in plan.new)),
        graph_mutated_link_ids=tuple(sorted(link.ref for link in plan.links)),
        vector_maintained_object_ids=tuple(sorted(maintained)),
        trace=trace,
    )


class _Planner:
    """Reads everything a correction needs; any missing object aborts before a write."""

    def __init__(self, graph: GraphStore, draft: CorrectMemoryDraft, now: datetime) -> None:
        self.graph = graph
        self.draft = draft
        self.now = now
        self.sources = Sources()
        self.superseded: dict[MemoryId, DerivedMemory] = {}

    def plan(self) -> _Plan:
        self._refuse_unnamed_sources()
        for target in self.draft.targets:
            if isinstance(target, DerivedMemoryTarget):
                self._supersede([target.id])
            else:
                self._correct_source(target.target)
        self._supersede(self.draft.superseded_derived_memory_ids)
        superseded = [self.superseded[id_] for id_ in sorted(self.superseded, key=lambda item: item.int)]
        drafts = replacements_of(self.draft, self.sources, superseded)
        stored = self.graph.read(_derived_refs(item.id for item in drafts if item.id is not None))
        drafts = self._restore_lineage(drafts, stored)
        memories = tuple(self._memory(item, superseded) for item in drafts)
        self._require_known(memories)
        new = tuple(memory for memory in memories if not self._is_retry(memory, stored.get(memory.ref)))
        predecessors = tuple(
            sorted({old for memory in memories for old in memory.supersedes}, key=lambda item: item.int)
        )
        return _Plan(memories, new, predecessors)

    def _refuse_unnamed_sources(self) -> None:
        for target in self.draft.targets:
            if isinstance(target, DerivedMemoryTarget):
                continue
            named = target.target
            if not (named.original_raw_ref or "").strip() and not (named.original_source_ref or "").strip():
                raise MissingOriginalSourceReference(_target_ref(target))

    def _supersede(self, ids: Iterable[MemoryId]) -> None:
        refs = _derived_refs(ids)
        found = self.graph.read(refs)
        for ref in refs:
            memory = _present(found, ref)
            assert isinstance(memory, DerivedMemory)
            self.sources.absorb(memory)
            self.superseded.setdefault(memory.id, memory)

    def _correct_source(self, target: SourceObjectCorrectionTarget) -> None:
        ref = MemoryObjectRef.of(target.object_type, target.id)
        item = _present(self.graph.read([ref]), ref)
        assert isinstance(item, Episode | Observation)
        self._compare(ref, "raw", target.original_raw_ref, item.raw_ref)
        if (target.original_source_ref or "").strip():
            self._compare(ref, "source", target.original_source_ref, self._conversation_of(item))
        kept = self.sources.episode_ids if isinstance(item, Episode) else self.sources.observation_ids
        kept[item.id] = None
        if self.draft.cascade_policy.apply_to_provenanced_derived_memories:
            self._supersede(self._current_memories())

    def _current_memories(self) -> list[MemoryId]:
        """The current memories that rest on any experience gathered so far, within its episodes too."""
        episodes = tuple(self.sources.episode_ids)
        within = self.graph.observations_of(episodes) if episodes else ()
        observations = {*self.sources.observation_ids, *within}
        refs = _derived_refs(self.graph.memories_from(episodes, observations))
        stored = self.graph.read(refs)
        return [ref.id for ref in refs if stored[ref].current]

    def _conversation_of(self, item: Episode | Observation) -> str | None:
        if isinstance(item, Observation):
            ref = MemoryObjectRef.of(ObjectType.EPISODE, item.episode_id)
            episode = _present(self.graph.read([ref]), ref)
            assert isinstance(episode, Episode)
            item = episode
        return item.source_conversation_id

    @staticmethod
    def _compare(ref: MemoryObjectRef, kind: str, provided: str | None, stored: str | None) -> None:
        if provided is not None and provided.strip() and provided != stored:
            raise OriginalSourceReferenceMismatch(ref, kind, provided, stored)

    @staticmethod
    def _restore_lineage(
        drafts: Sequence[ReplacementDerivedMemoryDraft], stored: dict[MemoryObjectRef, Stored]
    ) -> tuple[ReplacementDerivedMemoryDraft, ...]:
        """A retry finds its own earlier output among what it would supersede; take that memory's lineage."""
        own = {item.id for item in drafts}
        restored = []
        for item in drafts:
            old = set(item.supersedes)
            if old & own:
                assert item.id is not None
                earlier = stored.get(MemoryObjectRef.of(ObjectType.DERIVED_MEMORY, item.id))
                old -= own
                if earlier is not None and isinstance(earlier.object, DerivedMemory):
                    old |= set(earlier.object.supersedes)
                item = item.replace(supersedes=tuple(old))
            restored.append(item)
        return tuple(restored)

    def _memory(
        self, item: ReplacementDerivedMemoryDraft, superseded: Sequence[DerivedMemory]
    ) -> DerivedMemory:
        assert item.id is not None
        return DerivedMemory(
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
            created_at=self.now,
            updated_at=self.now,
            schema_version=superseded[0].schema_version if superseded else SCHEMA_VERSION,
        )

    def _require_known(self, memories: Sequence[DerivedMemory]) -> None:
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
                needed |= dict.fromkeys(MemoryObjectRef.of(object_type, id_) for id_ in ids)
        existing = self.graph.existing(needed.keys() - own)
        for ref in needed:
            if ref not in existing and ref not in own:
                raise GraphExpansionRootNotFound(ref.object_type, ref.id)

    @staticmethod
    def _is_retry(memory: DerivedMemory, stored: Stored | None) -> bool:
        if stored is None:
            return False
        earlier = stored.object
        assert isinstance(earlier, DerivedMemory)
        same_times = {"created_at": memory.created_at, "updated_at": memory.updated_at}
        if earlier.replace(**same_times) != memory:
            raise ReplacementIdentityConflict(memory.id, "divergent_existing")
        return True


def _present(found: dict[MemoryObjectRef, Stored], ref: MemoryObjectRef) -> MemoryObject:
    if ref not in found:
        raise GraphExpansionRootNotFound(ref.object_type, ref.id)
    return found[ref].object


def _derived_refs(ids: Iterable[MemoryId]) -> list[MemoryObjectRef]:
    return [MemoryObjectRef.of(ObjectType.DERIVED_MEMORY, id_) for id_ in ids]


def _target_ref(target: object) -> MemoryObjectRef:
    if isinstance(target, DerivedMemoryTarget):
        return MemoryObjectRef.of(ObjectType.DERIVED_MEMORY, target.id)
    named = target.target  # type: ignore[attr-defined]
    return MemoryObjectRef.of(named.object_type, named.id)
