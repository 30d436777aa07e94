"""Where a memory comes from: opaque source references, spans, and plan-time provenance (memory-core §4)."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import Field

from charactermemory.domain.model import Instant, Key, Listed, Model, Text
from charactermemory.domain.objects import IdSet

U32 = Annotated[int, Field(ge=0, le=2**32 - 1)]
Range = Annotated[tuple[U32, U32], Listed]


class SourceSpan(Model):
    """A place in a source that the caller manages; never resolved, never stored in the graph."""

    source_ref: Key | None = None
    raw_ref: Key | None = None
    message_id: Key | None = None
    transcript_segment_id: Key | None = None
    turn_range: Range | None = None
    char_range: Range | None = None
    byte_range: Range | None = None
    timestamp_range: Annotated[tuple[Instant, Instant], Listed] | None = None

    @classmethod
    def raw(cls, reference: str) -> Self:
        """A span named by a raw reference."""
        return cls(raw_ref=reference)

    @classmethod
    def source(cls, reference: str) -> Self:
        """A span named by a source reference."""
        return cls(source_ref=reference)

    def problem(self) -> str | None:
        """Return the first rule broken as its token (memory-core §4.2), None for a valid span."""
        for field in ("source_ref", "raw_ref", "message_id", "transcript_segment_id"):
            value: str | None = getattr(self, field)
            if value is not None and not value.strip():
                return f"empty_{field}"
        for field in ("turn_range", "char_range", "byte_range", "timestamp_range"):
            pair: tuple[Any, Any] | None = getattr(self, field)
            if pair is not None and pair[0] > pair[1]:
                return f"invalid_{field}"
        return None


class ExternalSourceReference(Model):
    """A reference into a system of the caller's."""

    source_ref: Key | None = None
    raw_ref: Key | None = None

    @classmethod
    def source(cls, reference: str) -> Self:
        """A reference to a source."""
        return cls(source_ref=reference)

    @classmethod
    def raw(cls, reference: str) -> Self:
        """A reference to raw material."""
        return cls(raw_ref=reference)

    @property
    def has_reference(self) -> bool:
        """Whether either reference is present and not blank."""
        return bool((self.source_ref or "").strip() or (self.raw_ref or "").strip())


class SourceProvenanceReference(Model):
    """Experiences and external references that something rests on."""

    episode_ids: IdSet = ()
    observation_ids: IdSet = ()
    external_refs: Annotated[tuple[ExternalSourceReference, ...], Listed] = ()

    @property
    def has_reference(self) -> bool:
        """Whether it names anything at all."""
        return bool(
            self.episode_ids or self.observation_ids or any(r.has_reference for r in self.external_refs)
        )


class ProducerKind(StrEnum):
    """Who made a plan candidate."""

    CALLER = "caller"
    DETERMINISTIC_HELPER = "deterministic_helper"
    RULE_PROCESSOR = "rule_processor"
    MODEL_PROCESSOR = "model_processor"
    IMPORT_TOOL = "import_tool"
    SYSTEM = "system"
    UNKNOWN = "unknown"


class RationaleOrigin(StrEnum):
    """Where a candidate's rationale comes from."""

    PROVIDED_BY_CALLER = "provided_by_caller"
    PROVIDED_BY_PROCESSOR = "provided_by_processor"
    INFERRED_BY_PROCESSOR = "inferred_by_processor"
    UNAVAILABLE = "unavailable"


class CandidateRationale(Model):
    """Why a candidate was planned; `text` only where the origin provides one."""

    origin: RationaleOrigin
    text: Text | None = None


class CandidateSource(Model):
    """What a candidate was made from."""

    episode_ids: IdSet = ()
    observation_ids: IdSet = ()
    external_refs: Annotated[tuple[ExternalSourceReference, ...], Listed] = ()
    source_spans: Annotated[tuple[SourceSpan, ...], Listed] = ()


class CandidateProvenance(Model):
    """Who planned a candidate, why, and from what; plan-time only, never stored in the graph."""

    producer_kind: ProducerKind
    rationale: CandidateRationale
    source: CandidateSource = CandidateSource()

    @classmethod
    def caller(cls, text: str, source: CandidateSource = CandidateSource()) -> Self:  # noqa: B008
        """The caller planned it and says why."""
        rationale = CandidateRationale(origin=RationaleOrigin.PROVIDED_BY_CALLER, text=text)
        return cls(producer_kind=ProducerKind.CALLER, rationale=rationale, source=source)

    @classmethod
    def processor(cls, kind: ProducerKind, text: str) -> Self:
        """A processor planned it and says why."""
        rationale = CandidateRationale(origin=RationaleOrigin.PROVIDED_BY_PROCESSOR, text=text)
        return cls(producer_kind=kind, rationale=rationale)

    @classmethod
    def inferred_by_processor(cls, kind: ProducerKind, text: str) -> Self:
        """A processor planned it and inferred why."""
        rationale = CandidateRationale(origin=RationaleOrigin.INFERRED_BY_PROCESSOR, text=text)
        return cls(producer_kind=kind, rationale=rationale)

    @classmethod
    def unavailable(cls, kind: ProducerKind, source: CandidateSource = CandidateSource()) -> Self:  # noqa: B008
        """Planned without a rationale."""
        rationale = CandidateRationale(origin=RationaleOrigin.UNAVAILABLE)
        return cls(producer_kind=kind, rationale=rationale, source=source)
