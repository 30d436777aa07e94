"""What a write could not derive, and why: causes and repair markers (memory-core §7.1, decisions R5).

Ids only; a cause's detail never holds input text and is cut at 500 characters.
"""

from __future__ import annotations

from enum import StrEnum
from math import inf
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


Fault = Literal["outage", "permanent", "unclear"]
"""Whose fault a failure is: nobody's (the store or provider cannot be used now), the object's or the
configuration's (the same call fails for ever), or it cannot be told."""

_OUTAGE_STATUSES = frozenset(
    {
        "401", "403", "408", "409", "425", "429",
        "aborted", "cancelled", "deadline_exceeded", "internal", "permission_denied", "resource_exhausted",
        "unauthenticated", "unavailable",
    }
)  # fmt: skip
"""HTTP statuses and gRPC codes that say nothing about the object; a bad credential holds up all alike."""
_PERMANENT_STATUSES = frozenset({"400", "404", "413", "422", "invalid_argument", "out_of_range"})
"""Too long, refused, or an unknown model: the same request is refused again (field reports C15)."""
_FAULT_OF_KIND: dict[str, Fault] = {
    "transport": "outage",
    "missing_api_key": "outage",
    "http": "outage",
    "http_connect": "outage",
    "http_timeout": "outage",
    "io": "outage",
    "resource_exhausted": "outage",
    "database": "outage",
    "sqlite": "outage",
    "filesystem": "outage",
    "blank_input": "permanent",
    "conversion": "permanent",
    "dimension_mismatch": "permanent",
    "hydration": "permanent",
    "invalid_vector_size": "permanent",
}
_FAULT_OF_CODE: dict[str, Fault] = {
    "store_unavailable": "outage",
    "store_in_use": "outage",
    "commit_outcome_unknown": "outage",
    "graph_database": "outage",
    "collection_incompatible": "permanent",
    "stored_conflict": "permanent",
    "unsupported_schema_version": "permanent",
}


class Cause(Model):
    """Why a derived write failed.

    `code` is that of the error raised, if one was, `kind` the kind within it where the error has kinds,
    `status` what a server answered, `retry_after_seconds` how long it asked to be left alone.
    """

    cause: CauseKind
    code: str | None = None
    kind: str | None = None
    status: str | None = None
    retry_after_seconds: Annotated[float, Field(ge=0)] | None = None
    detail: str = ""
    object: MemoryObjectRef | None = None
    expected: int | None = None
    actual: int | None = None

    @classmethod
    def of(cls, kind: CauseKind, error: BaseException) -> Cause:
        """Make the cause of an error, cut to the limit."""
        status = getattr(error, "status", None) or dict(getattr(error, "details", ())).get("status")
        return cls(
            cause=kind,
            code=getattr(error, "code", None),
            kind=getattr(error, "kind", None),
            status=None if status is None else str(status),
            retry_after_seconds=_wait(getattr(error, "retry_after_seconds", None)),
            detail=str(error)[:DETAIL_LIMIT],
        )

    @property
    def fault(self) -> Fault:
        """Whose fault it is; read from the typed fields, never from the text."""
        if self.cause == "zero_norm_embedding":
            return "permanent"
        if self.status is not None:
            if self.status in _PERMANENT_STATUSES:
                return "permanent"
            if self.status in _OUTAGE_STATUSES or (self.status.isdigit() and int(self.status) >= 500):
                return "outage"
        return _FAULT_OF_KIND.get(self.kind or "") or _FAULT_OF_CODE.get(self.code or "", "unclear")


def _wait(seconds: object) -> float | None:
    """Return a wait that a provider of the host's asks for; None for what is no time to wait."""
    wait = float(seconds) if isinstance(seconds, int | float) else -1.0
    return wait if 0 <= wait < inf else None


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
