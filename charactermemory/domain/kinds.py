"""The closed vocabularies of the domain (memory-core §2). Members are their wire tokens."""

from __future__ import annotations

from enum import StrEnum

SCHEMA_VERSION = "episodic_memory_initial"
"""The one schema version this release writes (memory-core §1.5)."""


class Modality(StrEnum):
    """How an experience came about."""

    CHAT = "chat"
    VOICE_TRANSCRIPT = "voice_transcript"


class DerivedType(StrEnum):
    """What kind of interpretation a derived memory is; decides its section in the pack."""

    REFLECTION = "reflection"
    USER_PREFERENCE = "user_preference"
    ASSISTANT_PREFERENCE = "assistant_preference"
    COMMITMENT = "commitment"
    OPEN_LOOP = "open_loop"
    CHARACTER_SIGNAL = "character_signal"
    RELATIONSHIP_NOTE = "relationship_note"
    PROJECT_NOTE = "project_note"
    CLAIM = "claim"
    CORRECTION = "correction"


class RelationType(StrEnum):
    """How two objects are connected; declaration order is the stable rank 0..13."""

    HAS_OBSERVATION = "has_observation"
    OBSERVED_IN = "observed_in"
    MENTIONS = "mentions"
    INVOLVES = "involves"
    ABOUT = "about"
    DERIVED_FROM = "derived_from"
    PART_OF_THREAD = "part_of_thread"
    SUPPORTS = "supports"
    CONTRADICTS = "contradicts"
    SUPERSEDES = "supersedes"
    RESOLVES = "resolves"
    CREATES_OPEN_LOOP = "creates_open_loop"
    FULFILLS_COMMITMENT = "fulfills_commitment"
    ASSOCIATED_WITH = "associated_with"

    rank: int
    """Stable rank used in every ordering."""


for _rank, _member in enumerate(RelationType):
    _member.rank = _rank


class RetentionState(StrEnum):
    """Whether a memory has influence; suppressed is what forgetting leads to."""

    ACTIVE = "active"
    SUPPRESSED = "suppressed"


class ThreadStatus(StrEnum):
    """Where a thread stands; only active ones stand in the pack."""

    ACTIVE = "active"
    DORMANT = "dormant"
    RESOLVED = "resolved"
