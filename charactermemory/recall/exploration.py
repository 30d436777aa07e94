"""Reading the graph around the roots, one layer of all roots in one round trip.

What is read here suggests: statistics tell which neighbours are worth keeping, and the verdict that follows
decides what is admitted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from charactermemory.domain.kinds import RelationType
from charactermemory.domain.lifecycle import LifecyclePolicy
from charactermemory.errors import RetrievalStatsStoreError
from charactermemory.ids import MemoryObjectRef, ObjectType
from charactermemory.ports.graph import Edge, Neighbourhood
from charactermemory.ports.stores import Stores
from charactermemory.recall.context import GraphLimits
from charactermemory.recall.expansion import Walk
from charactermemory.recall.selectivity import count_scope, distrust
from charactermemory.recall.standing import ASSUMED, Standing, hinted

HUB_PAIRS: dict[RelationType, ObjectType] = {
    RelationType.ABOUT: ObjectType.DERIVED_MEMORY,
    RelationType.INVOLVES: ObjectType.EPISODE,
    RelationType.PART_OF_THREAD: ObjectType.DERIVED_MEMORY,
    RelationType.OBSERVED_IN: ObjectType.OBSERVATION,
    RelationType.DERIVED_FROM: ObjectType.DERIVED_MEMORY,
}
"""What points at a hub by a field of its own, so that its content can confirm the edge."""

HUB_TYPES = frozenset({ObjectType.ENTITY, ObjectType.MEMORY_THREAD, ObjectType.EPISODE})
"""The types whose edges the statistics keep (decisions R11)."""

STATED_TYPES = frozenset(
    {ObjectType.EPISODE, ObjectType.OBSERVATION, ObjectType.DERIVED_MEMORY, ObjectType.MEMORY_THREAD}
)
"""The types whose states the statistics keep."""


@dataclass
class Exploration:
    """What was read: neighbourhoods by node, edges only the statistics know of, and states."""

    neighbourhoods: dict[MemoryObjectRef, Neighbourhood] = field(default_factory=dict)
    suggested: dict[MemoryObjectRef, tuple[Edge, ...]] = field(default_factory=dict)
    hints: dict[MemoryObjectRef, Standing] = field(default_factory=dict)

    def around(self) -> dict[MemoryObjectRef, Neighbourhood]:
        """Return the neighbourhoods with the suggested edges among them."""
        return with_edges(self.neighbourhoods, self.suggested)


def with_edges(
    neighbourhoods: dict[MemoryObjectRef, Neighbourhood], more: dict[MemoryObjectRef, tuple[Edge, ...]]
) -> dict[MemoryObjectRef, Neighbourhood]:
    """Return `neighbourhoods` with further edges, each edge once."""
    if not more:
        return neighbourhoods
    merged = dict(neighbourhoods)
    for node, edges in more.items():
        known = merged[node]
        merged[node] = Neighbourhood(tuple(dict.fromkeys((*known.edges, *edges))), known.capped)
    return merged


def explore(
    stores: Stores, walks: Sequence[Walk], limits: GraphLimits, policy: LifecyclePolicy
) -> Exploration:
    """Expand all walks together, reading each layer once.

    Raises:
        StoreError: the graph failed. Statistics that fail are marked unhealthy and done without.
    """
    found = Exploration()
    relations = sorted(limits.relations, key=lambda relation: relation.rank)
    for walk in walks:
        walk.begin(ASSUMED)
    for _ in range(limits.max_depth):
        fresh = sorted({node for walk in walks for node in walk.frontier} - found.neighbourhoods.keys())
        if fresh:
            found.neighbourhoods |= stores.graph.neighbours(fresh, relations, limits.max_hub_edges)
            _suggest(stores, found, fresh, limits, policy)
        around = found.around()
        contested = set().union(*(walk.contested(around) for walk in walks))
        spare = limits.max_fanout_per_node if _hint(stores, found, contested, policy) else 0
        for walk in walks:
            walk.advance(around, lambda ref: found.hints.get(ref, ASSUMED), spare)
    return found


def _suggest(
    stores: Stores,
    found: Exploration,
    nodes: Iterable[MemoryObjectRef],
    limits: GraphLimits,
    policy: LifecyclePolicy,
) -> None:
    """Ask the statistics for the best objects of hubs with more edges than were read."""
    try:
        for node in nodes:
            if node.object_type not in HUB_TYPES or node not in found.neighbourhoods:
                continue
            edges: list[Edge] = []
            for relation, outgoing in sorted(found.neighbourhoods[node].capped):
                kind = HUB_PAIRS.get(relation)
                if outgoing or kind is None or kind not in limits.types:
                    continue
                best = stores.statistics.best(
                    node, relation, kind, count_scope(policy), limits.max_fanout_per_node
                )
                edges += [Edge(ref, relation, node) for ref in best]
            if edges:
                found.suggested[node] = tuple(edges)
    except RetrievalStatsStoreError as error:
        distrust(stores.statistics, "best_read", error)


def _hint(
    stores: Stores, found: Exploration, contested: Iterable[MemoryObjectRef], policy: LifecyclePolicy
) -> bool:
    """Read the states of contested neighbours; return whether any of them is left without one."""
    wanted = sorted(ref for ref in contested if ref.object_type in STATED_TYPES and ref not in found.hints)
    if not wanted:
        return False
    try:
        if stores.statistics.health(0).state == "unhealthy":
            return True
        states = stores.statistics.states(wanted)
    except RetrievalStatsStoreError as error:
        distrust(stores.statistics, "state_read", error)
        return True
    found.hints |= {ref: hinted(state, policy) for ref, state in states.items()}
    return len(states) < len(wanted)
