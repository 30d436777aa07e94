"""Merging a projection into one generation's rows, counters included (recall.md §13.1-13.3).

The same rules as everywhere (`charactermemory.ports.merging`), in a number of queries that does not grow with
the projection. The caller holds the collection's health row locked, so that no one else merges meanwhile.
"""

from __future__ import annotations

from charactermemory.ids import MemoryObjectRef
from charactermemory.ports.merging import UNWEIGHTED, CounterChanges, Weight, weight_of
from charactermemory.ports.statistics import HubEdge, HubKey, Projection
from memory_app.statistics.rows import Generation, TotalKey


def merge(rows: Generation, projection: Projection) -> None:
    """Merge `projection` into `rows`."""
    changes: CounterChanges[HubKey] = CounterChanges()
    edges = set(projection.edges)
    recorded = rows.weights({state.ref for state in projection.states} | {edge.object for edge in edges})
    weights = dict(recorded)
    for state in projection.states:
        new, old = weight_of(state), weights.get(state.ref)
        weights[state.ref] = old.merged(new) if old else new
    changed = {ref: weight for ref, weight in weights.items() if weight != recorded.get(ref)}
    writing = _moved(rows, changed, changes)
    new_edges = {edge for edge in edges if edge not in writing}
    for edge in new_edges - rows.known_edges({edge for edge in new_edges if edge.object not in changed}):
        weight = writing[edge] = weights.get(edge.object, UNWEIGHTED)
        changes.edge_added(_counter(edge), weight.standing)
    rows.write_states(changed)
    rows.write_edges(writing)
    if changes.by_hub:
        rows.add_to_hubs(changes.by_hub)
        rows.add_to_totals(changes.overall(_without_hub))


def _moved(
    rows: Generation, changed: dict[MemoryObjectRef, Weight], changes: CounterChanges[HubKey]
) -> dict[HubEdge, Weight]:
    """Carry changed states over to all recorded edges of their objects; return those edges."""
    moved: dict[HubEdge, Weight] = {}
    for edge, standing in rows.edges_of(changed.keys()).items():
        weight = moved[edge] = changed[edge.object]
        changes.edge_moved(_counter(edge), standing, weight.standing)
    return moved


def _counter(edge: HubEdge) -> HubKey:
    return edge.hub, edge.relation, edge.object.object_type


def _without_hub(key: HubKey) -> TotalKey:
    return key[1], key[2]
