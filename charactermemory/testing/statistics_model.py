"""Projections for tests of statistics stores, and the plain recount that a store must agree with."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

from charactermemory.domain.kinds import RelationType
from charactermemory.ids import MemoryObjectRef, ObjectType
from charactermemory.ports.statistics import (
    Count,
    CountScope,
    Hint,
    HubEdge,
    ObjectState,
    Projection,
    StatisticsStore,
)

NOON = datetime(2026, 3, 14, 12, 0, tzinfo=UTC)
ABOUT = RelationType.ABOUT
DERIVED = ObjectType.DERIVED_MEMORY
SCOPES: tuple[CountScope, ...] = ("total", "active", "current")


def best_of(
    store: StatisticsStore,
    hub: MemoryObjectRef,
    relation: RelationType,
    object_type: ObjectType,
    scope: CountScope,
    limit: int,
) -> list[MemoryObjectRef]:
    """Return the best objects of one hub."""
    key = (hub, relation, object_type)
    return store.best([key], scope, limit).objects.get(key, [])


def counts_of(
    store: StatisticsStore,
    hubs: Collection[MemoryObjectRef],
    relation: RelationType,
    object_type: ObjectType,
) -> dict[MemoryObjectRef, Count]:
    """Return the counts of hubs by one pair; raise what keeps it from being read."""
    found = store.counts(hubs, [(relation, object_type)])
    if found.error:
        raise found.error
    return {hub: count for (hub, _), count in found.at.items()}


def overall_of(store: StatisticsStore, relation: RelationType, object_type: ObjectType) -> Count | None:
    """Return the count of one pair over all hubs; raise what keeps it from being read."""
    found = store.counts([], [(relation, object_type)])
    if found.error:
        raise found.error
    return found.overall.get((relation, object_type))


def notion(number: int) -> MemoryObjectRef:
    """Name the notion whose id is `number`."""
    return MemoryObjectRef.of(ObjectType.ENTITY, UUID(int=number))


def memory(number: int, object_type: ObjectType = DERIVED) -> MemoryObjectRef:
    """Name the derived memory, or other object, whose id is `number`."""
    return MemoryObjectRef.of(object_type, UUID(int=number))


def state(
    ref: MemoryObjectRef,
    *,
    suppressed: bool = False,
    superseded: bool = False,
    salience: float = 0.5,
    minutes: float = 0,
) -> ObjectState:
    """Make a state; a current one at noon unless told otherwise."""
    when = NOON + timedelta(minutes=minutes)
    return ObjectState(
        ref=ref,
        suppressed=suppressed,
        current=not suppressed and not superseded,
        salience=salience,
        memory_time=when,
        month_day=when.strftime("%m-%d"),
    )


def hint(item: ObjectState) -> Hint:
    """Return what a store hints at a state."""
    return Hint(item.suppressed, item.current, item.salience, item.memory_time.timestamp())


def about(hub: MemoryObjectRef, *states: ObjectState) -> Projection:
    """Make the projection of some memories about one hub."""
    return Projection(states, tuple(HubEdge(hub, ABOUT, item.ref) for item in states))


def merged_states(projections: Iterable[Projection]) -> dict[MemoryObjectRef, ObjectState]:
    """Return what several projections say of each object together: the most restrictive.

    What an object is worth must be the same in all of them, as it is in a graph that only grows.
    """
    merged: dict[MemoryObjectRef, ObjectState] = {}
    for projection in projections:
        for item in projection.states:
            old = merged.get(item.ref, item)
            suppressed = old.suppressed or item.suppressed
            current = old.current and item.current and not suppressed
            merged[item.ref] = replace(item, suppressed=suppressed, current=current)
    return merged


def assert_equal_to_recount(store: StatisticsStore, projections: Sequence[Projection]) -> None:
    """Assert that states, edges, counters and best lists are those of a plain recount of `projections`."""
    states = merged_states(projections)
    edges = list(dict.fromkeys(edge for projection in projections for edge in projection.edges))
    assert store.states(list(states)) == states
    hints = {ref: hint(item) for ref, item in states.items()}
    assert store.hints(list(states)) == hints
    assert store.scan(None, len(states) + 1) == [states[ref] for ref in sorted(states)]
    by_object: defaultdict[MemoryObjectRef, set[HubEdge]] = defaultdict(set)
    for edge in edges:
        by_object[edge.object].add(edge)
    assert store.edges_of(list(by_object)) == by_object
    hubs = {edge.hub for edge in edges}
    for relation, object_type in dict.fromkeys((edge.relation, edge.object.object_type) for edge in edges):
        at_hub: defaultdict[MemoryObjectRef, list[MemoryObjectRef]] = defaultdict(list)
        for edge in edges:
            if (edge.relation, edge.object.object_type) == (relation, object_type):
                at_hub[edge.hub].append(edge.object)
        everywhere = [ref for objects in at_hub.values() for ref in objects]
        assert overall_of(store, relation, object_type) == _count(everywhere, states)
        counts = {hub: _count(objects, states) for hub, objects in at_hub.items()}
        assert counts_of(store, list(hubs), relation, object_type) == counts
        for hub, objects in at_hub.items():
            for scope in SCOPES:
                best = sorted(_in_scope(objects, states, scope), key=lambda ref: _rank(ref, states.get(ref)))
                key = (hub, relation, object_type)
                found = store.best([key], scope, len(objects))
                assert found.objects.get(key, []) == best
                # An edge without its object's state, which no graph's projection has, may hint at anything.
                known = {ref: said for ref, said in found.hints.items() if ref in hints}
                assert known == {ref: hints[ref] for ref in best if ref in hints}


def _in_scope(
    objects: Iterable[MemoryObjectRef], states: Mapping[MemoryObjectRef, ObjectState], scope: CountScope
) -> list[MemoryObjectRef]:
    def inside(item: ObjectState | None) -> bool:
        if item is None or scope == "total":
            return True
        return not item.suppressed if scope == "active" else item.current

    return [ref for ref in objects if inside(states.get(ref))]


def _count(objects: Sequence[MemoryObjectRef], states: Mapping[MemoryObjectRef, ObjectState]) -> Count:
    return Count(*(len(_in_scope(objects, states, scope)) for scope in SCOPES))


def _rank(ref: MemoryObjectRef, item: ObjectState | None) -> tuple[float, float, int]:
    if item is None:
        return (0.0, 0.0, ref.id.int)
    return (-item.salience, -item.memory_time.timestamp(), ref.id.int)


def random_projections(seed: int, count: int) -> list[Projection]:
    """Make projections over a few objects and hubs, with what the objects are worth fixed by their ids."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    types = (ObjectType.EPISODE, ObjectType.OBSERVATION, DERIVED)
    made = []
    for _ in range(count):
        refs = [memory(rng.randrange(1, 9), rng.choice(types)) for _ in range(rng.randrange(4))]
        states = [
            state(
                ref,
                suppressed=rng.random() < 0.15,
                superseded=rng.random() < 0.15,
                salience=ref.id.int % 3 / 2,
                minutes=ref.id.int % 2,
            )
            for ref in refs
        ]
        relations = (ABOUT, RelationType.INVOLVES)
        edges = [
            HubEdge(notion(rng.randrange(1, 4)), rng.choice(relations), ref)
            for ref in refs
            for _ in range(rng.randrange(3))
        ]
        if rng.random() < 0.3:
            edges.append(HubEdge(notion(1), RelationType.ASSOCIATED_WITH, notion(rng.randrange(2, 5))))
        made.append(Projection(tuple(states), tuple(edges)))
    return made
