"""One verdict: existence, lifecycle and content of everything admitted, from one read (consistency.md R10a)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from charactermemory.domain.kinds import RelationType
from charactermemory.domain.lifecycle import LifecyclePolicy, Stored
from charactermemory.domain.objects import DerivedMemory, Episode, MemoryObject, Observation
from charactermemory.ids import MemoryId, MemoryObjectRef, ObjectType
from charactermemory.ports.graph import Edge, GraphStore
from charactermemory.recall.expansion import Walk
from charactermemory.recall.exploration import Exploration, with_edges
from charactermemory.recall.standing import ASSUMED, MISSING, Standing, judged


@dataclass
class Verdict:
    """The graph's word on everything that was considered."""

    policy: LifecyclePolicy
    considered: frozenset[MemoryObjectRef]
    stored: Mapping[MemoryObjectRef, Stored]
    hints: Mapping[MemoryObjectRef, Standing]
    _standings: dict[MemoryObjectRef, Standing] = field(default_factory=dict)

    def standing(self, ref: MemoryObjectRef) -> Standing:
        """Return how an object stands; of one that was not considered, what statistics say of its place."""
        if ref not in self.considered:
            return replace(self.hints.get(ref, ASSUMED), denied=None, considered=False)
        if ref not in self._standings:
            self._standings[ref] = self._judge(ref)
        return self._standings[ref]

    def _judge(self, ref: MemoryObjectRef) -> Standing:
        found = self.stored.get(ref)
        if found is None:
            return MISSING
        instant = None
        if isinstance(found.object, Observation):
            episode = self.stored.get(episode_ref(found.object))
            if episode is not None and isinstance(episode.object, Episode):
                instant = episode.object.scene.instant
        return judged(found, self.policy, instant)

    def content(self, ref: MemoryObjectRef) -> MemoryObject:
        """Return the object itself; it must be stored."""
        return self.stored[ref].object

    def superseded_by(self, ref: MemoryObjectRef) -> tuple[MemoryId, ...]:
        """Return the sorted successors of an object."""
        found = self.stored.get(ref)
        return tuple(sorted(found.superseded_by, key=lambda item: item.int)) if found else ()


def episode_ref(observation: Observation) -> MemoryObjectRef:
    """Return the reference to an observation's episode."""
    return MemoryObjectRef.of(ObjectType.EPISODE, observation.episode_id)


def judge(
    graph: GraphStore, walks: Sequence[Walk], found: Exploration, policy: LifecyclePolicy
) -> tuple[Verdict, list[Walk]]:
    """Read everything the walks came to in one read, and walk again by what it says.

    The same rule runs over the same neighbourhoods, so a memory that was reached only through one that is
    now denied is not admitted either. Edges that only statistics told of count if the content confirms them.
    """
    considered = {walk.root for walk in walks}
    for walk in walks:
        considered |= walk.visited.keys() | walk.filtered.keys()
    stored = graph.read(sorted(considered)) if considered else {}
    verdict = Verdict(policy, frozenset(considered), stored, found.hints)
    confirmed = {
        node: tuple(
            edge for edge in edges if edge.source in stored and _states(stored[edge.source].object, edge)
        )
        for node, edges in found.suggested.items()
    }
    around = with_edges(found.neighbourhoods, confirmed)
    final = [Walk(walk.root, walk.limits, walk.overrides) for walk in walks]
    for walk in final:
        walk.begin(verdict.standing(walk.root))
        while walk.frontier:
            walk.advance(around, verdict.standing)
    return verdict, final


def _states(item: MemoryObject, edge: Edge) -> bool:
    """Whether an object's own fields state the edge (decisions R2: a reference field is a relation)."""
    target = edge.target.id
    match item, edge.relation:
        case Episode(), RelationType.INVOLVES:
            return target in item.scene.participant_keys
        case Observation(), RelationType.OBSERVED_IN:
            return target == item.episode_id
        case DerivedMemory(), RelationType.ABOUT:
            return target in item.entity_ids
        case DerivedMemory(), RelationType.PART_OF_THREAD:
            return target in item.thread_ids
        case DerivedMemory(), RelationType.DERIVED_FROM:
            return target in item.derived_from_episode_ids
    return False
