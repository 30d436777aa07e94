"""Merging what the roads propose into roots (recall.md §4)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from charactermemory.ids import MemoryObjectRef
from charactermemory.recall.roads.road import Proposal


@dataclass(frozen=True, slots=True)
class Root:
    """One object to expand from, with its best score over all roads and the names of those roads."""

    ref: MemoryObjectRef
    score: float
    roads: tuple[str, ...]
    similarity: float | None = None
    lexical: float | None = None

    @property
    def order(self) -> tuple[float, int, int]:
        """Score descending, type rank, id."""
        return (-self.score, self.ref.object_type.rank, self.ref.id.int)


@dataclass(frozen=True, slots=True)
class Roots:
    """The roots that are expanded, best first, and how many candidates there were."""

    selected: tuple[Root, ...]
    unique: int

    @property
    def omitted(self) -> int:
        """Candidates beyond the cap; counted only, expansion may still reach them."""
        return self.unique - len(self.selected)


def merge_roots(proposals: Iterable[tuple[str, Proposal]], limit: int) -> Roots:
    """Merge (road name, proposal) pairs by object, keep the highest of each score, take the best `limit`."""
    merged: dict[MemoryObjectRef, Root] = {}
    for road, found in proposals:
        known = merged.get(found.ref)
        if known is None:
            merged[found.ref] = Root(found.ref, found.score, (road,), found.similarity, found.lexical)
            continue
        merged[found.ref] = Root(
            ref=found.ref,
            score=max(known.score, found.score),
            roads=tuple(dict.fromkeys((*known.roads, road))),
            similarity=_higher(known.similarity, found.similarity),
            lexical=_higher(known.lexical, found.lexical),
        )
    ordered = sorted(merged.values(), key=lambda root: root.order)
    return Roots(selected=tuple(ordered[:limit]), unique=len(ordered))


def _higher(one: float | None, other: float | None) -> float | None:
    return max((score for score in (one, other) if score is not None), default=None)
