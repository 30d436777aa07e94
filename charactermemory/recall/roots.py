"""From what the roads propose to the roots that are expanded (recall.md §4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from charactermemory.ids import MemoryObjectRef
from charactermemory.recall.floors import admitted
from charactermemory.recall.roads.road import CueKind, Proposal, Road

if TYPE_CHECKING:
    from charactermemory.recall.bearings import Bearing


FAINT = 0.05
"""Below this share of the strongest candidate, one is noise beside it and is not expanded."""


class Candidate(NamedTuple):
    """One object that roads proposed, with the best of each score and the names of those roads."""

    ref: MemoryObjectRef
    roads: tuple[str, ...]
    kinds: frozenset[CueKind]
    cue: float = 0.0
    similarity: float | None = None
    lexical: float | None = None


class Root(NamedTuple):
    """One object to expand from. `score` is its own strength, `total` what its rank among roots follows."""

    candidate: Candidate
    score: float
    total: float

    @property
    def ref(self) -> MemoryObjectRef:
        """The object."""
        return self.candidate.ref


@dataclass(frozen=True, slots=True)
class Roots:
    """The roots that are expanded, best first, how many candidates there were, and how many were too faint."""

    selected: tuple[Root, ...]
    unique: int
    faint: int = 0

    @property
    def omitted(self) -> int:
        """Candidates beyond the cap; counted only, expansion may still reach them."""
        return self.unique - len(self.selected)


def merge(proposals: Iterable[tuple[Road, Proposal]]) -> dict[MemoryObjectRef, Candidate]:
    """Merge what the roads propose by object and keep the highest of each score."""
    merged: dict[MemoryObjectRef, Candidate] = {}
    alone = {kind: frozenset({kind}) for kind in CueKind}
    for road, found in proposals:
        known = merged.get(found.ref)
        if known is None:
            merged[found.ref] = Candidate(
                found.ref, (road.name,), alone[road.cue], found.cue, found.similarity, found.lexical
            )
            continue
        merged[found.ref] = Candidate(
            ref=found.ref,
            roads=tuple(dict.fromkeys((*known.roads, road.name))),
            kinds=known.kinds | {road.cue},
            cue=max(known.cue, found.cue),
            similarity=_higher(known.similarity, found.similarity),
            lexical=_higher(known.lexical, found.lexical),
        )
    return merged


def select(
    candidates: Mapping[MemoryObjectRef, Candidate], bearings: Mapping[MemoryObjectRef, Bearing], limit: int
) -> Roots:
    """Take the best candidates that are not faint beside the strongest, each kind of cue keeping its floor."""
    ordered = sorted(
        (Root(candidate, bearings[ref].own, bearings[ref].total) for ref, candidate in candidates.items()),
        key=_order,
    )
    strongest = max((root.total for root in ordered), default=0.0)
    heard = [root for root in ordered if root.total >= FAINT * strongest]
    taken = admitted([root.candidate.kinds for root in heard], limit)
    selected = tuple(root for root, fits in zip(heard, taken, strict=True) if fits)
    return Roots(selected=selected, unique=len(ordered), faint=len(ordered) - len(heard))


def _order(root: Root) -> tuple[float, int, int]:
    """Total descending, type rank, id."""
    ref = root.candidate.ref
    return (-root.total, ref.rank, ref.number)


def _higher(one: float | None, other: float | None) -> float | None:
    return max((score for score in (one, other) if score is not None), default=None)
