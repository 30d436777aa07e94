"""Every error the memory raises, one tree under `CharacterMemoryError`.

Structure is authoritative: each error is a dataclass with typed fields and a stable `code`, the
message is made from them once, and all of them survive pickling (Celery results, process pools).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar
from uuid import UUID

from pydantic import BaseModel

from charactermemory.ids import MemoryObjectRef, ObjectType


@dataclass(eq=False)
class CharacterMemoryError(Exception):
    """Root of the tree. `code` is stable; `retryable` says whether the same call may later succeed."""

    code: ClassVar[str] = "character_memory_error"
    retryable: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__init__(self.describe())

    def describe(self) -> str:
        """Return the message; made from the fields alone."""
        return self.code

    def __str__(self) -> str:
        return self.describe()

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), {field.name: getattr(self, field.name) for field in fields(self)})


def _rebuild(cls: type[CharacterMemoryError], values: dict[str, Any]) -> CharacterMemoryError:
    return cls(**values)


# --- input ---------------------------------------------------------------------------------------


@dataclass(eq=False)
class InvalidInput(CharacterMemoryError):
    """A value does not fit its type; `problems` are (JSON pointer, what is wrong) pairs."""

    code: ClassVar[str] = "invalid_input"
    problems: tuple[tuple[str, str], ...]

    def describe(self) -> str:
        """Name every field and its problem."""
        return "invalid input: " + "; ".join(f"{where or '/'}: {what}" for where, what in self.problems)


@dataclass(eq=False)
class PlanTooLarge(CharacterMemoryError):
    """A plan brings more than one commit may hold (consistency.md R4)."""

    code: ClassVar[str] = "plan_too_large"
    what: str
    count: int
    limit: int

    def describe(self) -> str:
        """Name count and limit, and the way out."""
        return (
            f"the plan holds {self.count} {self.what}, one commit takes at most {self.limit}; "
            "split it into several plans"
        )


@dataclass(eq=False)
class CascadeTooLarge(CharacterMemoryError):
    """A correction or forget would change more objects than one operation may."""

    code: ClassVar[str] = "cascade_too_large"
    count: int
    limit: int

    def describe(self) -> str:
        """Name count and limit, and the way out."""
        return (
            f"the cascade would change {self.count} memories, one operation changes at most {self.limit}; "
            "the preview lists them, change them in smaller groups"
        )


# --- configuration -------------------------------------------------------------------------------


@dataclass(eq=False)
class ConfigParseError(CharacterMemoryError):
    """The configuration cannot be decoded at all."""

    code: ClassVar[str] = "config_parse"
    detail: str

    def describe(self) -> str:
        """Return the detail."""
        return f"configuration cannot be read: {self.detail}"


@dataclass(eq=False)
class ConfigValidationError(CharacterMemoryError):
    """One or more settings are wrong; see the three subclasses for the reason."""

    code: ClassVar[str] = "config_validation"
    keys: tuple[str, ...]


@dataclass(eq=False)
class MissingValue(ConfigValidationError):
    """A setting that is always needed is absent or empty."""

    code: ClassVar[str] = "config_missing_value"

    def describe(self) -> str:
        """Name the keys."""
        return f"{', '.join(self.keys)}: a value is required"


@dataclass(eq=False)
class MissingForMode(ConfigValidationError):
    """A setting that the chosen mode needs is absent or empty."""

    code: ClassVar[str] = "config_missing_for_mode"
    mode_key: str
    mode: str

    def describe(self) -> str:
        """Name the keys and the mode that needs them."""
        return f"{', '.join(self.keys)}: required when {self.mode_key}={self.mode}"


@dataclass(eq=False)
class OutOfDomain(ConfigValidationError):
    """A setting or context value lies outside what is allowed."""

    code: ClassVar[str] = "config_out_of_domain"
    expected: str
    actual: str

    def describe(self) -> str:
        """Name the keys, what is expected and what was given."""
        return f"{', '.join(self.keys)}: expected {self.expected}, got {self.actual}"


# --- domain --------------------------------------------------------------------------------------


@dataclass(eq=False)
class DomainValidationError(CharacterMemoryError):
    """An object or draft breaks a rule of the domain model (memory-core §3)."""

    code: ClassVar[str] = "domain_validation"


@dataclass(eq=False)
class EmptyEpisodeSummary(DomainValidationError):
    """A summary was given and is blank."""

    code: ClassVar[str] = "empty_episode_summary"

    def describe(self) -> str:
        """Say what to do."""
        return "the episode's summary is blank; leave it out or give it words"


@dataclass(eq=False)
class MissingEpisodeReference(DomainValidationError):
    """An observation names no episode."""

    code: ClassVar[str] = "missing_episode_reference"

    def describe(self) -> str:
        """Say what is missing."""
        return "the observation names no episode (episode_id)"


@dataclass(eq=False)
class MissingDerivedSource(DomainValidationError):
    """A derived memory has neither sources nor the given-by-application declaration."""

    code: ClassVar[str] = "missing_derived_source"

    def describe(self) -> str:
        """Say what to do."""
        return (
            "the derived memory has no source: name an episode or observation, "
            "or declare given_by_application"
        )


@dataclass(eq=False)
class BeliefValidationError(DomainValidationError):
    """Root of the belief rules (memory-core §3.6)."""

    code: ClassVar[str] = "invalid_belief"


@dataclass(eq=False)
class GivenWithSources(BeliefValidationError):
    """A given belief also names source experiences."""

    code: ClassVar[str] = "given_with_sources"

    def describe(self) -> str:
        """Say what conflicts."""
        return "given_by_application cannot stand beside source episodes or observations"


@dataclass(eq=False)
class GivenWithoutSubject(BeliefValidationError):
    """A given belief names no notion."""

    code: ClassVar[str] = "given_without_subject"

    def describe(self) -> str:
        """Say what is missing."""
        return "given_by_application needs at least one notion in entity_ids"


@dataclass(eq=False)
class AssertionSubjectNotInMemory(BeliefValidationError):
    """An assertion speaks of a notion that is no subject of the memory."""

    code: ClassVar[str] = "assertion_subject_not_in_memory"
    subject: UUID

    def describe(self) -> str:
        """Name the subject."""
        return f"the assertion's subject {self.subject} is not in entity_ids"


@dataclass(eq=False)
class EmptyAssertionName(BeliefValidationError):
    """A KnownAs name is empty after normalisation."""

    code: ClassVar[str] = "empty_assertion_name"
    subject: UUID

    def describe(self) -> str:
        """Name the subject."""
        return f"the name asserted of {self.subject} is blank"


@dataclass(eq=False)
class InvalidScore(DomainValidationError):
    """A score is not in 0.0..1.0."""

    code: ClassVar[str] = "invalid_score"
    field: str
    value: float

    def describe(self) -> str:
        """Name field and value."""
        return f"{self.field}: expected a number from 0.0 to 1.0, got {self.value!r}"


@dataclass(eq=False)
class InvalidSceneTimeOffset(DomainValidationError):
    """The offset of a scene's time has a part finer than a minute."""

    code: ClassVar[str] = "invalid_scene_time_offset"
    offset_seconds: float

    def describe(self) -> str:
        """Name the offset."""
        return f"the scene's UTC offset must be whole minutes, got {self.offset_seconds} seconds"


