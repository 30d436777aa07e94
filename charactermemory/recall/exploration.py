"""Reading the graph around the roots, one layer of all roots in one round trip.

What is read here suggests: statistics tell which neighbours are worth keeping, and the verdict that follows
decides what is admitted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from charactermemory.domain.kinds import RelationType
from charactermemory.domain.lifecycle import LifecyclePolicy
from charactermemory.errors import RetrievalStatsStoreError
from charactermemory.ids import MemoryObjectRef, ObjectType
from charactermemory.ports.graph import Edge, GraphStore, Neighbourhood, Spot
from charactermemory.ports.statistics import Hint
from charactermemory.recall.bearings import Cues
from charactermemory.recall.context import GraphLimits
from charactermemory.recall.expansion import Near, Pair, Walk, neighbours_of
from charactermemory.recall.selectivity import Plan, count_scope
from charactermemory.recall.standing import ASSUMED, Standing, hinted
from charactermemory.recall.trust import Trust

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

SPARED_TYPES = frozenset({ObjectType.ENTITY, ObjectType.MEMORY_THREAD})
"""Hubs of which a crowd is not read where the statistics know the best."""

FEW = 48
"""Up to so many objects everything is read of the graph, without weighing what is worth it."""

STATED_TYPES = frozenset(
    {ObjectType.EPISODE, ObjectType.OBSERVATION, ObjectType.DERIVED_MEMORY, ObjectType.MEMORY_THREAD}
)
"""The types whose states the statistics keep."""


@dataclass
class Exploration:
    """What was read around the roots.

    Attributes:
        around: the neighbours of each node that was read.
        capped: the nodes that have more than was read.
        crowds: those nodes with the relation of which they have more.
        suggested: edges among `around` that only the statistics know of.
        hints: how objects stand by the statistics.
        guessed: a cap chose among neighbours of which nothing was known, so that more were kept than it allows.
    """

    around: dict[MemoryObjectRef, tuple[Near, ...]] = field(default_factory=dict)
    capped: set[MemoryObjectRef] = field(default_factory=set)
    crowds: set[tuple[MemoryObjectRef, RelationType]] = field(default_factory=set)
    suggested: set[Edge] = field(default_factory=set)
    hints: dict[MemoryObjectRef, Standing] = field(default_factory=dict)
    guessed: bool = False

    @property
    def denied(self) -> set[MemoryObjectRef]:
        """What the statistics deny."""
        return {ref for ref, hint in self.hints.items() if hint.denied}

    def hint(self, ref: MemoryObjectRef) -> Standing:
        """Return how an object stands as far as is known."""
        return self.hints.get(ref, ASSUMED)


class Explorer:
    """Expands walks over what the graph holds, with the help of the statistics.

    Statistics that fail are marked unhealthy and done without.
    """

    def __init__(
        self,
        graph: GraphStore,
        trust: Trust,
        cues: Cues,
        limits: GraphLimits,
        policy: LifecyclePolicy,
        plans: Mapping[MemoryObjectRef, Plan],
    ) -> None:
        """Make an explorer; nothing is read yet."""
        self._plans = plans
        self._graph = graph
        self._trust = trust
        self._cues = cues
        self._limits = limits
        self._policy = policy
        self._sparing = True
        self._states: dict[MemoryObjectRef, Standing | None] = {}
        self.found = Exploration()

    def explore(self, walks: Sequence[Walk]) -> Exploration:
        """Expand all walks together, reading each layer once.

        Where an episode is come to, the turns beside the observations among the roots are looked up with it.

        Raises:
            StoreError: the graph failed.
        """
        found = self.found
        for walk in walks:
            walk.begin(ASSUMED)
        beside = self._cues.beside(walk.root for walk in walks)
        for depth in range(1, self._limits.max_depth + 1):
            last = depth == self._limits.max_depth
            self._read({node for walk in walks for node in walk.frontier}, beside, last)
            for walk in walks:
                walk.favoured = (self._cues.next_to(walk.root), self._cues.candidates)
            contested = set().union(*(walk.contested(found.around) for walk in walks))
            spare = 0
            if not self.weigh(contested, last):
                found.guessed, spare = True, self._limits.max_fanout_per_node
            for walk in walks:
                walk.advance(found.around, found.capped, found.hint, spare)
        return found

    def weigh(self, refs: Iterable[MemoryObjectRef], last: bool = False) -> bool:
        """Read how objects stand by the statistics; return whether that is known of all of them.

        What is read at the `last` layer brings along what will be weighed after it.
        """
        hints = self.found.hints
        wanted = [ref for ref in refs if ref.object_type in STATED_TYPES and ref not in hints]
        unknown = [ref for ref in wanted if ref not in self._states]
        if unknown:
            if not self._trust:
                return False
            if last:
                unknown = list(dict.fromkeys([*unknown, *self._weighed_next({}, last)]))
            try:
                self._note(unknown, self._trust.statistics.hints(unknown))
            except RetrievalStatsStoreError as error:
                self._trust.lost("state_read", error)
                return False
        known = [(ref, standing) for ref in wanted if (standing := self._states[ref]) is not None]
        hints.update(known)
        return len(known) == len(wanted)

    def _note(self, asked: Iterable[MemoryObjectRef], hints: Mapping[MemoryObjectRef, Hint]) -> None:
        for ref in asked:
            hint = hints.get(ref)
            self._states[ref] = None if hint is None else hinted(hint, self._policy)

    def _read(self, nodes: Collection[MemoryObjectRef], beside: Sequence[Spot], last: bool) -> None:
        fresh = sorted((node for node in nodes if node not in self.found.around), key=lambda node: node.order)
        if not fresh:
            return
        relations = sorted(self._limits.relations, key=lambda relation: relation.rank)
        episodes = {node for node in fresh if node.object_type is ObjectType.EPISODE}
        turns = [spot for spot in beside if spot[0] in episodes] if self._sees_turns else []
        cap = self._limits.max_hub_edges
        spared = self._spared(fresh)
        read = self._graph.neighbours(fresh, relations, cap, turns, spared)
        best = self._best(read, last)
        if wanting := self._wanting(spared, read, best):
            # Spared for the sake of statistics that turn out to be of little use; once is enough to know.
            self._sparing = False
            read |= self._graph.neighbours(wanting, relations, cap)
        for node, around in read.items():
            for position, observation in around.turns.items():
                self._cues.stands(observation, node, position)
            if around.capped:
                self.found.capped.add(node)
                self.found.crowds.update((node, relation) for relation, _ in around.capped)
            if more := [edge for edge in best.get(node, ()) if edge not in around.edges]:
                self.found.suggested.update(more)
                around = Neighbourhood((*around.edges, *more), around.capped)
            self.found.around[node] = neighbours_of(node, around, self._limits)

    @property
    def _sees_turns(self) -> bool:
        limits = self._limits
        return RelationType.OBSERVED_IN in limits.relations and ObjectType.OBSERVATION in limits.types

    def _spared(self, nodes: Iterable[MemoryObjectRef]) -> list[tuple[MemoryObjectRef, RelationType]]:
        """Return the hubs and relations of which the statistics know a better choice than some edges.

        Not those of an episode: which of its turns the topic found is known here alone. Nor any of which the
        counters tell that the statistics know fewer than would be kept.
        """
        if not self._sparing:
            return []
        return [
            (node, relation)
            for node in nodes
            if node.object_type in SPARED_TYPES
            for relation, kind in HUB_PAIRS.items()
            if relation in self._limits.relations and kind in self._limits.types
            if not self._knows_few(node, (relation, kind))
        ]

    def _knows_few(self, hub: MemoryObjectRef, pair: Pair) -> bool:
        plan = self._plans.get(hub)
        count = plan.count(pair) if plan else None
        return count is not None and count < self._limits.max_fanout_per_node

    def _wanting(
        self,
        spared: Iterable[tuple[MemoryObjectRef, RelationType]],
        read: Mapping[MemoryObjectRef, Neighbourhood],
        best: Mapping[MemoryObjectRef, Sequence[Edge]],
    ) -> list[MemoryObjectRef]:
        """Return the hubs whose crowd was spared though the statistics know too few to take its place."""
        return [
            node
            for node, relation in spared
            if (relation, False) in read[node].capped
            and sum(edge.relation is relation for edge in best.get(node, ()))
            < self._limits.max_fanout_per_node
        ]

    def _best(
        self, read: Mapping[MemoryObjectRef, Neighbourhood], last: bool
    ) -> dict[MemoryObjectRef, list[Edge]]:
        """Return edges to the best objects of hubs with more edges than were read, as the statistics know them.

        The states that will be asked for after this read are read along.
        """
        wanted = [
            (node, relation, kind)
            for node, around in read.items()
            if node.object_type in HUB_TYPES
            for relation, outgoing in sorted(around.capped)
            if not outgoing and (kind := HUB_PAIRS.get(relation)) in self._limits.types
        ]
        if not (wanted and self._trust):
            return {}
        others = self._weighed_next(read, last, len(wanted) * self._limits.max_fanout_per_node)
        try:
            best, hints = self._trust.statistics.best(
                wanted, count_scope(self._policy), self._limits.max_fanout_per_node, others
            )
        except RetrievalStatsStoreError as error:
            self._trust.lost("best_read", error)
            return {}
        self._note({*others, *hints}, hints)
        found: dict[MemoryObjectRef, list[Edge]] = {}
        for (node, relation, _), objects in best.items():
            found.setdefault(node, []).extend(Edge(ref, relation, node) for ref in objects)
        return found

    def _weighed_next(
        self, read: Mapping[MemoryObjectRef, Neighbourhood], last: bool, coming: int = 0
    ) -> list[MemoryObjectRef]:
        """Return what may be weighed after a layer was read: its neighbours, and at the end all that was met.

        `coming` is how many objects the statistics may still add.
        """
        met = {edge.other(node) for node, around in read.items() for edge in around.edges}
        if last:
            met.update(read, self.found.around)
            met.update(near.other for around in self.found.around.values() for near in around)
            if len(met) + coming > FEW:
                met |= self._cues.candidates.keys()
        return [ref for ref in met if ref.object_type in STATED_TYPES and ref not in self._states]
