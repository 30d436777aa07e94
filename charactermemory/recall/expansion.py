"""Bounded expansion of one root: the pure rule (recall.md §5 as amended by DESIGN R10).

Breadth first, one depth layer at a time. The walk reads nothing: it says which nodes it stands at, is
handed their neighbourhoods, and decides. When a cap bites, the best neighbours stay: salience, then time,
both descending, then id. Neighbours that policy leaves out use up no place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from charactermemory.domain.kinds import RelationType
from charactermemory.errors import UnsupportedExpansionRoot
from charactermemory.ids import MemoryObjectRef, ObjectType
from charactermemory.ports.graph import Edge, Neighbourhood
from charactermemory.recall.context import GraphLimits
from charactermemory.recall.standing import Denial, Standing, StandingOf

BoundReason = Literal["node_limit", "hub_limit"]
Pair = tuple[RelationType, ObjectType]
"""A relation and the type of the neighbour at its other end."""
Overrides = Mapping[Pair, int]
"""Fan-outs of a root by pair, from its selectivity; pairs without one have the static cap."""

NO_OVERRIDES: Overrides = {}
Tie = tuple[MemoryObjectRef, int, bool]
"""The neighbour, which sorts by its id and type, the rank of the relation, and whether the edge comes in."""


class Near(NamedTuple):
    """One neighbour of a node: the edge to it, itself, their pair, and what settles ties among equals."""

    edge: Edge
    other: MemoryObjectRef
    pair: Pair
    tie: Tie


Surroundings = Mapping[MemoryObjectRef, Sequence[Near]]
"""The neighbours of each node that may be walked to; a node without any is a leaf."""


def neighbours_of(node: MemoryObjectRef, around: Neighbourhood, limits: GraphLimits) -> tuple[Near, ...]:
    """Return the neighbours of `node` whose relation and type are allowed.

    Ties are settled by id, type rank, relation rank, outgoing before incoming.
    """
    relations, types = limits.relations, limits.types
    found = []
    for edge in around.edges:
        source, relation, target = edge
        incoming = source != node
        other = source if incoming else target
        if relation in relations and other.object_type in types:
            tie = (other, relation.rank, incoming)
            found.append(Near(edge, other, (relation, other.object_type), tie))
    return tuple(found)


class Bounded(NamedTuple):
    """The first cap that cut an expansion short, and where."""

    reason: BoundReason
    at: MemoryObjectRef


class Utilization(NamedTuple):
    """How one node's neighbours of one pair met the fan-out caps.

    `omitted` counts those that policy would admit; `at_least` says that the node has more than was read.
    """

    node: MemoryObjectRef
    pair: Pair
    configured_cap: int
    selected_cap: int
    retained: int
    omitted: int
    at_least: bool


class _Expanded(NamedTuple):
    """One node that was expanded: the neighbours that policy admits, those kept, whether it has more."""

    node: MemoryObjectRef
    admissible: Sequence[tuple[Near, Standing]]
    kept: Sequence[Near]
    capped: bool


@dataclass
class Walk:
    """The expansion of one root, and what it has found so far.

    Attributes:
        favoured: groups of neighbours that stay before all others where a cap bites, the first group first.
        visited: admitted objects with their distance from the root.
        arrived: the edge by which each was first reached; the root has none.
        relations: traversed edges with their proximity, the distance of their far end at first sight.
        filtered: objects that policy left out, with the reason.
        failure: the first cap that bit.
        frontier: the nodes to be expanded next, in order.
        missing: the root is not stored.
    """

    root: MemoryObjectRef
    limits: GraphLimits
    overrides: Overrides = field(default_factory=dict)
    favoured: tuple[Collection[MemoryObjectRef], ...] = ()
    visited: dict[MemoryObjectRef, int] = field(default_factory=dict)
    arrived: dict[MemoryObjectRef, Edge] = field(default_factory=dict)
    relations: dict[Edge, int] = field(default_factory=dict)
    filtered: dict[MemoryObjectRef, Denial] = field(default_factory=dict)
    failure: Bounded | None = None
    frontier: list[MemoryObjectRef] = field(default_factory=list)
    depth: int = 0
    missing: bool = False
    _expanded: list[_Expanded] = field(default_factory=list, init=False)
    _total_cap: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if self.root.object_type is ObjectType.MEMORY_LINK:
            raise UnsupportedExpansionRoot(self.root)
        self._total_cap = min(self.limits.max_fanout_per_node, self.limits.max_hub_edges)

    def begin(self, standing: Standing) -> None:
        """Stand at the root: missing before bounded, bounded before left out (recall.md §5.1)."""
        if standing.denied == "missing":
            self.missing = True
        elif self.limits.max_nodes == 0:
            self._fail("node_limit", self.root)
        elif standing.denied:
            self.filtered[self.root] = standing.denied
        else:
            self.visited[self.root] = 0
            self._stand_at([self.root])

    def links(self) -> list[Edge]:
        """Return the traversed edges whose ends were both admitted."""
        return [
            edge for edge in self.relations if edge.source in self.visited and edge.target in self.visited
        ]

    def utilization(self) -> list[Utilization]:
        """Return how the neighbours of the nodes that were expanded met the caps, by node and pair in order."""
        rows = []
        for node, admissible, kept, capped in self._expanded:
            found = Counter(near.pair for near, _ in admissible)
            held = Counter(near.pair for near in kept)
            rows += [
                Utilization(
                    node=node,
                    pair=pair,
                    configured_cap=self.limits.max_fanout_per_node,
                    selected_cap=self._cap(node, pair),
                    retained=held[pair],
                    omitted=found[pair] - held[pair],
                    at_least=capped,
                )
                for pair in sorted(found, key=lambda item: (item[0].rank, item[1].rank))
            ]
        return rows

    def contested(self, around: Surroundings) -> set[MemoryObjectRef]:
        """Return the neighbours of this layer that a cap may choose among, so that their standing matters."""
        known = set(self.visited)
        contested: set[MemoryObjectRef] = set()
        for node in self.frontier:
            others = {near.other for near in around.get(node, ())}
            known |= others
            if self._crowded(node, around.get(node, ())):
                contested |= others
        return known if len(known) > self.limits.max_nodes else contested

    def _crowded(self, node: MemoryObjectRef, neighbours: Sequence[Near]) -> bool:
        if len(neighbours) > self._total_cap:
            return True
        if node != self.root or not self.overrides:
            return False
        counts = Counter(near.pair for near in neighbours)
        return any(count > self._cap(node, pair) for pair, count in counts.items())

    def advance(
        self,
        around: Surroundings,
        capped: Collection[MemoryObjectRef],
        standing_of: StandingOf,
        spare: int = 0,
    ) -> None:
        """Expand the frontier by one layer.

        Args:
            around: the neighbours of the frontier's nodes.
            capped: the nodes that have more neighbours than were read.
            standing_of: how each neighbour stands.
            spare: neighbours kept beyond each cap, where standings are guessed and a verdict is still to come.
        """
        layer, self.frontier = self.frontier, []
        self.depth += 1
        reached: list[MemoryObjectRef] = []
        for node in layer:
            reached += self._expand(node, around.get(node, ()), node in capped, standing_of, spare)
        self._stand_at(reached)

    def _expand(
        self,
        node: MemoryObjectRef,
        neighbours: Sequence[Near],
        capped: bool,
        standing_of: StandingOf,
        spare: int,
    ) -> list[MemoryObjectRef]:
        admissible: list[tuple[Near, Standing]] = []
        for near in neighbours:
            standing = standing_of(near.other)
            if standing.denied:
                self.relations.setdefault(near.edge, self.depth)
                self.filtered.setdefault(near.other, standing.denied)
            else:
                admissible.append((near, standing))
        if len(admissible) > 1:
            admissible.sort(key=self._best_first)
        if capped or len(admissible) > self.limits.max_hub_edges:
            self._fail("hub_limit", node)
        retained = self._retain(node, admissible[: self.limits.max_hub_edges + spare], spare)
        kept = [near for near, standing in retained if standing.considered]
        self._expanded.append(_Expanded(node, admissible, kept, capped))
        reached = [near.other for near in kept if self._reach(near, spare)]
        if len(kept) < len(retained) and len(self.visited) >= self.limits.max_nodes:
            self._fail("node_limit", retained[len(kept)][0].other)
        return reached

    def _retain(
        self, node: MemoryObjectRef, candidates: list[tuple[Near, Standing]], spare: int
    ) -> list[tuple[Near, Standing]]:
        if len(candidates) <= self._total_cap and not (node == self.root and self.overrides):
            return candidates
        kept: list[tuple[Near, Standing]] = []
        used: dict[Pair, int] = {}
        for near, standing in candidates:
            if len(kept) >= self._total_cap + spare:
                break
            cap = self._cap(node, near.pair)
            if used.get(near.pair, 0) < (cap + spare if cap else 0):
                used[near.pair] = used.get(near.pair, 0) + 1
                kept.append((near, standing))
        return kept

    def _reach(self, near: Near, spare: int) -> bool:
        self.relations.setdefault(near.edge, self.depth)
        if near.other in self.visited:
            return False
        if len(self.visited) >= self.limits.max_nodes + spare:
            self._fail("node_limit", near.other)
            return False
        self.visited[near.other] = self.depth
        self.arrived[near.other] = near.edge
        return True

    def _best_first(self, candidate: tuple[Near, Standing]) -> tuple[bool, int, float, float, Tie]:
        near, standing = candidate
        group = 0
        for favoured in self.favoured:
            if near.other in favoured:
                break
            group += 1
        return (not standing.considered, group, -standing.salience, -standing.when, near.tie)

    def _stand_at(self, nodes: list[MemoryObjectRef]) -> None:
        self.frontier = nodes if self.depth < self.limits.max_depth else []

    def _cap(self, node: MemoryObjectRef, pair: Pair) -> int:
        static = self.limits.max_fanout_per_node
        return min(self.overrides.get(pair, static), static) if node == self.root else static

    def _fail(self, reason: BoundReason, at: MemoryObjectRef) -> None:
        self.failure = self.failure or Bounded(reason, at)