@dataclass(eq=False)
class AuthoredSupersedesLink(DomainValidationError):
    """A caller authored a supersedes link."""

    code: ClassVar[str] = "authored_supersedes_link"

    def describe(self) -> str:
        """Say what to do instead."""
        return "supersedes links are derived: name the predecessor in the memory's supersedes list"


@dataclass(eq=False)
class AuthoredBeliefAboutLink(DomainValidationError):
    """A caller authored an about link between a derived memory and a notion."""

    code: ClassVar[str] = "authored_belief_about_link"

    def describe(self) -> str:
        """Say what to do instead."""
        return "about links between a memory and a notion are derived: name the notion in the memory's entity_ids"


@dataclass(eq=False)
class UnsupportedMemoryLinkEndpoint(DomainValidationError):
    """A link ends at another link; `field` is MemoryLink.from_type or MemoryLink.to_type."""

    code: ClassVar[str] = "unsupported_memory_link_endpoint"
    field: str

    def describe(self) -> str:
        """Name the field."""
        return f"{self.field}: a link cannot start or end at a link"


@dataclass(eq=False)
class SelfLink(DomainValidationError):
    """An object is linked to, or supersedes, itself."""

    code: ClassVar[str] = "self_link"
    object_type: ObjectType
    object_id: UUID

    def describe(self) -> str:
        """Name the object."""
        return f"{self.object_type.value} {self.object_id} refers to itself"


