"""The memory of an AI companion: what happened, with whom, when and where; corrected and forgotten as history.

Everything a host needs is importable from here. Importing it loads no store engine and no SDK.
"""

from charactermemory.config import Settings
from charactermemory.domain.beliefs import BeliefAssertion
from charactermemory.domain.kinds import (
    SCHEMA_VERSION,
    DerivedType,
    Modality,
    RelationType,
    RetentionState,
    ThreadStatus,
)
from charactermemory.domain.lifecycle import LifecyclePolicy, Stored
from charactermemory.domain.objects import (
    DerivedMemory,
    Entity,
    Episode,
    MemoryLink,
    MemoryObject,
    MemoryThread,
    Observation,
)
from charactermemory.domain.provenance import (
    CandidateProvenance,
    ExternalSourceReference,
    SourceProvenanceReference,
    SourceSpan,
)
from charactermemory.domain.repair import RepairMarker
from charactermemory.domain.scene import Participant, Scene, Setting, describe
from charactermemory.errors import CharacterMemoryError
from charactermemory.ids import MemoryId, MemoryObjectRef, ObjectType, derive_id, new_id
from charactermemory.memory import CharacterMemory, RememberOptions
from charactermemory.recall.context import RetrievalContext
from charactermemory.recall.outcome import RetrievalOutcome
from charactermemory.remember.drafts import (
    DerivedMemoryDraft,
    EntityDraft,
    EpisodeDraft,
    MemoryLinkDraft,
    MemoryThreadDraft,
    ObservationDraft,
)
from charactermemory.remember.outcome import CommitOptions, LinkOutcome, RememberOutcome
from charactermemory.remember.plan import (
    CandidateValidation,
    CandidateValidationStatus,
    RememberWritePlan,
    candidate,
)
from charactermemory.remember.prepare import PrepareOptions, RememberInput, RememberPlanDefaults
from charactermemory.revise.drafts import (
    CorrectionTarget,
    CorrectMemoryDraft,
    ForgetMemoryDraft,
    ReplacementDerivedMemoryDraft,
)
from charactermemory.revise.outcome import LifecycleMutationOutcome

__version__ = "0.1.0"

__all__ = [
    "SCHEMA_VERSION",
    "BeliefAssertion",
    "CandidateProvenance",
    "CandidateValidation",
    "CandidateValidationStatus",
    "CharacterMemory",
    "CharacterMemoryError",
    "CommitOptions",
    "CorrectMemoryDraft",
    "CorrectionTarget",
    "DerivedMemory",
    "DerivedMemoryDraft",
    "DerivedType",
    "Entity",
    "EntityDraft",
    "Episode",
    "EpisodeDraft",
    "ExternalSourceReference",
    "ForgetMemoryDraft",
    "LifecycleMutationOutcome",
    "LifecyclePolicy",
    "LinkOutcome",
    "MemoryId",
    "MemoryLink",
    "MemoryLinkDraft",
    "MemoryObject",
    "MemoryObjectRef",
    "MemoryThread",
    "MemoryThreadDraft",
    "Modality",
    "ObjectType",
    "Observation",
    "ObservationDraft",
    "Participant",
    "PrepareOptions",
    "RelationType",
    "RememberInput",
    "RememberOptions",
    "RememberOutcome",
    "RememberPlanDefaults",
    "RememberWritePlan",
    "RepairMarker",
    "ReplacementDerivedMemoryDraft",
    "RetentionState",
    "RetrievalContext",
    "RetrievalOutcome",
    "Scene",
    "Setting",
    "Settings",
    "SourceProvenanceReference",
    "SourceSpan",
    "Stored",
    "ThreadStatus",
    "candidate",
    "derive_id",
    "describe",
    "new_id",
]
