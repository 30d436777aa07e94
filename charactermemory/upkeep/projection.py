"""What stored objects contribute to the statistics: their states and hub edges (recall.md §13, DESIGN R11).

Pure: everything follows from the objects and the lifecycle read with them, so projecting a graph again gives
the same rows. A hub is a notion, a thread or an episode.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import ClassVar

from charactermemory.domain.kinds import RelationType
from charactermemory.domain.lifecycle import Stored
from charactermemory.domain.objects import (
    DerivedMemory,
    Entity,
    Episode,
    MemoryLink,
    MemoryObject,
    Observation,
    memory_time,
)
from charactermemory.domain.scene import Scene
from charactermemory.errors import CharacterMemoryError
from charactermemory.ids import MemoryObjectRef, ObjectType
from charactermemory.ports.statistics import HubEdge, ObjectState, Projection

HUB_TYPES = frozenset({ObjectType.ENTITY, ObjectType.MEMORY_THREAD, ObjectType.EPISODE})
"""Types that edges are counted at."""
STATE_TYPES = frozenset(
    {ObjectType.EPISODE, ObjectType.OBSERVATION, ObjectType.DERIVED_MEMORY, ObjectType.MEMORY_THREAD}
)
"""Types that have a state."""


@dataclass(eq=False)
class MissingEnds(CharacterMemoryError):
    """Objects that the projection rests on were not given; report it as a `graph_read` cause.

    Attributes:
        references: the missing objects, in stable order.
        projection: all of what does not rest on them, ready to be applied.
    """

    code: ClassVar[str] = "missing_ends"
    references: tuple[MemoryObjectRef, ...]
    projection: Projection

    def describe(self) -> str:
        """Name each missing object."""
        return "not in the graph: " + ", ".join(str(ref) for ref in self.references)


def wanted_ends(
    stored: Iterable[Stored], ends: Mapping[MemoryObjectRef, Stored] | None = None
) -> frozenset[MemoryObjectRef]:
    """Return what has to be read beside `stored` for `project`, less what `ends` holds already.

    These are the ends of links that have a state, and the episodes of observations. An end that is an
    observation brings its episode into play only when it was read, so ask twice:

        ends = graph.read(wanted_ends(stored))
        ends |= graph.read(wanted_ends(stored, ends))
    """
    given = dict(ends or {}) | {item.ref: item for item in stored}
    wanted = {end for item in given.values() for end in _rests_on(item.object)}
    return frozenset(wanted - given.keys())


def project(stored: Iterable[Stored], ends: Mapping[MemoryObjectRef, Stored]) -> Projection:
    """Return the states of `stored` and of the objects at the far side of its edges, and those edges.

    States have episodes, observations, derived memories and threads. Edges follow from fields: an episode at
    each distinct participant key (involves), an observation at its episode (observed_in), a derived memory at
    each notion (about), thread (part_of_thread) and source episode (derived_from). A link is an edge at every
    end that is a hub, unless its other end is a link. Edges with equal (hub, relation, object) are one.

    Args:
        stored: the objects and links to project, with their lifecycle.
        ends: at least the objects of `wanted_ends` that exist, read from the same graph.

    Raises:
        MissingEnds: some of those are not there; it carries the projection of everything else.
    """
    own = {item.ref: item for item in stored}
    known = dict(ends) | own
    states: dict[MemoryObjectRef, ObjectState] = {}
    edges: set[HubEdge] = set()
    missing: set[MemoryObjectRef] = set()
    for item in own.values():
        item_edges = tuple(_edges(item.object))
        stateful = {edge.object for edge in item_edges} | {item.ref}
        stateful = {ref for ref in stateful if ref.object_type in STATE_TYPES}
        lacking = _lacking(stateful, known)
        missing |= lacking
        if lacking:
            continue
        edges.update(item_edges)
        for ref in stateful:
            if ref not in states:
                states[ref] = _state(known[ref], known)
    projection = Projection(
        states=tuple(states[ref] for ref in sorted(states)),
        edges=tuple(sorted(edges, key=lambda edge: (edge.hub.order, edge.relation.rank, edge.object.order))),
    )
    if missing:
        raise MissingEnds(tuple(sorted(missing)), projection)
    return projection


def _edges(item: MemoryObject) -> Iterator[HubEdge]:
    match item:
        case Episode():
            for key in item.scene.participant_keys:
                yield HubEdge(MemoryObjectRef.of(ObjectType.ENTITY, key), RelationType.INVOLVES, item.ref)
        case Observation():
            yield HubEdge(_episode_of(item), RelationType.OBSERVED_IN, item.ref)
        case DerivedMemory():
            for notion in item.entity_ids:
                yield HubEdge(MemoryObjectRef.of(ObjectType.ENTITY, notion), RelationType.ABOUT, item.ref)
            for thread in item.thread_ids:
                hub = MemoryObjectRef.of(ObjectType.MEMORY_THREAD, thread)
                yield HubEdge(hub, RelationType.PART_OF_THREAD, item.ref)
            for episode in item.derived_from_episode_ids:
                hub = MemoryObjectRef.of(ObjectType.EPISODE, episode)
                yield HubEdge(hub, RelationType.DERIVED_FROM, item.ref)
        case MemoryLink():
            for hub, other in ((item.source, item.target), (item.target, item.source)):
                if hub.object_type in HUB_TYPES and other.object_type is not ObjectType.MEMORY_LINK:
                    yield HubEdge(hub, item.relation, other)
        case _:
            pass


def _rests_on(item: MemoryObject) -> Iterator[MemoryObjectRef]:
    """Yield the other objects that the states of an object and of its edges are made from."""
    if isinstance(item, Observation):
        yield _episode_of(item)
    elif isinstance(item, MemoryLink):
        for edge in _edges(item):
            if edge.object.object_type in STATE_TYPES:
                yield edge.object


def _lacking(stateful: set[MemoryObjectRef], known: Mapping[MemoryObjectRef, Stored]) -> set[MemoryObjectRef]:
    """Return what is not known of objects and of what their states are made from."""
    parents = {parent for ref in stateful if ref in known for parent in _rests_on(known[ref].object)}
    # Not `- known.keys()`: that walks all of `known` for every object.
    return {ref for ref in stateful | parents if ref not in known}


def _state(item: Stored, known: Mapping[MemoryObjectRef, Stored]) -> ObjectState:
    value = item.object
    if isinstance(value, Entity | MemoryLink):
        raise TypeError(f"{item.ref} has no state")
    zone: tzinfo = UTC
    when = memory_time(value)
    if isinstance(value, Episode | Observation):
        scene = _scene_of(value, known)
        when, zone = memory_time(value, scene.instant), scene.time.tzinfo or UTC
    return ObjectState(
        ref=item.ref,
        suppressed=item.suppressed,
        current=item.current,
        salience=value.salience_score,
        memory_time=when,
        month_day=_month_day(when, zone),
    )


def _scene_of(value: Episode | Observation, known: Mapping[MemoryObjectRef, Stored]) -> Scene:
    episode = known[_episode_of(value)].object if isinstance(value, Observation) else value
    if not isinstance(episode, Episode):
        raise TypeError(f"{episode.ref} is given as an episode")
    return episode.scene


def _month_day(when: datetime, zone: tzinfo) -> str:
    try:
        local = when.astimezone(zone)
    except OverflowError:  # the first or last hours that a datetime can hold
        local = when
    return f"{local.month:02}-{local.day:02}"


def _episode_of(observation: Observation) -> MemoryObjectRef:
    return MemoryObjectRef.of(ObjectType.EPISODE, observation.episode_id)