@dataclass(eq=False)
class UnknownObjectRef(CharacterMemoryError):
    """Operations name objects that are not stored; all missing ones in one error."""

    code: ClassVar[str] = "unknown_object_ref"
    references: tuple[tuple[str, MemoryObjectRef], ...]

    def describe(self) -> str:
        """Name each role and reference."""
        return "unknown: " + ", ".join(f"{role} {ref}" for role, ref in self.references)


# --- writes --------------------------------------------------------------------------------------


@dataclass(eq=False)
class WritePlanValidationRejected(CharacterMemoryError):
    """The plan is invalid now; `validations` holds every row (`remember.plan.CandidateValidation`)."""

    code: ClassVar[str] = "write_plan_validation_rejected"
    validations: tuple[BaseModel, ...]

    def describe(self) -> str:
        """Join the messages of every error of every row."""
        texts = [
            f"candidate {getattr(row, 'candidate_index', '?')}: {issue.message}"
            for row in self.validations
            for issue in getattr(row, "errors", ())
        ]
        return "the plan was rejected, nothing was written: " + "; ".join(texts)


@dataclass(eq=False)
class DeterministicIdCollision(CharacterMemoryError):
    """An id is stored with another content, was forgotten since, or is planned twice."""

    code: ClassVar[str] = "deterministic_id_collision"
    object: MemoryObjectRef

    def describe(self) -> str:
        """Name the object."""
        return (
            f"{self.object} is stored, or planned twice, with another content or state; nothing was written"
        )


@dataclass(eq=False)
class DuplicatePosition(CharacterMemoryError):
    """Two observations of one episode claim one position."""

    code: ClassVar[str] = "duplicate_position"
    episode_id: UUID
    position: int

    def describe(self) -> str:
        """Name episode and position."""
        return f"episode {self.episode_id} already has an observation at position {self.position}"


@dataclass(eq=False)
class ReplacementIdentityConflict(CharacterMemoryError):
    """A replacement's id is taken; `reason` is duplicate_in_plan or divergent_existing."""

    code: ClassVar[str] = "replacement_identity_conflict"
    replacement_id: UUID
    reason: str

    def describe(self) -> str:
        """Name the id and the reason."""
        why = {
            "duplicate_in_plan": "two replacements of the draft have this id",
            "divergent_existing": "it is stored with another content or lineage, or was forgotten since",
        }
        return f"replacement {self.replacement_id}: {why.get(self.reason, self.reason)}; nothing was written"


@dataclass(eq=False)
class MissingOriginalSourceReference(CharacterMemoryError):
    """A source-object correction names no original reference."""

    code: ClassVar[str] = "missing_original_source_reference"
    target: MemoryObjectRef

    def describe(self) -> str:
        """Name the target and what to give."""
        return f"correcting {self.target} needs original_raw_ref or original_source_ref"


@dataclass(eq=False)
class OriginalSourceReferenceMismatch(CharacterMemoryError):
    """The original reference given (`kind` raw or source) is not the stored one."""

    code: ClassVar[str] = "original_source_reference_mismatch"
    target: MemoryObjectRef
    kind: str
    provided: str
    stored: str | None

    def describe(self) -> str:
        """Name target and kind; the references themselves are opaque and stay out."""
        return f"the {self.kind} reference given for {self.target} is not the stored one"


@dataclass(eq=False)
class GraphExpansionRootNotFound(CharacterMemoryError):
    """An object that an operation starts from is not stored."""

    code: ClassVar[str] = "object_not_found"
    object_type: ObjectType
    object_id: UUID

    def describe(self) -> str:
        """Name the object."""
        return f"{self.object_type.value} {self.object_id} is not stored"


@dataclass(eq=False)
class UnsupportedExpansionRoot(CharacterMemoryError):
    """Expansion was asked to start at a link."""

    code: ClassVar[str] = "unsupported_expansion_root"
    object: MemoryObjectRef

    def describe(self) -> str:
        """Name the object."""
        return f"expansion cannot start at {self.object}"


@dataclass(eq=False)
class UnsupportedSchemaVersion(CharacterMemoryError):
    """An object, record or marker has another schema version than this release writes."""

    code: ClassVar[str] = "unsupported_schema_version"
    context: str
    expected: str
    actual: str

    def describe(self) -> str:
        """Name where, and both versions."""
        return f"{self.context}: expected schema version {self.expected!r}, got {self.actual!r}"


