"""Commit: store a valid plan whole, then derive from it (memory-core §7, consistency.md R4-R5)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from charactermemory.domain.counted import counted
from charactermemory.domain.lifecycle import derived_links
from charactermemory.domain.objects import DerivedMemory, MemoryLink, MemoryObject
from charactermemory.domain.repair import RepairMarker, StatsUpdateMarker, VectorIndexMarker
from charactermemory.errors import InvalidInput, WritePlanValidationRejected
from charactermemory.ids import MemoryObjectRef, ObjectType
from charactermemory.ports.graph import WriteBatch
from charactermemory.ports.stores import Stores
from charactermemory.remember.outcome import CommitOptions, RememberOutcome, indexing_markers, put_off
from charactermemory.remember.plan import (
    PLAN_BYTES,
    CandidateValidation,
    DiagnosticCode,
    DiagnosticMessage,
    RememberDiagnostics,
    RememberWritePlan,
    warning_messages,
)
from charactermemory.remember.validate import judge, references_of
from charactermemory.upkeep.derive import DeriveReport, derive
from charactermemory.upkeep.surfaces import INDEXED_TYPES
from charactermemory.upkeep.verify import ensure_writable


def commit(stores: Stores, plan: RememberWritePlan, options: CommitOptions) -> RememberOutcome:
    """Revalidate the plan against the graph as it is now, store it in one write, and derive from it.

    Critical: objects, links, provenance, lifecycle; they are stored whole or not at all. Repairable: vectors
    and statistics; their failures are reported in the outcome.

    Raises:
        WritePlanValidationRejected: a candidate is invalid now; holds every row.
        DeterministicIdCollision: an id is stored with another content, was forgotten since, or is planned twice.
        InvalidInput: the plan's JSON is larger than 16 MiB.
        PlanTooLarge, UnsupportedSchemaVersion, DuplicatePosition, StoreError: see `GraphWriter.apply`.
    """
    ensure_writable(stores)
    wire = plan.to_json().encode()
    if len(wire) > PLAN_BYTES:
        raise InvalidInput((("/candidates", f"a plan's JSON may hold {PLAN_BYTES} bytes; split it"),))
    judgement = judge(plan, stores.graph)
    rows = judgement.rows
    if not judgement.valid:
        raise WritePlanValidationRejected(rows)
    objects, authored, derived = sorted_out(judgement.objects)
    links = (*authored, *derived)
    if not objects and not links:
        return RememberOutcome(diagnostics=_diagnostics(plan, rows, ()))
    batch = WriteBatch(
        operation="commit",
        plan_digest=hashlib.sha256(wire).hexdigest(),
        at=stores.clock(),
        objects=(*objects, *links),
        requires=tuple(required(objects + authored)),
        touched=tuple(touched(objects, authored)),
    )
    refs = (*(item.ref for item in batch.objects), *batch.touched)
    with stores.graph.writing() as writer:
        token = writer.apply(batch)
        if token is not None:
            stores.owe(token, refs)
    report = derive(
        stores,
        refs,
        known={item.ref: item for item in objects if item.ref in writer.added},
        vectors=options.update_vectors,
        statistics=options.update_stats,
        replay=token is None,
    )
    return _outcome(plan, rows, objects, links, report, pending(refs, options, report))


def sorted_out(
    items: tuple[MemoryObject, ...],
) -> tuple[tuple[MemoryObject, ...], tuple[MemoryLink, ...], tuple[MemoryLink, ...]]:
    """Return a plan's objects, its authored links, and the links that follow from its memories."""
    objects = tuple(item for item in items if not isinstance(item, MemoryLink))
    authored = tuple(item for item in items if isinstance(item, MemoryLink))
    derived = tuple(
        link for item in objects if isinstance(item, DerivedMemory) for link in derived_links(item)
    )
    return objects, authored, derived


def required(items: tuple[MemoryObject, ...]) -> Iterator[tuple[str, MemoryObjectRef]]:
    """Yield what must be stored, or in the same batch, for these objects to be sound."""
    for item in items:
        yield from references_of(item)


def touched(objects: tuple[MemoryObject, ...], authored: tuple[MemoryLink, ...]) -> Iterator[MemoryObjectRef]:
    """Yield the stored objects whose derived state these writes change, each once.

    Predecessors leave the index; the ends of an authored link may gain a statistics edge.
    """
    written = {item.ref for item in objects}
    found: dict[MemoryObjectRef, None] = {}
    for item in objects:
        if isinstance(item, DerivedMemory):
            for old in item.supersedes:
                found[MemoryObjectRef.of(ObjectType.DERIVED_MEMORY, old)] = None
    for link in authored:
        found[link.source] = None
        found[link.target] = None
    yield from (ref for ref in found if ref not in written)


def pending(
    refs: tuple[MemoryObjectRef, ...], options: CommitOptions, report: DeriveReport
) -> tuple[MemoryObjectRef, ...]:
    """Return those of a commit's references whose derived state was left for later."""
    if left := put_off(report, refs):
        return left
    return () if options.update_vectors else tuple(ref for ref in refs if ref.object_type in INDEXED_TYPES)


def _outcome(
    plan: RememberWritePlan,
    rows: tuple[CandidateValidation, ...],
    objects: tuple[MemoryObject, ...],
    links: tuple[MemoryLink, ...],
    report: DeriveReport,
    left: tuple[MemoryObjectRef, ...],
) -> RememberOutcome:
    markers = indexing_markers(report)
    written = {item.ref for item in objects}
    unindexed = next((marker for marker in markers if isinstance(marker, VectorIndexMarker)), None)
    return RememberOutcome(
        persisted_object_ids=tuple(item.ref for item in objects),
        persisted_link_ids=tuple(link.ref for link in links),
        vector_indexed_object_ids=tuple(ref for ref in report.indexed if ref in written),
        vector_indexing_failure=unindexed,
        stats_update_status=report.statistics,
        repair_needed=markers,
        pending=left,
        diagnostics=_diagnostics(plan, rows, markers),
    )


def _diagnostics(
    plan: RememberWritePlan,
    rows: tuple[CandidateValidation, ...],
    markers: tuple[RepairMarker, ...],
) -> RememberDiagnostics:
    """Merge the plan's own messages with this run's warnings and failures."""
    kept = tuple(
        message
        for message in plan.diagnostics.messages
        if message.code is not DiagnosticCode.WRITE_PLAN_VALIDATION_WARNING
    )
    return RememberDiagnostics(
        validations=tuple(row for row in rows if row.warnings),
        messages=(*kept, *warning_messages(rows), *_failure_messages(markers)),
        repair_needed=markers,
    )


def _failure_messages(markers: tuple[RepairMarker, ...]) -> Iterator[DiagnosticMessage]:
    for marker in markers:
        if isinstance(marker, VectorIndexMarker):
            text = f"{counted(len(marker.objects), 'object')} stored and not indexed: {marker.cause.cause}"
            yield DiagnosticMessage(code=DiagnosticCode.VECTOR_INDEXING_FAILED, text=text)
        elif isinstance(marker, StatsUpdateMarker):
            causes = ", ".join(cause.cause for cause in marker.causes)
            text = f"the statistics of {counted(len(marker.objects), 'object')} are not up to date: {causes}"
            yield DiagnosticMessage(code=DiagnosticCode.STATS_UPDATE_FAILED, text=text)
