"""How much of a root's strength gets past a notion (docs/recall-tuning.md).

A notion that is in everything says little about any of it. So what is reached through one inherits less, the
more the notion connects: by the selectivity that the statistics know of a notion among the roots (recall.md
§12), and of one met on the way by how many neighbours of the kind it was found to have.
"""

from __future__ import annotations

from collections.abc import Mapping

from charactermemory.ids import MemoryObjectRef, ObjectType
from charactermemory.recall.expansion import Pair, Walk
from charactermemory.recall.exploration import Exploration
from charactermemory.recall.selectivity import Plan, selectivity

CROWD = 64
"""Neighbours of one kind from which on a notion met on the way passes nothing on."""


class Passage:
    """Tells what gets past the notions of some walks."""

    def __init__(self, plans: Mapping[MemoryObjectRef, Plan], found: Exploration) -> None:
        """Take what is known of the notions among the roots, and what was read around all of them."""
        self._plans = plans
        self._found = found
        self._open: dict[tuple[MemoryObjectRef, Pair], float] = {}

    def shares(self, walk: Walk) -> dict[MemoryObjectRef, float]:
        """Return the share, 0..1, of the root's strength that gets to what notions led to; the rest has all."""
        notions = {
            ref
            for ref, distance in walk.visited.items()
            if ref.object_type is ObjectType.ENTITY and distance < walk.depth
        }
        shares: dict[MemoryObjectRef, float] = {}
        if not notions:
            return shares
        for ref in walk.visited:  # whatever leads somewhere comes before it
            edge = walk.arrived.get(ref)
            if edge is None:
                continue
            before = edge.other(ref)
            share = shares.get(before, 1.0)
            if before in notions:
                share *= self._past(before, (edge.relation, ref.object_type))
            if share < 1:
                shares[ref] = share
        return shares

    def _past(self, notion: MemoryObjectRef, pair: Pair) -> float:
        if (notion, pair) not in self._open:
            plan = self._plans.get(notion)
            known = plan.score(pair) if plan else None
            self._open[notion, pair] = self._estimate(notion, pair) if known is None else known
        return self._open[notion, pair]

    def _estimate(self, notion: MemoryObjectRef, pair: Pair) -> float:
        if (notion, pair[0]) in self._found.crowds:
            return 0.0
        count = sum(near.pair == pair for near in self._found.around.get(notion, ()))
        return selectivity(count, CROWD, alpha=1.0)