@dataclass(eq=False)
class LifecycleDraftInvalid(CharacterMemoryError):
    """A correct or forget draft breaks a rule; `kind` says which."""

    code: ClassVar[str] = "lifecycle_draft_invalid"
    kind: str
    detail: str = ""
    belief: BeliefValidationError | None = None

    def describe(self) -> str:
        """Name the kind and the detail."""
        return f"{self.kind}: {self.detail or self.belief or 'the draft is invalid'}"


# --- stores --------------------------------------------------------------------------------------


@dataclass(eq=False)
class StoreError(CharacterMemoryError):
    """Root of what stores and their transports may raise."""

    code: ClassVar[str] = "store_error"


@dataclass(eq=False)
class StoreUnavailable(StoreError):
    """A store or its writer lock cannot be reached now; nothing was changed."""

    code: ClassVar[str] = "store_unavailable"
    retryable: ClassVar[bool] = True
    store: str
    detail: str

    def describe(self) -> str:
        """Name store and cause."""
        return f"{self.store} is unavailable: {self.detail}"


@dataclass(eq=False)
class CommitOutcomeUnknown(StoreUnavailable):
    """The graph endpoint stopped answering after a write was sent and before it could be settled.

    Replaying the same plan, correction or forget is safe and tells the outcome.
    """

    code: ClassVar[str] = "commit_outcome_unknown"


@dataclass(eq=False)
class StoreInUse(StoreUnavailable):
    """Another process holds the embedded store; `holder` says which."""

    code: ClassVar[str] = "store_in_use"
    path: str
    holder: str

    def describe(self) -> str:
        """Name the holder and the way out."""
        return (
            f"{self.store} at {self.path} is in use by {self.holder}; embedded stores serve one process, "
            "stop it or use service mode"
        )


@dataclass(eq=False)
class StoreForkedError(StoreError):
    """An embedded store opened before a fork was used in the child."""

    code: ClassVar[str] = "store_forked"
    store: str
    owner_pid: int

    def describe(self) -> str:
        """Say what happened and what to do."""
        return (
            f"{self.store} was opened by process {self.owner_pid} before a fork; embedded stores do not survive "
            "one: open the memory in the process that uses it, or use service mode"
        )


@dataclass(eq=False)
class StoreClosedError(StoreError):
    """The handle was closed; open the memory again."""

    code: ClassVar[str] = "store_closed"
    store: str

    def describe(self) -> str:
        """Name the store."""
        return f"{self.store}: owner unavailable, the handle is closed"


@dataclass(eq=False)
class NotAStore(StoreError):
    """A folder that holds something else was named as a store."""

    code: ClassVar[str] = "not_a_store"
    path: str
    expected: str
    found: str

    def describe(self) -> str:
        """Name the folder, what was expected and found."""
        return f"{self.path} is not a {self.expected} store ({self.found}); name an empty or new folder"


@dataclass(eq=False)
class DatabaseError(StoreError):
    """The graph engine or endpoint refused or failed."""

    code: ClassVar[str] = "graph_database"
    detail: str

    def describe(self) -> str:
        """Return the detail."""
        return f"graph store: {self.detail}"


@dataclass(eq=False)
class GraphQueryError(StoreError):
    """Stored triples cannot be read as memory; `kind` is selection or hydration."""

    code: ClassVar[str] = "graph_query"
    kind: str
    detail: str

    def describe(self) -> str:
        """Name kind and detail."""
        return f"graph {self.kind}: {self.detail}"


@dataclass(eq=False)
class StoredConflict(StoreError):
    """One id is stored with two digests; `memory_verify` lists both."""

    code: ClassVar[str] = "stored_conflict"
    object: MemoryObjectRef
    digests: tuple[str, ...]

    def describe(self) -> str:
        """Name the object and its digests."""
        return f"{self.object} is stored with several contents: {', '.join(self.digests)}"


