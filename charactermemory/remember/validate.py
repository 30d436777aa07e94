"""Validation: what is wrong with each candidate of a plan, judged against the graph (memory-core §6).

Reads, never writes. One row per candidate, in plan order; within a row errors stand in the order
provenance, identity, timestamps, domain rules, references.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

from charactermemory.domain.objects import (
    DerivedMemory,
    Episode,
    MemoryLink,
    MemoryObject,
    Observation,
)
from charactermemory.domain.provenance import CandidateProvenance, ProducerKind, RationaleOrigin
from charactermemory.errors import (
    AssertionSubjectNotInMemory,
    BeliefValidationError,
    DomainValidationError,
    EmptyAssertionName,
    InvalidSceneTimeOffset,
    InvalidScore,
    SelfLink,
    UnsupportedMemoryLinkEndpoint,
)
from charactermemory.ids import MemoryId, MemoryObjectRef, ObjectType
from charactermemory.ports.graph import GraphStore, Spot
from charactermemory.remember.drafts import EpisodeDraft, ObservationDraft
from charactermemory.remember.issues import CandidateValidationIssue, IssueKind, ReferenceRole
from charactermemory.remember.plan import (
    CandidateValidation,
    CandidateValidationStatus,
    MemoryCandidate,
    ObjectCandidate,
    RememberWritePlan,
    StatsUpdateCandidate,
    VectorIndexCandidate,
)

# Stands in for missing times while domain rules are judged; the object made with it is thrown away.
_ANY_TIME = datetime(2000, 1, 1, tzinfo=UTC)


def validate_plan(plan: RememberWritePlan, graph: GraphStore) -> tuple[CandidateValidation, ...]:
    """Judge every candidate of `plan` against the graph as it is now.

    Raises:
        GraphQueryError, StoreError: the graph could not be read.
    """
    return judge(plan, graph).rows


class Judgement(NamedTuple):
    """The verdict on every candidate, and what the candidates of a valid plan become, both in plan order."""

    rows: tuple[CandidateValidation, ...]
    objects: tuple[MemoryObject, ...]

    @property
    def valid(self) -> bool:
        """Whether the whole plan may be stored."""
        return all(row.status is CandidateValidationStatus.VALID for row in self.rows)


def judge(plan: RememberWritePlan, graph: GraphStore) -> Judgement:
    """Judge like `validate_plan`, and hand on the objects made for it."""
    validation = _Validation(plan, graph)
    made = (item for item in validation.objects.values() if not isinstance(item, CandidateValidationIssue))
    return Judgement(validation.rows(), tuple(made))


class _Validation:
    def __init__(self, plan: RememberWritePlan, graph: GraphStore) -> None:
        self.plan = plan
        self.objects = {index: _converted(item) for index, item in plan.object_candidates}
        self.planned = frozenset(plan.refs)
        self.episodes = {
            item.candidate.draft.id: item.candidate.draft
            for _, item in plan.object_candidates
            if isinstance(item.candidate.draft, EpisodeDraft)
        }
        self.references = {index: tuple(self._references(index)) for index in range(len(plan.candidates))}
        wanted = {
            ref
            for named in self.references.values()
            for role, ref in named
            if ref not in self.planned or role == "superseded_memory"
        }
        self.existing = graph.existing(wanted) if wanted else set()
        self.taken = self._taken_positions(graph)
        self.seen_refs: set[MemoryObjectRef] = set()
        self.seen_spots: set[Spot] = set()

    def rows(self) -> tuple[CandidateValidation, ...]:
        rows = []
        for index, item in enumerate(self.plan.candidates):
            errors = tuple(self._errors(index, item))
            status = CandidateValidationStatus.INVALID if errors else CandidateValidationStatus.VALID
            row = CandidateValidation(
                candidate_index=index,
                candidate_kind=item.candidate_type,
                status=status,
                errors=errors,
                warnings=tuple(self._warnings(item)),
            )
            rows.append(row)
        return tuple(rows)

    def _errors(self, index: int, item: MemoryCandidate) -> Iterator[CandidateValidationIssue]:
        yield from _provenance_issues(item.candidate.provenance)
        if isinstance(item, VectorIndexCandidate | StatsUpdateCandidate):
            yield from self._derived_write_issues(index, item)
            return
        yield from self._identity_issues(item)
        made = self.objects[index]
        if isinstance(made, CandidateValidationIssue):
            yield made
            return
        yield from self._reference_issues(index)
        yield from self._position_issues(item)

    def _identity_issues(self, item: ObjectCandidate) -> Iterator[CandidateValidationIssue]:
        draft = item.candidate.draft
        if draft.ref is None:
            yield _issue("missing_candidate_id")
        if not (draft.schema_version or "").strip():
            yield _issue("missing_candidate_schema_version")
        for field in draft.timestamps:
            if getattr(draft, field) is None:
                yield _issue("missing_timestamp", field=field)
        if isinstance(draft, EpisodeDraft) and draft.scene is None:
            yield _issue("missing_scene", field="scene")
        if isinstance(draft, ObservationDraft) and draft.position is None:
            yield _issue("missing_observation_position", field="position")
        if draft.ref is not None:
            if draft.ref in self.seen_refs:
                yield _issue("duplicate_candidate_id", referenced=draft.ref)
            self.seen_refs.add(draft.ref)

    def _references(self, index: int) -> Iterator[tuple[ReferenceRole, MemoryObjectRef]]:
        item = self.plan.candidates[index]
        if isinstance(item, VectorIndexCandidate):
            yield "vector_index_target", item.candidate.target
        elif isinstance(item, StatsUpdateCandidate):
            yield "stats_update_subject", item.candidate.subject
            if item.candidate.object is not None:
                yield "stats_update_object", item.candidate.object
        else:
            made = self.objects[index]
            if not isinstance(made, CandidateValidationIssue):
                yield from references_of(made)

    def _reference_issues(self, index: int) -> Iterator[CandidateValidationIssue]:
        for role, ref in self.references[index]:
            in_plan = ref in self.planned and role != "superseded_memory"
            if not in_plan and ref not in self.existing:
                yield _issue("unknown_object_ref", role=role, referenced=ref)

    def _derived_write_issues(
        self, index: int, item: VectorIndexCandidate | StatsUpdateCandidate
    ) -> Iterator[CandidateValidationIssue]:
        if isinstance(item, StatsUpdateCandidate):
            request = item.candidate
            if (request.relation is None) != (request.object is None):
                yield _issue("incomplete_stats_relation_object_pair")
        for role, ref in self.references[index]:
            if ref not in self.planned and ref not in self.existing:
                yield _issue("unknown_object_ref", role=role, referenced=ref)
            if ref not in self.planned:
                yield _issue("reference_not_in_plan", role=role, referenced=ref)

    def _taken_positions(self, graph: GraphStore) -> dict[Spot, MemoryObjectRef]:
        spots = {
            (MemoryObjectRef.of(ObjectType.EPISODE, made.episode_id), made.position)
            for made in self.objects.values()
            if isinstance(made, Observation) and made.episode_id not in self.episodes
        }
        return graph.turns(spots) if spots else {}

    def _position_issues(self, item: ObjectCandidate) -> Iterator[CandidateValidationIssue]:
        draft = item.candidate.draft
        if not isinstance(draft, ObservationDraft) or draft.position is None or draft.episode_id is None:
            return
        spot = (MemoryObjectRef.of(ObjectType.EPISODE, draft.episode_id), draft.position)
        holder = self.taken.get(spot)
        if spot in self.seen_spots or (holder is not None and holder.id != draft.id):
            yield _issue("duplicate_position", field="position", actual=str(draft.position))
        self.seen_spots.add(spot)

    def _warnings(self, item: MemoryCandidate) -> Iterator[CandidateValidationIssue]:
        if item.candidate_type == "observation":
            draft: Any = item.candidate.draft
            yield from self._echo(draft.text, "text", (draft.episode_id,))
        elif item.candidate_type == "derived_memory":
            draft = item.candidate.draft
            yield from self._echo(draft.text, "derived_text", draft.derived_from_episode_ids)

    def _echo(
        self, text: str, surface: Any, episode_ids: tuple[MemoryId | None, ...]
    ) -> Iterator[CandidateValidationIssue]:
        matching = tuple(
            id_
            for id_ in episode_ids
            if id_ is not None and id_ in self.episodes and self.episodes[id_].summary == text
        )
        if matching:
            yield _issue("duplicate_observation_echo", echo_surface=surface, matching_episode_ids=matching)


def references_of(item: MemoryObject) -> Iterator[tuple[ReferenceRole, MemoryObjectRef]]:
    """Yield every reference that must be stored or planned for `item` to be sound, with its role."""
    entity, thread = ObjectType.ENTITY, ObjectType.MEMORY_THREAD
    match item:
        case Episode():
            for key in item.scene.participant_keys:
                yield "scene_participant", MemoryObjectRef.of(entity, key)
        case Observation():
            yield "observation_episode", MemoryObjectRef.of(ObjectType.EPISODE, item.episode_id)
            if item.speaker_entity_id is not None:
                yield "observation_speaker", MemoryObjectRef.of(entity, item.speaker_entity_id)
        case DerivedMemory():
            for subject in item.entity_ids:
                yield "belief_subject", MemoryObjectRef.of(entity, subject)
            for source in item.derived_from_episode_ids:
                yield "derived_source_episode", MemoryObjectRef.of(ObjectType.EPISODE, source)
            for source in item.derived_from_observation_ids:
                yield "derived_source_observation", MemoryObjectRef.of(ObjectType.OBSERVATION, source)
            for member_of in item.thread_ids:
                yield "derived_thread", MemoryObjectRef.of(thread, member_of)
            for old in item.supersedes:
                yield "superseded_memory", MemoryObjectRef.of(ObjectType.DERIVED_MEMORY, old)
        case MemoryLink():
            yield "memory_link_from", item.source
            yield "memory_link_to", item.target
        case _:
            return


def _converted(item: ObjectCandidate) -> MemoryObject | CandidateValidationIssue:
    draft = item.candidate.draft
    if draft.schema_version is not None and not draft.schema_version.strip():
        return _issue("missing_object_schema_version")
    try:
        return draft.to_object(_ANY_TIME)
    except DomainValidationError as error:
        return _domain_issue(error)


def _domain_issue(error: DomainValidationError) -> CandidateValidationIssue:
    fields: dict[str, Any] = {}
    match error:
        case AssertionSubjectNotInMemory() | EmptyAssertionName():
            subject = MemoryObjectRef.of(ObjectType.ENTITY, error.subject)
            fields = {"kind": "invalid_belief", "reason": error.code, "referenced": subject}
        case BeliefValidationError():
            fields = {"kind": "invalid_belief", "reason": error.code}
        case InvalidScore():
            fields = {"field": error.field, "actual": repr(error.value)}
        case InvalidSceneTimeOffset():
            fields = {"field": "scene.time", "actual": str(error.offset_seconds)}
        case UnsupportedMemoryLinkEndpoint():
            fields = {"field": error.field}
        case SelfLink():
            fields = {"referenced": MemoryObjectRef.of(error.object_type, error.object_id)}
    return CandidateValidationIssue(**({"kind": error.code, "detail": str(error)} | fields))


def _provenance_issues(provenance: CandidateProvenance) -> Iterator[CandidateValidationIssue]:
    rationale, source = provenance.rationale, provenance.source
    claims_caller = rationale.origin is RationaleOrigin.PROVIDED_BY_CALLER
    if claims_caller and provenance.producer_kind is not ProducerKind.CALLER:
        yield _issue("invalid_provenance", reason="non_caller_claimed_caller_rationale")
    if rationale.origin is not RationaleOrigin.UNAVAILABLE and not (rationale.text or "").strip():
        yield _issue("invalid_provenance", reason="empty_rationale_text")
    for span in source.source_spans:
        problem = span.problem()
        if problem is not None:
            yield _issue("invalid_source_span", reason=problem)
    for reference in source.external_refs:
        if not reference.has_reference:
            yield _issue("invalid_provenance", reason="empty_external_reference")


def _issue(kind: IssueKind, **fields: Any) -> CandidateValidationIssue:
    return CandidateValidationIssue(kind=kind, **fields)
