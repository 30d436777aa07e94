"""The write plan: candidates with their provenance, and what validation says of each (memory-core §4.5, §6).

Plans are values: callers keep them as JSON and replay them exactly. Candidates are no memory until a
commit of the plan succeeded.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property
from typing import Annotated, Generic, Literal, TypeVar

from pydantic import Field

from charactermemory.domain.kinds import RelationType
from charactermemory.domain.lifecycle import References
from charactermemory.domain.model import Listed, Model
from charactermemory.domain.provenance import CandidateProvenance, ExternalSourceReference
from charactermemory.domain.repair import RepairMarkers
from charactermemory.ids import MemoryObjectRef
from charactermemory.remember.drafts import (
    DerivedMemoryDraft,
    EntityDraft,
    EpisodeDraft,
    MemoryLinkDraft,
    MemoryThreadDraft,
    ObservationDraft,
)
from charactermemory.remember.issues import Issues

D = TypeVar("D")

PLAN_BYTES = 16 * 1024 * 1024
"""Greatest size of a plan's JSON (decisions R1)."""


class Planned(Model, Generic[D]):
    """A draft and where it comes from."""

    draft: D
    provenance: CandidateProvenance


class EpisodeCandidate(Model):
    """An episode to store."""

    candidate_type: Literal["episode"] = "episode"
    candidate: Planned[EpisodeDraft]


class ObservationCandidate(Model):
    """An observation to store."""

    candidate_type: Literal["observation"] = "observation"
    candidate: Planned[ObservationDraft]


class EntityCandidate(Model):
    """A notion to store."""

    candidate_type: Literal["entity"] = "entity"
    candidate: Planned[EntityDraft]


class MemoryThreadCandidate(Model):
    """A thread to store."""

    candidate_type: Literal["memory_thread"] = "memory_thread"
    candidate: Planned[MemoryThreadDraft]


class DerivedMemoryCandidate(Model):
    """A derived memory to store."""

    candidate_type: Literal["derived_memory"] = "derived_memory"
    candidate: Planned[DerivedMemoryDraft]


class MemoryLinkCandidate(Model):
    """A link to store."""

    candidate_type: Literal["memory_link"] = "memory_link"
    candidate: Planned[MemoryLinkDraft]


class VectorIndexRequest(Model):
    """Shows that an object will be indexed; indexing itself does not depend on it."""

    target: MemoryObjectRef
    provenance: CandidateProvenance


class VectorIndexCandidate(Model):
    """An index write that will happen."""

    candidate_type: Literal["vector_index"] = "vector_index"
    candidate: VectorIndexRequest


class StatsUpdateRequest(Model):
    """Shows that statistics will be updated; the update itself does not depend on it."""

    subject: MemoryObjectRef
    relation: RelationType | None = None
    object: MemoryObjectRef | None = None
    provenance: CandidateProvenance


class StatsUpdateCandidate(Model):
    """A statistics write that will happen."""

    candidate_type: Literal["stats_update"] = "stats_update"
    candidate: StatsUpdateRequest


ObjectCandidate = (
    EpisodeCandidate
    | ObservationCandidate
    | EntityCandidate
    | MemoryThreadCandidate
    | DerivedMemoryCandidate
    | MemoryLinkCandidate
)
"""The candidates that become stored objects."""

MemoryCandidate = Annotated[
    ObjectCandidate | VectorIndexCandidate | StatsUpdateCandidate, Field(discriminator="candidate_type")
]


class CandidateValidationStatus(StrEnum):
    """Invalid if and only if there are errors."""

    VALID = "valid"
    INVALID = "invalid"


class CandidateValidation(Model):
    """The verdict on one candidate; rows stand in plan order."""

    candidate_index: int
    candidate_kind: str
    status: CandidateValidationStatus
    errors: Issues = ()
    warnings: Issues = ()


Validations = Annotated[tuple[CandidateValidation, ...], Listed]


class DiagnosticCode(StrEnum):
    """What a diagnostic message is about."""

    WRITE_PLAN_VALIDATION_WARNING = "write_plan_validation_warning"
    VECTOR_INDEXING_FAILED = "vector_indexing_failed"
    STATS_UPDATE_FAILED = "stats_update_failed"
    PREPARED = "prepared"


class DiagnosticMessage(Model):
    """One line for people; nothing reads it."""

    code: DiagnosticCode
    severity: Literal["info", "warning", "error"] = "warning"
    text: str


class RememberDiagnostics(Model):
    """Warnings of validation, messages for people, and what needs repair."""

    validations: Validations = ()
    messages: Annotated[tuple[DiagnosticMessage, ...], Listed] = ()
    repair_needed: RepairMarkers = ()


def warning_messages(rows: tuple[CandidateValidation, ...]) -> tuple[DiagnosticMessage, ...]:
    """Make one message for each warning of `rows`."""
    return tuple(
        DiagnosticMessage(code=DiagnosticCode.WRITE_PLAN_VALIDATION_WARNING, text=issue.message)
        for row in rows
        for issue in row.warnings
    )


class RememberWritePlan(Model):
    """Everything one commit is to store; inspectable, kept as JSON, replayed exactly."""

    source_input_ref: ExternalSourceReference | None = None
    candidates: Annotated[tuple[MemoryCandidate, ...], Listed] = ()
    validations: Validations = ()
    diagnostics: RememberDiagnostics = RememberDiagnostics()

    @classmethod
    def new(cls) -> RememberWritePlan:
        """An empty plan."""
        return cls()

    def with_candidates(self, *candidates: MemoryCandidate) -> RememberWritePlan:
        """Return a copy with `candidates` appended."""
        return self.replace(candidates=(*self.candidates, *candidates))

    @cached_property
    def object_candidates(self) -> tuple[tuple[int, ObjectCandidate], ...]:
        """The candidates that become stored objects, with their places in the plan."""
        return tuple(
            (index, item)
            for index, item in enumerate(self.candidates)
            if not isinstance(item, VectorIndexCandidate | StatsUpdateCandidate)
        )

    @property
    def refs(self) -> References:
        """The typed references of all object candidates that have an id."""
        return tuple(
            ref for _, item in self.object_candidates if (ref := item.candidate.draft.ref) is not None
        )


def candidate(draft: object, provenance: CandidateProvenance) -> ObjectCandidate:
    """Wrap a draft as the candidate of its kind."""
    match draft:
        case EpisodeDraft():
            return EpisodeCandidate(candidate=Planned[EpisodeDraft](draft=draft, provenance=provenance))
        case ObservationDraft():
            return ObservationCandidate(
                candidate=Planned[ObservationDraft](draft=draft, provenance=provenance)
            )
        case EntityDraft():
            return EntityCandidate(candidate=Planned[EntityDraft](draft=draft, provenance=provenance))
        case MemoryThreadDraft():
            return MemoryThreadCandidate(
                candidate=Planned[MemoryThreadDraft](draft=draft, provenance=provenance)
            )
        case DerivedMemoryDraft():
            return DerivedMemoryCandidate(
                candidate=Planned[DerivedMemoryDraft](draft=draft, provenance=provenance)
            )
        case MemoryLinkDraft():
            return MemoryLinkCandidate(candidate=Planned[MemoryLinkDraft](draft=draft, provenance=provenance))
    raise TypeError(f"not a draft: {type(draft).__name__}")
