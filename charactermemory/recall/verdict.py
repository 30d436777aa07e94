"""One verdict: existence, lifecycle and content of everything admitted, from one read (consistency.md R10a)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from charactermemory.domain.kinds import RelationType
from charactermemory.domain.lifecycle import LifecyclePolicy, Stored
from charactermemory.domain.objects import DerivedMemory, Episode, MemoryObject, Observation
from charactermemory.ids import MemoryId, MemoryObjectRef, ObjectType
from charactermemory.ports.graph import Edge, GraphStore
from charactermemory.recall.expansion import Surroundings, Walk
from charactermemory.recall.exploration import Exploration
from charactermemory.recall.standing import MISSING, Standing, judged, seconds


@dataclass
class Verdict:
    """The graph's word on what was read.

    Attributes:
        policy: what the caller wants to see of the suppressed and superseded.
        considered: all that the walks came to.
        read: those that were read; the others do not get into the pack.
        stored: what is stored of those.
        found: what was known before.
    """

    policy: LifecyclePolicy
    considered: Collection[MemoryObjectRef]
    read: Collection[MemoryObjectRef]
    stored: Mapping[MemoryObjectRef, Stored]
    found: Exploration
    _standings: dict[MemoryObjectRef, Standing] = field(default_factory=dict)

    def standing(self, ref: MemoryObjectRef) -> Standing:
        """Return how an object stands; of one that was not read, what is known of its place."""
        known = self._standings.get(ref)
        if known is None:
            known = self._standings[ref] = self._judge(ref)
        return known

    @cached_property
    def denied(self) -> set[MemoryObjectRef]:
        """What was found and is not to be shown; it must not raise its neighbours either."""
        hinted = {ref for ref, hint in self.found.hints.items() if hint.denied and ref not in self.read}
        return hinted.union(ref for ref in self.read if self.standing(ref).denied)

    def _judge(self, ref: MemoryObjectRef) -> Standing:
        if ref not in self.read:
            hint = self.found.hint(ref)
            return hint if ref in self.considered else hint._replace(considered=False)
        found = self.stored.get(ref)
        if found is None:
            return MISSING
        known = self.found.hints.get(ref)
        if known is not None:
            # The statistics know the time of an observation's episode, which may not have been read.
            return judged(found, self.policy, known.when)
        instant = None
        if isinstance(found.object, Observation):
            episode = self.stored.get(MemoryObjectRef.of(ObjectType.EPISODE, found.object.episode_id))
            if episode is not None and isinstance(episode.object, Episode):
                instant = episode.object.scene.instant
        return judged(found, self.policy, seconds(found.object, instant))

    def surprising(self, times: bool) -> bool:
        """Whether anything weighs otherwise than was known, or, where `times` matter, happened at another.

        What is denied otherwise makes the walks go anew.
        """
        known = ((self.standing(ref), self.found.hint(ref)) for ref in self.stored)
        return any(now.salience != then.salience or (times and now.when != then.when) for now, then in known)

    def contradicts(self, walk: Walk) -> bool:
        """Whether the walk would go otherwise, knowing what is known now.

        Compared with what the walk did, not with the hints: some of those came only after it, or between two of
        its layers, so that it left out later what it had admitted before.
        """
        if self.denied and not self.denied.isdisjoint({walk.root, *walk.visited} - walk.filtered.keys()):
            return True
        return any(
            self.standing(ref).denied != (None if ref in walk.visited else denial)
            for ref, denial in walk.filtered.items()
        )

    def content(self, ref: MemoryObjectRef) -> MemoryObject | None:
        """Return the object itself; None if it was not read."""
        found = self.stored.get(ref)
        return found.object if found else None

    def superseded_by(self, ref: MemoryObjectRef) -> tuple[MemoryId, ...]:
        """Return the sorted successors of an object, as far as it was read."""
        found = self.stored.get(ref)
        return tuple(sorted(found.superseded_by, key=lambda item: item.int)) if found else ()


def judge(
    graph: GraphStore,
    walks: Sequence[Walk],
    found: Exploration,
    policy: LifecyclePolicy,
    considered: Collection[MemoryObjectRef],
    worth: Collection[MemoryObjectRef],
) -> tuple[Verdict, Sequence[Walk]]:
    """Read what is worth reading, in one read, and walk again by what it says.

    The same rule runs over the same neighbourhoods, so a memory that was reached only through one that is
    now denied is not admitted either. Edges that only statistics told of count if the content confirms them.
    Where nothing that was assumed is denied, the same walks are returned.
    """
    stored = graph.read(sorted(worth)) if worth else {}
    verdict = Verdict(policy, considered, worth, stored, found)
    unconfirmed = {
        edge for edge in found.suggested if (item := verdict.content(edge.source)) and not _states(item, edge)
    }
    if not (unconfirmed or found.guessed or any(map(verdict.contradicts, walks))):
        return verdict, walks
    around: Surroundings = found.around
    if unconfirmed:
        around = {
            node: [near for near in neighbours if near.edge not in unconfirmed]
            for node, neighbours in found.around.items()
        }
    final = [Walk(walk.root, walk.limits, walk.overrides, walk.favoured) for walk in walks]
    for walk in final:
        walk.begin(verdict.standing(walk.root))
        while walk.frontier:
            walk.advance(around, found.capped, verdict.standing)
    return verdict, final


def _states(item: MemoryObject, edge: Edge) -> bool:
    """Whether an object's own fields state the edge (a reference field is a relation)."""
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
