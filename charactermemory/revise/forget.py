"""Forget: take influence from memories by adding one event node, and nothing else (memory-core §10)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from charactermemory.domain.digest import digest
from charactermemory.domain.lifecycle import LifecycleEvent, Stored
from charactermemory.domain.objects import DerivedMemory
from charactermemory.domain.repair import StatsUpdateStatus
from charactermemory.errors import CascadeTooLarge, GraphExpansionRootNotFound
from charactermemory.ids import MemoryId, MemoryObjectRef, ObjectType, new_id
from charactermemory.ports.graph import MAX_CASCADE, GraphStore, WriteBatch
from charactermemory.ports.stores import Stores
from charactermemory.remember.outcome import maintenance_markers, put_off
from charactermemory.revise.drafts import ForgetMemoryDraft
from charactermemory.revise.outcome import (
    LifecycleDiagnostics,
    LifecycleMutationOutcome,
    LifecycleTrace,
    LifecycleWarning,
    LifecycleWarningReason,
)
from charactermemory.revise.reading import read_all, refs_of
from charactermemory.upkeep.derive import derive
from charactermemory.upkeep.verify import ensure_writable


@dataclass(frozen=True)
class _Plan:
    suppress: tuple[MemoryObjectRef, ...]
    """What is active now and will be suppressed."""
    reissue: tuple[MemoryObjectRef, ...]
    """Targets that are suppressed already; their vectors are deleted once more."""
    warnings: tuple[LifecycleWarning, ...]

    @property
    def refs(self) -> tuple[MemoryObjectRef, ...]:
        """Everything whose derived state this forget concerns."""
        return tuple(sorted({*self.suppress, *self.reissue}))


def plan_forget(stores: Stores, draft: ForgetMemoryDraft) -> LifecycleMutationOutcome:
    """Return what `forget` would do now; nothing is written.

    Raises:
        LifecycleDraftInvalid, GraphExpansionRootNotFound: as `forget`. A cascade that is too large is listed.
    """
    draft.check()
    return _preview(draft, _plan(stores.graph, draft))


def forget(stores: Stores, draft: ForgetMemoryDraft) -> LifecycleMutationOutcome:
    """Suppress the targets and what the cascade reaches, all or nothing.

    Repeating a forget changes nothing and deletes the targets' vectors once more. There is no way back; a
    mistaken forget is answered by a new memory.

    Raises:
        LifecycleDraftInvalid: no target, blank rationale, or a target that cannot be forgotten.
        GraphExpansionRootNotFound: a target is not stored; nothing is written.
        CascadeTooLarge: more than 10,000 objects; nothing is written.
        StoreError: see `GraphWriter.apply`.
    """
    draft.check()
    ensure_writable(stores)
    with stores.graph.writing() as writer:
        plan = _plan(stores.graph, draft)
        if len(plan.suppress) > MAX_CASCADE:
            raise CascadeTooLarge(len(plan.suppress), MAX_CASCADE)
        if plan.suppress:
            token = writer.apply(_batch(stores, draft, plan))
            if token is not None:
                stores.owe(token, plan.suppress)
    report = derive(stores, plan.refs, replay=not plan.suppress)
    markers = maintenance_markers(report)
    maintenance = next((marker for marker in markers if marker.kind == "vector_maintenance"), None)
    return _preview(draft, plan).replace(
        vector_maintained_object_ids=report.deleted,
        vector_maintenance_failure=maintenance,
        stats_update_status=report.statistics,
        repair_needed=markers,
        pending=put_off(report, plan.refs),
    )


def _batch(stores: Stores, draft: ForgetMemoryDraft, plan: _Plan) -> WriteBatch:
    now, targets = stores.clock(), set(draft.targets)
    event = LifecycleEvent(
        id=new_id(),
        operation="forget",
        at=now,
        rationale=draft.rationale,
        requested_by=draft.requested_by,
        targets=tuple(sorted(targets)),
        suppresses=plan.suppress,
    )
    return WriteBatch(
        operation="forget",
        plan_digest=digest(draft),
        at=now,
        event=event,
        requires=tuple(("forget_target", ref) for ref in plan.suppress if ref in targets),
        touched=plan.suppress,
    )


def _preview(draft: ForgetMemoryDraft, plan: _Plan) -> LifecycleMutationOutcome:
    """What the forget comes to when every store does its part."""
    trace = LifecycleTrace(requested_targets=draft.targets) if draft.include_trace else None
    return LifecycleMutationOutcome(
        graph_mutated_object_ids=plan.suppress,
        vector_maintained_object_ids=plan.refs,
        stats_update_status=StatsUpdateStatus(updated_object_ids=plan.refs),
        trace=trace,
        diagnostics=LifecycleDiagnostics(warnings=plan.warnings),
    )


def _plan(graph: GraphStore, draft: ForgetMemoryDraft) -> _Plan:
    targets = read_all(graph, draft.targets)
    for ref in draft.targets:
        if ref not in targets:
            raise GraphExpansionRootNotFound(ref.object_type, ref.id)
    suppression, cascade = draft.lifecycle_policy.suppression, draft.cascade_policy
    direct: dict[MemoryObjectRef, Stored] = {}
    if suppression.suppress_target:
        direct = {
            ref: item for ref, item in targets.items() if ref.object_type is not ObjectType.MEMORY_THREAD
        }
    reached: dict[MemoryObjectRef, Stored] = {}
    episodes = _ids(draft.targets, ObjectType.EPISODE)
    observations = set(_ids(draft.targets, ObjectType.OBSERVATION))
    within = graph.observations_of(episodes) if episodes else ()
    if suppression.suppress_target and cascade.apply_to_observations:
        reached |= read_all(graph, refs_of(ObjectType.OBSERVATION, within))
    if suppression.suppress_derived_from_target and cascade.apply_to_derived_from_target:
        derived = graph.memories_from(episodes, observations | set(within))
        reached |= _current(read_all(graph, refs_of(ObjectType.DERIVED_MEMORY, derived)))
    if cascade.apply_to_thread_members:
        for thread_id in _ids(draft.targets, ObjectType.MEMORY_THREAD):
            members = refs_of(ObjectType.DERIVED_MEMORY, graph.members_of(thread_id))
            reached |= _current(read_all(graph, members))
    affected = {ref: item for ref, item in (reached | direct).items() if not item.suppressed}
    return _Plan(
        suppress=tuple(sorted(affected)),
        reissue=tuple(sorted(ref for ref, item in direct.items() if item.suppressed)),
        warnings=_warnings(affected, direct),
    )


def _warnings(
    affected: dict[MemoryObjectRef, Stored], direct: dict[MemoryObjectRef, Stored]
) -> tuple[LifecycleWarning, ...]:
    """A cascade that suppresses a replacement leaves its chain with nothing current."""
    replacements = tuple(
        ref.id
        for ref, item in affected.items()
        if ref not in direct and isinstance(item.object, DerivedMemory) and item.object.supersedes
    )
    if not replacements:
        return ()
    reason = LifecycleWarningReason.CASCADE_SUPPRESSES_CURRENT_REPLACEMENT
    return (LifecycleWarning(reason=reason, affected_memory_ids=replacements),)


def _current(stored: dict[MemoryObjectRef, Stored]) -> dict[MemoryObjectRef, Stored]:
    return {ref: item for ref, item in stored.items() if item.current}


def _ids(refs: Collection[MemoryObjectRef], object_type: ObjectType) -> list[MemoryId]:
    return [ref.id for ref in refs if ref.object_type is object_type]
