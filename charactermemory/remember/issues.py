"""What validation can find wrong with a candidate, as data and as a sentence (memory-core §6)."""

from __future__ import annotations

from typing import Annotated, Literal

from charactermemory.domain.model import Listed, Model
from charactermemory.domain.objects import IdSet
from charactermemory.ids import MemoryObjectRef

IssueKind = Literal[
    "missing_candidate_id",
    "missing_candidate_schema_version",
    "missing_timestamp",
    "missing_observation_position",
    "missing_scene",
    "duplicate_candidate_id",
    "duplicate_position",
    "empty_episode_summary",
    "invalid_scene_time_offset",
    "missing_episode_reference",
    "missing_derived_source",
    "invalid_belief",
    "invalid_score",
    "unsupported_memory_link_endpoint",
    "self_link",
    "missing_object_schema_version",
    "authored_supersedes_link",
    "authored_belief_about_link",
    "invalid_provenance",
    "invalid_source_span",
    "incomplete_stats_relation_object_pair",
    "unknown_object_ref",
    "reference_not_in_plan",
    "duplicate_observation_echo",
]

ReferenceRole = Literal[
    "observation_episode",
    "observation_speaker",
    "scene_participant",
    "derived_thread",
    "derived_source_episode",
    "belief_subject",
    "derived_source_observation",
    "superseded_memory",
    "memory_link_from",
    "memory_link_to",
    "vector_index_target",
    "stats_update_subject",
    "stats_update_object",
]

_SENTENCES: dict[str, str] = {
    "missing_candidate_id": "it has no id, or the nil one",
    "missing_candidate_schema_version": "it has no schema_version",
    "missing_timestamp": "it has no {field}; a commit never fills times in",
    "missing_observation_position": "it has no position in its episode",
    "missing_scene": "it has no scene",
    "duplicate_candidate_id": "{referenced} is planned by an earlier candidate too",
    "duplicate_position": "position {actual} of its episode is taken by another observation",
    "missing_object_schema_version": "its schema_version is blank",
    "incomplete_stats_relation_object_pair": "relation and object go together: give both or neither",
    "unknown_object_ref": "{role}: {referenced} is neither stored nor planned",
    "reference_not_in_plan": "{role}: {referenced} is no object of this plan",
    "duplicate_observation_echo": "its text repeats the summary of episode {episodes}",
    "non_caller_claimed_caller_rationale": "its rationale claims the caller's word, its producer is another",
    "empty_rationale_text": "its rationale has no words; without one its origin is unavailable",
    "empty_external_reference": "an external reference of its provenance is blank",
    "invalid_source_span": "a source span of its provenance is unsound: {reason}",
}
"""Sentences by kind, and for unsound provenance by reason. Broken rules of the domain bring their own."""


class CandidateValidationIssue(Model):
    """One thing wrong (or, as a warning, odd) with a candidate; the fields that its kind has are set.

    `detail` says a broken rule of the domain in words; nothing reads it.
    """

    kind: IssueKind
    field: str | None = None
    reason: str | None = None
    actual: str | None = None
    role: ReferenceRole | None = None
    referenced: MemoryObjectRef | None = None
    echo_surface: Literal["text", "derived_text"] | None = None
    matching_episode_ids: IdSet = ()
    detail: str | None = None

    @property
    def message(self) -> str:
        """One sentence made from the fields."""
        if self.detail is not None:
            return self.detail
        sentence = _SENTENCES.get(self.kind) or _SENTENCES.get(self.reason or "", self.kind)
        return sentence.format(
            field=self.field,
            reason=self.reason,
            actual=self.actual,
            role=self.role,
            referenced=self.referenced,
            episodes=", ".join(map(str, self.matching_episode_ids)),
        )


Issues = Annotated[tuple[CandidateValidationIssue, ...], Listed]
