"""What correct and forget report."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from charactermemory.domain.lifecycle import References
from charactermemory.domain.model import Listed, Model
from charactermemory.domain.objects import IdSet
from charactermemory.domain.repair import VectorMaintenanceMarker
from charactermemory.ids import MemoryId
from charactermemory.remember.outcome import Outcome


class LifecycleWarningReason(StrEnum):
    """Why a lifecycle change deserves a second look."""

    CASCADE_SUPPRESSES_CURRENT_REPLACEMENT = "cascade-suppresses-current-replacement"


class LifecycleWarning(Model):
    """One warning and the memories it is about, sorted."""

    reason: LifecycleWarningReason
    affected_memory_ids: IdSet


class LifecycleDiagnostics(Model):
    """Warnings of a lifecycle change."""

    warnings: Annotated[tuple[LifecycleWarning, ...], Listed] = ()


class SupersededBy(Model):
    """One derived Supersedes link: who takes whose place."""

    superseded_id: MemoryId
    successor_id: MemoryId


class LifecycleTrace(Model):
    """What was asked for and what superseded what; only on request."""

    requested_targets: References = ()
    superseded_by: Annotated[tuple[SupersededBy, ...], Listed] = ()


class LifecycleMutationOutcome(Outcome):
    """What a correction or forget changed. A retry that finds its work done lists nothing as mutated."""

    graph_mutated_object_ids: References = ()
    graph_mutated_link_ids: References = ()
    vector_maintained_object_ids: References = ()
    vector_maintenance_failure: VectorMaintenanceMarker | None = None
    trace: LifecycleTrace | None = None
    diagnostics: LifecycleDiagnostics = LifecycleDiagnostics()