@dataclass(eq=False)
class GraphWentBack(StoreError):
    """The graph ends before a commit that its writers or a derived store saw (restored copy, power cut)."""

    code: ClassVar[str] = "graph_went_back"
    retryable: ClassVar[bool] = True
    collection: str
    head: int
    high: int

    def describe(self) -> str:
        """Name both numbers and the remedy."""
        return (
            f"collection {self.collection}: the graph ends at commit {self.head}, but commit {self.high} was "
            "seen of it (a restored copy, a power cut); it can be read, and written again after a sweep or "
            "memory_verify --repair"
        )


@dataclass(eq=False)
class CollectionIncompatible(StoreError):
    """An existing index does not fit; `mismatch` says in what."""

    code: ClassVar[str] = "collection_incompatible"
    collection: str
    mismatch: str
    expected: str
    actual: str

    def describe(self) -> str:
        """Name both values and the rebuild command."""
        return (
            f"collection {self.collection}: {self.mismatch}: expected {self.expected}, the index has "
            f"{self.actual}; rebuild it with: manage.py memory_rebuild_vectors --collection {self.collection}"
        )


@dataclass(eq=False)
class VectorDatabaseError(StoreError):
    """The vector engine or service failed; `kind` says how."""

    code: ClassVar[str] = "vector_database"
    backend: str
    kind: str
    message: str
    status: str | None = None
    retry_after_seconds: float | None = None

    def describe(self) -> str:
        """Name backend, kind and message."""
        return f"{self.backend} vector store: {self.kind}: {self.message}"


@dataclass(eq=False)
class EmbeddingError(StoreError):
    """An embedding could not be made; `kind` says why, `details` its typed values.

    `retry_after_seconds` is how long the provider asks to be left alone, where it does.
    """

    code: ClassVar[str] = "embedding"
    kind: str
    detail: str = ""
    details: tuple[tuple[str, Any], ...] = ()
    retry_after_seconds: float | None = None

    def describe(self) -> str:
        """Name kind, values and detail; never the text that was to be embedded."""
        values = ", ".join(f"{name}={value}" for name, value in self.details)
        return "embedding: " + " ".join(part for part in (self.kind, values, self.detail) if part)


@dataclass(eq=False)
class RetrievalStatsStoreError(StoreError):
    """The statistics store failed; kinds negative_counter, sqlite, filesystem, database."""

    code: ClassVar[str] = "retrieval_stats_store"
    kind: str
    detail: str

    def describe(self) -> str:
        """Name kind and detail."""
        return f"statistics store: {self.kind}: {self.detail}"


# --- history -------------------------------------------------------------------------------------


@dataclass(eq=False)
class HistoryError(CharacterMemoryError):
    """Root of what the chat window raises (spec/history.md §12)."""

    code: ClassVar[str] = "history"


@dataclass(eq=False)
class ValidationError(HistoryError, ValueError):
    """An argument of the chat window is wrong; `field` names it. Nothing was written."""

    code: ClassVar[str] = "history_validation"
    field: str
    problem: str

    def describe(self) -> str:
        """Name the field and its problem."""
        return f"{self.field}: {self.problem}"


@dataclass(eq=False)
class MessageIdTaken(ValidationError):
    """The thread already has a message of that id."""

    code: ClassVar[str] = "history_message_id_taken"


@dataclass(eq=False)
class ThreadNotFoundError(HistoryError):
    """No thread of that id is stored for this owner."""

    code: ClassVar[str] = "history_thread_not_found"
    thread_id: str

    def describe(self) -> str:
        """Name the thread and the way out."""
        return (
            f"thread {self.thread_id!r} is not stored; create it with create_thread or get_or_create_thread"
        )


@dataclass(eq=False)
class StorageError(HistoryError):
    """The message store failed; the cause is chained."""

    code: ClassVar[str] = "history_storage"
    storage: str
    detail: str

    def describe(self) -> str:
        """Name the store and the cause."""
        return f"{self.storage}: {self.detail}"


@dataclass(eq=False)
class ConfigurationError(HistoryError):
    """The chat window or its client wrapper was put together wrongly."""

    code: ClassVar[str] = "history_configuration"
    detail: str

    def describe(self) -> str:
        """Return the detail."""
        return self.detail


@dataclass(eq=False)
class AlgorithmError(HistoryError):
    """A window algorithm raised, or returned what is no window; `algorithm` is its class name."""

    code: ClassVar[str] = "history_algorithm"
    algorithm: str
    problem: str

    def describe(self) -> str:
        """Name the algorithm and the problem."""
        return f"{self.algorithm}: {self.problem}"
