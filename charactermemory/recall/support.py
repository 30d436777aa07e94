"""What the graph says of a match: a conclusion and what it rests on speak for each other, and so, a little,
do things of one thread or about one notion (docs/recall-tuning.md).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from charactermemory.domain.kinds import RelationType
from charactermemory.ids import MemoryObjectRef, ObjectType
from charactermemory.recall.bearings import EPISODE_BEST, Bearing
from charactermemory.recall.expansion import Walk

SOURCE_SHARE = 0.3
"""What a derived memory gets of its best source's own score, and a source of its best conclusion's."""
SHARED_SHARE = 0.1
"""What the matching things of one thread or notion get of their mean best scores."""
_SHARING = frozenset({RelationType.ABOUT, RelationType.PART_OF_THREAD})
_TELLING = _SHARING | {RelationType.DERIVED_FROM}
_HUBS = frozenset({ObjectType.ENTITY, ObjectType.MEMORY_THREAD})


def support(
    walks: Sequence[Walk],
    bearings: Mapping[MemoryObjectRef, Bearing],
    named: Collection[MemoryObjectRef],
    hubs: Collection[MemoryObjectRef],
) -> tuple[dict[MemoryObjectRef, float], set[MemoryObjectRef]]:
    """Return what supports each admitted object, and the matching memories held about someone named.

    `hubs`, which have more neighbours than were read, connect too much to say anything.
    """
    edges = [
        edge
        for walk in walks
        for edge in walk.relations
        if edge.relation in _TELLING and edge.source in walk.visited and edge.target in walk.visited
    ]
    best: defaultdict[MemoryObjectRef, float] = defaultdict(float)
    members: defaultdict[MemoryObjectRef, set[MemoryObjectRef]] = defaultdict(set)
    about: set[MemoryObjectRef] = set()
    for edge in edges:
        if edge.relation is RelationType.DERIVED_FROM:
            for end, other in ((edge.source, edge.target), (edge.target, edge.source)):
                bearing = bearings.get(other)
                if bearing is not None:
                    best[end] = max(best[end], SOURCE_SHARE * bearing.own)
        elif edge.relation in _SHARING and edge.target.object_type in _HUBS:
            bearing = bearings.get(edge.source)
            if bearing is None or not bearing.matched:
                continue
            if edge.target not in hubs:
                members[edge.target].add(edge.source)
            if edge.relation is RelationType.ABOUT and edge.target in named:
                about.add(edge.source)
    shared: defaultdict[MemoryObjectRef, float] = defaultdict(float)
    for hub, items in members.items():
        if len(items) < 2:
            continue
        top = sorted((bearings[item].own for item in items), reverse=True)[:EPISODE_BEST]
        share = SHARED_SHARE * sum(top) / EPISODE_BEST
        for item in (hub, *items):
            shared[item] = max(shared[item], share)
    found = {ref: best[ref] + shared[ref] for ref in {*best, *shared} if best[ref] + shared[ref] > 0}
    return found, about
