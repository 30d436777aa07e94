"""What a caller asks of a correction or a forget (memory-core §9.1, §10)."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field

from charactermemory.domain.beliefs import check_belief
from charactermemory.domain.kinds import DerivedType
from charactermemory.domain.lifecycle import References
from charactermemory.domain.model import Key, Listed, Model, Score, Text, says_nothing
from charactermemory.domain.objects import DEFAULT_SALIENCE, Assertions, IdSet
from charactermemory.domain.provenance import SourceProvenanceReference
from charactermemory.errors import (
    BeliefValidationError,
    LifecycleDraftInvalid,
    MissingOriginalSourceReference,
)
from charactermemory.ids import MemoryId, MemoryObjectRef, ObjectType


class EpisodeCorrectionTarget(Model):
    """An episode to be corrected, named with the reference its source has."""

    object_type: Literal[ObjectType.EPISODE] = ObjectType.EPISODE
    id: MemoryId
    original_raw_ref: Key | None = None
    original_source_ref: Key | None = None


class ObservationCorrectionTarget(Model):
    """An observation to be corrected, named with the reference its source has."""

    object_type: Literal[ObjectType.OBSERVATION] = ObjectType.OBSERVATION
    id: MemoryId
    original_raw_ref: Key | None = None
    original_source_ref: Key | None = None


SourceObjectCorrectionTarget = Annotated[
    EpisodeCorrectionTarget | ObservationCorrectionTarget, Field(discriminator="object_type")
]


class DerivedMemoryTarget(Model):
    """A derived memory to be corrected."""

    kind: Literal["derived_memory"] = "derived_memory"
    id: MemoryId

    @property
    def ref(self) -> MemoryObjectRef:
        """The typed reference of what is corrected."""
        return MemoryObjectRef.of(ObjectType.DERIVED_MEMORY, self.id)


class SourceObjectTarget(Model):
    """A source object to be corrected, by way of the memories that rest on it."""

    kind: Literal["source_object"] = "source_object"
    target: SourceObjectCorrectionTarget

    @property
    def ref(self) -> MemoryObjectRef:
        """The typed reference of what is corrected."""
        return MemoryObjectRef.of(self.target.object_type, self.target.id)

    def check(self) -> None:
        """Judge whether the source is named.

        Raises:
            MissingOriginalSourceReference: both references are absent or blank.
        """
        named = (self.target.original_raw_ref, self.target.original_source_ref)
        if not any((reference or "").strip() for reference in named):
            raise MissingOriginalSourceReference(self.ref)


AnyCorrectionTarget = Annotated[DerivedMemoryTarget | SourceObjectTarget, Field(discriminator="kind")]


class CorrectionTarget:
    """Constructors of correction targets."""

    @staticmethod
    def derived_memory(id: MemoryId) -> DerivedMemoryTarget:
        """A derived memory."""
        return DerivedMemoryTarget(id=id)

    @staticmethod
    def episode(
        id: MemoryId, raw_ref: str | None = None, source_ref: str | None = None
    ) -> SourceObjectTarget:
        """An episode, with its original raw or source reference."""
        target = EpisodeCorrectionTarget(id=id, original_raw_ref=raw_ref, original_source_ref=source_ref)
        return SourceObjectTarget(target=target)

    @staticmethod
    def observation(
        id: MemoryId,
        raw_ref: str | None = None,
        source_ref: str | None = None,
    ) -> SourceObjectTarget:
        """An observation, with its original raw or source reference."""
        target = ObservationCorrectionTarget(id=id, original_raw_ref=raw_ref, original_source_ref=source_ref)
        return SourceObjectTarget(target=target)


_NAMES_NOTHING = "names no episode, no observation and no external reference that is not blank"


class ReplacementDerivedMemoryDraft(Model):
    """A belief that takes the place of corrected ones. Assertions and grounding are never inherited."""

    id: MemoryId | None = None
    derived_type: DerivedType
    text: Text
    derived_from_episode_ids: IdSet = ()
    derived_from_observation_ids: IdSet = ()
    thread_ids: IdSet = ()
    entity_ids: IdSet = ()
    assertions: Assertions = ()
    given_by_application: bool = False
    salience_score: Score = DEFAULT_SALIENCE
    supersedes: IdSet = ()
    original_source_provenance: SourceProvenanceReference = SourceProvenanceReference()
    correction_origin_provenance: SourceProvenanceReference = SourceProvenanceReference()

    @classmethod
    def new(cls, derived_type: DerivedType, text: str) -> Self:
        """A replacement of `derived_type` saying `text`."""
        return cls(derived_type=derived_type, text=text)

    def check(self, place: str = "replacement") -> None:
        """Judge text, grounding, assertions, sources and origin (memory-core §9.2).

        Args:
            place: what an error calls this replacement.

        Raises:
            LifecycleDraftInvalid: the first rule broken.
        """
        if says_nothing(self.text):
            raise LifecycleDraftInvalid("empty_replacement_text", f"{place}: text is blank")
        provenance = (self.original_source_provenance, self.correction_origin_provenance)
        sourced = bool(
            self.derived_from_episode_ids
            or self.derived_from_observation_ids
            or any(item.episode_ids or item.observation_ids for item in provenance)
        )
        try:
            check_belief(self.entity_ids, sourced, self.given_by_application, self.assertions)
        except BeliefValidationError as error:
            raise LifecycleDraftInvalid("invalid_belief", f"{place}: {error}", error) from None
        if not sourced and not self.given_by_application:
            raise LifecycleDraftInvalid(
                "missing_replacement_source",
                f"{place}: name an episode or observation it rests on, or declare given_by_application",
            )
        if not self.correction_origin_provenance.has_reference:
            raise LifecycleDraftInvalid(
                "empty_correction_origin", f"{place}: correction_origin_provenance {_NAMES_NOTHING}"
            )


class CorrectionCascade(Model):
    """Whether correcting a source object also corrects the current memories that rest on it."""

    apply_to_provenanced_derived_memories: bool = True


class CorrectMemoryDraft(Model):
    """What is wrong, why, on whose word, and what takes its place; without a replacement a default is made."""

    targets: Annotated[tuple[AnyCorrectionTarget, ...], Listed] = ()
    replacement_derived_memories: Annotated[tuple[ReplacementDerivedMemoryDraft, ...], Listed] = ()
    superseded_derived_memory_ids: IdSet = ()
    correction_origin: SourceProvenanceReference = SourceProvenanceReference()
    rationale: Text
    requested_by: Key | None = None
    cascade_policy: CorrectionCascade = CorrectionCascade()
    include_trace: bool = False

    @classmethod
    def new(cls, target: DerivedMemoryTarget | SourceObjectTarget, rationale: str) -> Self:
        """A correction of one target."""
        return cls(targets=(target,), rationale=rationale)

    def with_replacement(self, draft: ReplacementDerivedMemoryDraft) -> Self:
        """Return a copy with one more replacement."""
        return self.replace(replacement_derived_memories=(*self.replacement_derived_memories, draft))

    def with_origin(self, origin: SourceProvenanceReference) -> Self:
        """Return a copy that rests on `origin`."""
        return self.replace(correction_origin=origin)

    def check(self) -> None:
        """Judge the draft before anything is read (memory-core §9.2).

        Raises:
            LifecycleDraftInvalid: the first rule broken.
            MissingOriginalSourceReference: a source object is to be corrected and its source is not named.
        """
        if not self.targets:
            raise LifecycleDraftInvalid("missing_correction_target", "targets is empty")
        _check_rationale(self.rationale)
        if not self.correction_origin.has_reference:
            raise LifecycleDraftInvalid("empty_correction_origin", f"correction_origin {_NAMES_NOTHING}")
        for index, replacement in enumerate(self.replacement_derived_memories):
            replacement.check(f"replacement_derived_memories[{index}]")
        for target in self.targets:
            if isinstance(target, SourceObjectTarget):
                target.check()


FORGETTABLE = (
    ObjectType.DERIVED_MEMORY,
    ObjectType.EPISODE,
    ObjectType.OBSERVATION,
    ObjectType.MEMORY_THREAD,
)
"""Object types that can be forgotten; a thread only by its members."""


class SuppressionPolicy(Model):
    """What a forget suppresses."""

    suppress_target: bool = True
    suppress_derived_from_target: bool = True


class ForgetLifecyclePolicy(Model):
    """The lifecycle part of a forget."""

    suppression: SuppressionPolicy = SuppressionPolicy()


class ForgetCascade(Model):
    """How far a forget reaches."""

    apply_to_derived_from_target: bool = True
    apply_to_observations: bool = True
    apply_to_thread_members: bool = False


class ForgetMemoryDraft(Model):
    """What is to lose its influence, and why. Nothing is deleted."""

    targets: References = ()
    rationale: Text
    requested_by: Key | None = None
    lifecycle_policy: ForgetLifecyclePolicy = ForgetLifecyclePolicy()
    cascade_policy: ForgetCascade = ForgetCascade()
    include_trace: bool = False

    @classmethod
    def suppress(cls, target: MemoryObjectRef, rationale: str, **fields: Any) -> Self:
        """Forget one target."""
        return cls(targets=(target,), rationale=rationale, **fields)

    def check(self) -> None:
        """Judge the draft before anything is read.

        Raises:
            LifecycleDraftInvalid: the first rule broken.
        """
        if not self.targets:
            raise LifecycleDraftInvalid("missing_forget_target", "targets is empty")
        _check_rationale(self.rationale)
        for target in self.targets:
            if target.object_type not in FORGETTABLE:
                forgettable = ", ".join(FORGETTABLE)
                raise LifecycleDraftInvalid(
                    "unsupported_lifecycle_target", f"{target} cannot be forgotten; only {forgettable} can"
                )


def _check_rationale(rationale: str) -> None:
    if says_nothing(rationale):
        raise LifecycleDraftInvalid("empty_rationale", "rationale is blank; say why")
