"""Correct: append beliefs that supersede wrong ones; nothing stored is rewritten (memory-core §9)."""

from __future__ import annotations

from charactermemory.domain.digest import digest
from charactermemory.domain.kinds import RelationType
from charactermemory.domain.lifecycle import LifecycleEvent
from charactermemory.domain.repair import StatsUpdateStatus
from charactermemory.errors import CascadeTooLarge
from charactermemory.ids import new_id
from charactermemory.ports.graph import MAX_OBJECTS, WriteBatch
from charactermemory.ports.stores import Stores
from charactermemory.remember.outcome import maintenance_markers, put_off
from charactermemory.revise.correction import CorrectionPlan, plan
from charactermemory.revise.drafts import CorrectMemoryDraft
from charactermemory.revise.outcome import LifecycleMutationOutcome, LifecycleTrace, SupersededBy
from charactermemory.upkeep.derive import derive
from charactermemory.upkeep.verify import ensure_writable


def plan_correction(stores: Stores, draft: CorrectMemoryDraft) -> LifecycleMutationOutcome:
    """Return what `correct` would do now; nothing is written.

    Raises:
        The errors of `correct`, but for a cascade that is too large, which is listed.
    """
    draft.check()
    return _preview(draft, plan(stores.graph, draft, stores.clock()))


def correct(stores: Stores, draft: CorrectMemoryDraft) -> LifecycleMutationOutcome:
    """Store the replacements with their Supersedes and About links, in one write.

    An identical retry writes nothing to the graph and repairs vectors and statistics.

    Raises:
        LifecycleDraftInvalid: the draft is unsound, before or after grounding; nothing is written.
        InvalidScore: a replacement's salience is not in 0.0..1.0; nothing is written.
        GraphExpansionRootNotFound: a target, subject or predecessor is not stored; nothing is written.
        MissingOriginalSourceReference, OriginalSourceReferenceMismatch: a source target is not named rightly.
        ReplacementIdentityConflict: a replacement's id is taken; nothing is written.
        CascadeTooLarge: more memories would be superseded than one write holds links for; nothing is written.
        StoreError: see `GraphWriter.apply`.
    """
    draft.check()
    ensure_writable(stores)
    with stores.graph.writing() as writer:
        planned = plan(stores.graph, draft, stores.clock())
        _refuse_too_large(planned)
        if planned.new:
            token = writer.apply(_batch(draft, planned))
            if token is not None:
                stores.owe(token, planned.refs)
    report = derive(stores, planned.refs, replay=not planned.new)
    markers = maintenance_markers(report)
    maintenance = next((marker for marker in markers if marker.kind == "vector_maintenance"), None)
    return _preview(draft, planned).replace(
        vector_maintained_object_ids=tuple(sorted({*report.indexed, *report.deleted})),
        vector_maintenance_failure=maintenance,
        stats_update_status=report.statistics,
        repair_needed=markers,
        pending=put_off(report, planned.refs),
    )


def _refuse_too_large(planned: CorrectionPlan) -> None:
    """A correction writes a Supersedes link for each predecessor, and one write holds only so many objects."""
    objects = len(planned.new) + len(planned.links)
    if objects > MAX_OBJECTS:
        links = sum(len(memory.supersedes) for memory in planned.new)
        room = (MAX_OBJECTS - (objects - links)) // len(planned.new)
        raise CascadeTooLarge(len(planned.predecessors), max(room, 0))


def _batch(draft: CorrectMemoryDraft, planned: CorrectionPlan) -> WriteBatch:
    at = planned.new[0].created_at
    event = LifecycleEvent(
        id=new_id(),
        operation="correct",
        at=at,
        rationale=draft.rationale,
        requested_by=draft.requested_by,
        external_refs=draft.correction_origin.external_refs,
        targets=tuple(sorted({target.ref for target in draft.targets})),
    )
    return WriteBatch(
        operation="correct",
        plan_digest=digest(draft),
        at=at,
        objects=(*planned.new, *planned.links),
        event=event,
        requires=tuple(("superseded_memory", ref) for ref in planned.predecessors),
        touched=planned.predecessors,
    )


def _preview(draft: CorrectMemoryDraft, planned: CorrectionPlan) -> LifecycleMutationOutcome:
    """What the correction comes to when every store does its part."""
    trace = None
    if draft.include_trace:
        pairs = tuple(
            SupersededBy(superseded_id=link.to_id, successor_id=link.from_id)
            for link in planned.links
            if link.relation is RelationType.SUPERSEDES
        )
        requested = tuple(target.ref for target in draft.targets)
        trace = LifecycleTrace(requested_targets=requested, superseded_by=pairs)
    maintained = {*(memory.ref for memory in planned.replacements), *planned.predecessors}
    return LifecycleMutationOutcome(
        graph_mutated_object_ids=tuple(sorted(memory.ref for memory in planned.new)),
        graph_mutated_link_ids=tuple(sorted(link.ref for link in planned.links)),
        vector_maintained_object_ids=tuple(sorted(maintained)),
        stats_update_status=StatsUpdateStatus(updated_object_ids=tuple(sorted(set(planned.refs)))),
        trace=trace,
    )
