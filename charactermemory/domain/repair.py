"""What a write could not derive, and why: causes and repair markers (memory-core §7.1, decisions R5).

Ids only; a cause's detail never holds input text and is cut at 500 characters.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from charactermemory.domain.lifecycle import References
from charactermemory.domain.model import Listed, Model
from charactermemory.ids import MemoryObjectRef

DETAIL_LIMIT = 500
"""Characters kept of a cause's detail (decisions R5)."""

CauseKind = Literal[
    "graph_query",
    "embedding",
    "cardinality_mismatch",
    "zero_norm_embedding",
    "vector_database",
    "graph_read",
    "stats_write",
    "store_unhealthy",
]


class Cause(Model):
    """Why a derived write failed.

    `code` is that of the error raised, if one was, `kind` the kind within it where the error has kinds.
    """

    cause: CauseKind
    code: str | None = None
    kind: str | None = None
    detail: str = ""
    object: MemoryObjectRef | None = None
    expected: int | None = None
    actual: int | None = None

    @classmethod
    def of(cls, kind: CauseKind, error: BaseException) -> Cause:
        """Make the cause of an error, cut to the limit."""
        return cls(
            cause=kind,
            code=getattr(error, "code", None),
            kind=getattr(error, "kind", None),
            detail=str(error)[:DETAIL_LIMIT],
        )


class VectorMaintenanceOperation(StrEnum):
    """What was tried on the index."""

    DELETE = "delete"
    UPSERT = "upsert"


class VectorMaintenanceItem(Model):
    """One failed index operation and its objects."""

    operation: VectorMaintenanceOperation
    objects: References
    cause: Cause


class VectorIndexMarker(Model):
    """Objects that are stored and not indexed."""

    kind: Literal["vector_index"] = "vector_index"
    objects: References
    cause: Cause


class VectorMaintenanceMarker(Model):
    """Index operations for superseded, suppressed or replaced objects that failed."""

    kind: Literal["vector_maintenance"] = "vector_maintenance"
    failures: Annotated[tuple[VectorMaintenanceItem, ...], Listed]

    @property
    def objects(self) -> tuple[MemoryObjectRef, ...]:
        """The distinct objects of all failures, in stable order."""
        return tuple(sorted({ref for failure in self.failures for ref in failure.objects}))


class StatsUpdateMarker(Model):
    """Objects whose statistics were not updated, or whose store is unhealthy."""

    kind: Literal["stats_update"] = "stats_update"
    objects: References
    causes: Annotated[tuple[Cause, ...], Listed]


RepairMarker = Annotated[
    VectorIndexMarker | VectorMaintenanceMarker | StatsUpdateMarker, Field(discriminator="kind")
]
"""What still has to be repaired; one reconcile of its objects does it."""
RepairMarkers = Annotated[tuple[RepairMarker, ...], Listed]


class StatsUpdateStatus(Model):
    """How the statistics step of a write went; `succeeded` without causes."""

    status: Literal["succeeded", "failed", "pending"] = "succeeded"
    updated_object_ids: References = ()
    failed_object_ids: References = ()
    causes: Annotated[tuple[Cause, ...], Listed] = ()
