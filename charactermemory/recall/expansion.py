"""Bounded expansion of one root: the pure rule (recall.md §5 as amended by DESIGN R10).

Breadth first, one depth layer at a time. The walk reads nothing: it says which nodes it stands at, is
handed their neighbourhoods, and decides. When a cap bites, the best neighbours stay: salience, then time,
both descending, then id. Neighbours that policy leaves out use up no place.
"""

from __future__ import annotations

from collections.abc import Mapping
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


@dataclass
class Walk:
    """The expansion of one root, and what it has found so far.

    Attributes:
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
    visited: dict[MemoryObjectRef, int] = field(default_factory=dict)
    arrived: dict[MemoryObjectRef, Edge] = field(default_factory=dict)
    relations: dict[Edge, int] = field(default_factory=dict)
    filtered: dict[MemoryObjectRef, Denial] = field(default_factory=dict)
    utilization: list[Utilization] = field(default_factory=list)
    failure: Bounded | None = None
    frontier: list[MemoryObjectRef] = field(default_factory=list)
    depth: int = 0
    missing: bool = False

    def __post_init__(self) -> None:
        if self.root.object_type is ObjectType.MEMORY_LINK:
            raise UnsupportedExpansionRoot(self.root)

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

    def edges_at(
        self, node: MemoryObjectRef, neighbourhoods: Mapping[MemoryObjectRef, Neighbourhood]
    ) -> list[Edge]:
        """Return the edges of `node` that may be walked at all."""
        around = neighbourhoods.get(node)
        relations, types = self.limits.relations, self.limits.types
        return [
            edge
            for edge in (around.edges if around else ())
            if edge.relation in relations and edge.other(node).object_type in types
        ]

    def contested(self, neighbourhoods: Mapping[MemoryObjectRef, Neighbourhood]) -> set[MemoryObjectRef]:
        """Return the neighbours of this layer that a cap may choose among, so that their standing matters."""
        known = set(self.visited)
        contested: set[MemoryObjectRef] = set()
        for node in self.frontier:
            edges = self.edges_at(node, neighbourhoods)
            others = {edge.other(node) for edge in edges}
            known |= others
            caps = {self._cap(node, (edge.relation, edge.other(node).object_type)) for edge in edges}
            if len(edges) > min(caps, default=0) or len(edges) > self._total_cap:
                contested |= others
        return known if len(known) > self.limits.max_nodes else contested

    def advance(
        self, neighbourhoods: Mapping[MemoryObjectRef, Neighbourhood], standing_of: StandingOf, spare: int = 0
    ) -> None:
        """Expand the frontier by one layer.

        Args:
            neighbourhoods: the edges of the frontier's nodes; a node without any is a leaf.
            standing_of: how each neighbour stands.
            spare: neighbours kept beyond each cap, where standings are guessed and a verdict is still to come.
        """
        layer, self.frontier = self.frontier, []
        self.depth += 1
        reached: list[MemoryObjectRef] = []
        for node in layer:
            reached += self._expand(node, neighbourhoods, standing_of, spare)
        self._stand_at(reached)

    def _expand(
        self,
        node: MemoryObjectRef,
        neighbourhoods: Mapping[MemoryObjectRef, Neighbourhood],
        standing_of: StandingOf,
        spare: int,
    ) -> list[MemoryObjectRef]:
        standings = {edge: standing_of(edge.other(node)) for edge in self.edges_at(node, neighbourhoods)}
        admissible = []
        for edge in sorted(standings, key=lambda edge: _edge_order(node, edge, standings[edge])):
            if denied := standings[edge].denied:
                self.relations.setdefault(edge, self.depth)
                self.filtered.setdefault(edge.other(node), denied)
            else:
                admissible.append(edge)
        capped = bool(neighbourhoods[node].capped) if node in neighbourhoods else False
        if capped or len(admissible) > self.limits.max_hub_edges:
            self._fail("hub_limit", node)
        retained = self._retain(node, admissible[: self.limits.max_hub_edges + spare], spare)
        kept = [edge for edge in retained if standings[edge].considered]
        self._record_utilization(node, admissible, kept, capped)
        reached = [ref for edge in kept if (ref := self._reach(node, edge, spare)) is not None]
        if len(kept) < len(retained) and len(self.visited) >= self.limits.max_nodes:
            self._fail("node_limit", retained[len(kept)].other(node))
        return reached

    def _retain(self, node: MemoryObjectRef, edges: list[Edge], spare: int) -> list[Edge]:
        kept: list[Edge] = []
        used: dict[Pair, int] = {}
        for edge in edges:
            pair = (edge.relation, edge.other(node).object_type)
            if len(kept) >= self._total_cap + spare:
                break
            cap = self._cap(node, pair)
            if used.get(pair, 0) < (cap + spare if cap else 0):
                used[pair] = used.get(pair, 0) + 1
                kept.append(edge)
        return kept

    def _reach(self, node: MemoryObjectRef, edge: Edge, spare: int) -> MemoryObjectRef | None:
        self.relations.setdefault(edge, self.depth)
        other = edge.other(node)
        if other in self.visited:
            return None
        if len(self.visited) >= self.limits.max_nodes + spare:
            self._fail("node_limit", other)
            return None
        self.visited[other] = self.depth
        self.arrived[other] = edge
        return other

    def _stand_at(self, nodes: list[MemoryObjectRef]) -> None:
        self.frontier = nodes if self.depth < self.limits.max_depth else []

    @property
    def _total_cap(self) -> int:
        return min(self.limits.max_fanout_per_node, self.limits.max_hub_edges)

    def _cap(self, node: MemoryObjectRef, pair: Pair) -> int:
        static = self.limits.max_fanout_per_node
        return min(self.overrides.get(pair, static), static) if node == self.root else static

    def _fail(self, reason: BoundReason, at: MemoryObjectRef) -> None:
        self.failure = self.failure or Bounded(reason, at)

    def _record_utilization(
        self, node: MemoryObjectRef, admissible: list[Edge], retained: list[Edge], capped: bool
    ) -> None:
        kept = set(retained)
        counts: dict[Pair, list[int]] = {}
        for edge in admissible:
            row = counts.setdefault((edge.relation, edge.other(node).object_type), [0, 0])
            row[edge not in kept] += 1
        for pair in sorted(counts, key=lambda item: (item[0].rank, item[1].rank)):
            held, omitted = counts[pair]
            self.utilization.append(
                Utilization(
                    node=node,
                    pair=pair,
                    configured_cap=self.limits.max_fanout_per_node,
                    selected_cap=self._cap(node, pair),
                    retained=held,
                    omitted=omitted,
                    at_least=capped,
                )
            )


def _edge_order(
    node: MemoryObjectRef, edge: Edge, standing: Standing
) -> tuple[bool, float, float, int, int, int, bool]:
    """Best neighbour first, then id, type rank, relation rank, outgoing before incoming: a total order."""
    other = edge.other(node)
    return (
        not standing.considered,
        -standing.salience,
        -standing.time.timestamp() if standing.time else 0.0,
        other.id.int,
        other.object_type.rank,
        edge.relation.rank,
        edge.source != node,
    )
