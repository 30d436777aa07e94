"""What was left out and why (recall.md §9). Carries ids, scores and reasons, never text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Literal

from charactermemory.domain.kinds import RetentionState
from charactermemory.domain.lifecycle import Stored
from charactermemory.domain.model import Model
from charactermemory.ids import MemoryId, MemoryObjectRef
from charactermemory.recall.expansion import Walk
from charactermemory.recall.pack import Placed
from charactermemory.recall.roots import Root
from charactermemory.recall.standing import Denial
from charactermemory.recall.verdict import Verdict


class StaleCandidateReason(StrEnum):
    """Why a candidate, or a ranked memory, is not in the pack; declaration order is the reporting rank."""

    GRAPH_OBJECT_MISSING = "graph_object_missing"
    LIFECYCLE_MISMATCH = "lifecycle_mismatch"
    SUPERSEDED = "superseded"
    SECTION_LIMIT = "section_limit"
    GRAPH_EXPANSION_BOUNDED = "graph_expansion_bounded"
    NEAR_DUPLICATE = "near_duplicate"


class LifecycleFilterReason(StrEnum):
    """Why the graph kept an object out; declaration order is the reporting rank.

    `changed_meanwhile`: an earlier read of this retrieve came to it, the final one denies that it exists.
    """

    SUPPRESSED_OMITTED = "suppressed_omitted"
    SUPERSEDED_OMITTED = "superseded_omitted"
    GRAPH_OBJECT_MISSING = "graph_object_missing"
    CHANGED_MEANWHILE = "changed_meanwhile"
    GRAPH_EXPANSION_BOUNDED = "graph_expansion_bounded"


class StaleCandidateOmission(Model):
    """One candidate that is not in the pack.

    Attributes:
        object: which.
        vector_score: its own score as a candidate; None if it was none.
        similarity: its raw cosine, if the dense leg found it.
        reason: why.
    """

    object: MemoryObjectRef
    vector_score: float | None = None
    similarity: float | None = None
    reason: StaleCandidateReason


class LifecycleFilterDecision(Model):
    """One object that the graph kept out of one expansion."""

    object: MemoryObjectRef
    retention_state: RetentionState | None = None
    superseded_by: tuple[MemoryId, ...] = ()
    action: Literal["omitted"] = "omitted"
    reason: LifecycleFilterReason


_STALE: dict[Denial, StaleCandidateReason] = {
    "missing": StaleCandidateReason.GRAPH_OBJECT_MISSING,
    "suppressed": StaleCandidateReason.LIFECYCLE_MISMATCH,
    "superseded": StaleCandidateReason.SUPERSEDED,
}
_FILTERED: dict[Denial, LifecycleFilterReason] = {
    "missing": LifecycleFilterReason.CHANGED_MEANWHILE,
    "suppressed": LifecycleFilterReason.SUPPRESSED_OMITTED,
    "superseded": LifecycleFilterReason.SUPERSEDED_OMITTED,
}


def root_omission(root: Root, walk: Walk) -> StaleCandidateReason | None:
    """Return why a root itself was not admitted by its own expansion."""
    if walk.missing:
        return StaleCandidateReason.GRAPH_OBJECT_MISSING
    if root.ref in walk.filtered:
        return _STALE[walk.filtered[root.ref]]
    if root.ref not in walk.visited:
        return StaleCandidateReason.GRAPH_EXPANSION_BOUNDED
    return None


def stale_omissions(roots: Sequence[Root], walks: Sequence[Walk]) -> list[StaleCandidateOmission]:
    """Return the roots that were not admitted, sorted by id, type rank and reason."""
    found = [
        StaleCandidateOmission(
            object=root.ref, vector_score=root.score, similarity=root.candidate.similarity, reason=reason
        )
        for root, walk in zip(roots, walks, strict=True)
        if (reason := root_omission(root, walk)) is not None
    ]
    reasons = list(StaleCandidateReason)
    return sorted(found, key=lambda item: (item.object.order, reasons.index(item.reason)))


def section_omissions(placed: Iterable[Placed]) -> list[StaleCandidateOmission]:
    """Return the ranked memories whose section was full or had the same already, in rank order."""
    return [
        StaleCandidateOmission(
            object=row.item.ref,
            vector_score=row.item.bearing.own if row.item.candidate else None,
            similarity=row.item.candidate.similarity if row.item.candidate else None,
            reason=StaleCandidateReason.NEAR_DUPLICATE if row.repeats else StaleCandidateReason.SECTION_LIMIT,
        )
        for row in placed
        if row.omitted
    ]


def lifecycle_decisions(
    roots: Sequence[Root], walks: Sequence[Walk], verdict: Verdict
) -> list[LifecycleFilterDecision]:
    """Return what the graph kept out, root by root; an object met under three roots counts three times."""
    found: list[LifecycleFilterDecision] = []
    for root, walk in zip(roots, walks, strict=True):
        if walk.missing:
            found.append(_decision(root.ref, LifecycleFilterReason.GRAPH_OBJECT_MISSING, verdict))
        elif root.ref not in walk.visited and root.ref not in walk.filtered:
            found.append(_decision(root.ref, LifecycleFilterReason.GRAPH_EXPANSION_BOUNDED, verdict))
        for ref in sorted(walk.filtered):
            found.append(_decision(ref, _FILTERED[walk.filtered[ref]], verdict))
    return found


def _decision(
    ref: MemoryObjectRef, reason: LifecycleFilterReason, verdict: Verdict
) -> LifecycleFilterDecision:
    stored: Stored | None = verdict.stored.get(ref)
    return LifecycleFilterDecision(
        object=ref,
        retention_state=getattr(stored.object, "retention_state", None) if stored else None,
        superseded_by=verdict.superseded_by(ref),
        reason=reason,
    )
