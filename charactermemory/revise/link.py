"""Link: relate two stored objects (memory-core §8, decisions R17)."""

from __future__ import annotations

from charactermemory.domain.digest import digest
from charactermemory.domain.objects import MemoryLink
from charactermemory.ids import MemoryObjectRef, ObjectType
from charactermemory.ports.graph import WriteBatch
from charactermemory.ports.stores import Stores
from charactermemory.remember.drafts import MemoryLinkDraft
from charactermemory.remember.outcome import LinkOutcome, maintenance_markers, put_off
from charactermemory.upkeep.derive import derive
from charactermemory.upkeep.verify import ensure_writable


def link(stores: Stores, draft: MemoryLinkDraft) -> LinkOutcome:
    """Store the link, or return the stored one when it is the same (a retry without `created_at` is).

    Raises:
        DomainValidationError: the draft is forbidden (authored supersedes, about between belief and notion,
            self link, a link as an end).
        UnknownObjectRef: ends that are not stored, all in one error; nothing is written.
        DeterministicIdCollision: the id is stored with another content.
        StoreError: see `GraphWriter.apply`.
    """
    made = draft.to_object(stores.clock())
    ensure_writable(stores)
    with stores.graph.writing() as writer:
        made = _adopt_creation_time(stores, draft, made)
        batch = WriteBatch(
            operation="link",
            plan_digest=digest(draft),
            at=stores.clock(),
            objects=(made,),
            requires=(("memory_link_from", made.source), ("memory_link_to", made.target)),
            touched=(made.source, made.target),
        )
        refs = (made.ref, *batch.touched)
        token = writer.apply(batch)
        if token is not None:
            stores.owe(token, refs)
    report = derive(stores, refs, replay=token is None)
    return LinkOutcome(
        link=made,
        stats_update_status=report.statistics,
        repair_needed=maintenance_markers(report),
        pending=put_off(report, refs),
    )


def _adopt_creation_time(stores: Stores, draft: MemoryLinkDraft, made: MemoryLink) -> MemoryLink:
    """A retry that names no time of its own is compared at the stored one."""
    if draft.id is None or draft.created_at is not None:
        return made
    ref = MemoryObjectRef.of(ObjectType.MEMORY_LINK, draft.id)
    stored = stores.graph.read([ref]).get(ref)
    return made.replace(created_at=stored.object.created_at) if stored else made
