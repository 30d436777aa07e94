"""Every read of the graph port (ports/graph.py), each with a known number of round trips.

One round trip: `read` (whatever the number of references), `neighbours`. One per 500 given references: the
others. Two: `head`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import TypeVar

from pyoxigraph import Literal, NamedNode

from charactermemory.adapters.oxigraph import queries
from charactermemory.adapters.oxigraph import vocabulary as cm
from charactermemory.adapters.oxigraph.connection import Connection, Pattern, Row, Term
from charactermemory.adapters.oxigraph.hydration import (
    OBJECT_PREDICATES,
    SCENE_PREDICATES,
    SETTING_PREDICATES,
    Snapshot,
)
from charactermemory.adapters.oxigraph.mapping import scene_iri, setting_iri
from charactermemory.adapters.oxigraph.terms import (
    INSTANT,
    edge_iri,
    object_iri,
    place_of,
    ref_iri,
    ref_of,
    turn_iri,
)
from charactermemory.domain.kinds import RelationType
from charactermemory.domain.lifecycle import Stored
from charactermemory.errors import GraphQueryError
from charactermemory.ids import MemoryId, MemoryObjectRef, ObjectType
from charactermemory.ports.graph import Edge, Neighbourhood

CHUNK = 500
"""References named in one query where an answer may be put together from several."""

Item = TypeVar("Item")

_PREDICATES = tuple(
    dict.fromkeys(
        [p for group in OBJECT_PREDICATES.values() for p in group] + [*SCENE_PREDICATES, *SETTING_PREDICATES]
    )
)
_NUMBERS = {predicate: number for number, predicate in enumerate(_PREDICATES)}
_SUPPRESSIBLE = (ObjectType.EPISODE, ObjectType.OBSERVATION, ObjectType.DERIVED_MEMORY)


def chunks(items: Iterable[Item], size: int = CHUNK) -> Iterator[list[Item]]:
    """Cut `items` into lists of at most `size`; none for no items."""
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk


def sorted_ids(ids: Iterable[MemoryId]) -> tuple[MemoryId, ...]:
    """Return distinct ids in their order."""
    return tuple(sorted(set(ids), key=lambda item: item.int))


def found_ref(term: Term | None) -> MemoryObjectRef:
    """Return the reference an answer names."""
    try:
        return ref_of(term)
    except ValueError:
        raise GraphQueryError(kind="selection", detail=f"not a memory object: {_label(term)}") from None


def found_number(term: Term | None) -> int:
    """Return the number an answer holds."""
    try:
        return int(term.value)  # type: ignore[union-attr]
    except (AttributeError, ValueError):
        raise GraphQueryError(kind="selection", detail="a number was expected") from None


def _label(term: Term | None) -> str:
    return term.value if isinstance(term, NamedNode) else "no node"


class Reads:
    """The reads of one collection's graph over a connection."""

    def __init__(self, connection: Connection, graph: NamedNode) -> None:
        self._connection = connection
        self._graph = graph

    def read(self, refs: Collection[MemoryObjectRef]) -> dict[MemoryObjectRef, Stored]:
        """See `GraphStore.read`; one query, so content and lifecycle are of one moment."""
        ordered = list(dict.fromkeys(refs))
        if not ordered:
            return {}
        request = _Request(self._graph, ordered)
        snapshot = request.collect(self._connection.query(request.text()))
        stored = ((ref, snapshot.stored(ref)) for ref in ordered)
        return {ref: item for ref, item in stored if item is not None}

    def existing(self, refs: Collection[MemoryObjectRef]) -> set[MemoryObjectRef]:
        """See `GraphStore.existing`."""
        nodes = {ref_iri(ref): ref for ref in refs}
        return {
            nodes[row[0]]  # type: ignore[index]
            for chunk in chunks(nodes)
            for row in self._connection.query(queries.digests(self._graph, chunk))
        }

    def notions_known_as(self, names: Collection[str]) -> dict[str, tuple[MemoryId, ...]]:
        """See `GraphStore.notions_known_as`."""
        found: defaultdict[str, set[MemoryId]] = defaultdict(set)
        for chunk in chunks(dict.fromkeys(name for name in names if name)):
            for name, notion in self._connection.query(queries.bearers(self._graph, chunk)):
                if isinstance(name, Literal):
                    found[name.value].add(found_ref(notion).id)
        return {name: sorted_ids(ids) for name, ids in found.items()}

    def names_of(self, notions: Collection[MemoryId]) -> dict[MemoryId, tuple[str, ...]]:
        """See `GraphStore.names_of`."""
        found: defaultdict[MemoryId, set[str]] = defaultdict(set)
        for chunk in chunks(dict.fromkeys(notions)):
            nodes = [object_iri(ObjectType.ENTITY, notion) for notion in chunk]
            for notion, name in self._connection.query(queries.spellings(self._graph, nodes)):
                if isinstance(name, Literal):
                    found[found_ref(notion).id].add(name.value)
        return {notion: tuple(sorted(names)) for notion, names in found.items()}

    def memories_from(
        self, episode_ids: Collection[MemoryId], observation_ids: Collection[MemoryId]
    ) -> tuple[MemoryId, ...]:
        """See `GraphStore.memories_from`."""
        sources = [object_iri(ObjectType.EPISODE, item) for item in episode_ids]
        sources += [object_iri(ObjectType.OBSERVATION, item) for item in observation_ids]
        rows = self._rows(queries.sourced(self._graph, chunk) for chunk in chunks(dict.fromkeys(sources)))
        return _ids_of_type((row[0] for row in rows), ObjectType.DERIVED_MEMORY)

    def observations_of(self, episode_ids: Collection[MemoryId]) -> tuple[MemoryId, ...]:
        """See `GraphStore.observations_of`; an observation only linked to an episode is not its own."""
        episodes = {object_iri(ObjectType.EPISODE, item): item for item in episode_ids}
        rows = self._rows(queries.observed(self._graph, chunk) for chunk in chunks(episodes))
        own = (row[0] for row in rows if row[1] is not None and _place(row[1])[0] == episodes.get(row[2]))  # type: ignore[arg-type]
        return _ids_of_type(own, ObjectType.OBSERVATION)

    def members_of(self, thread_id: MemoryId) -> tuple[MemoryId, ...]:
        """See `GraphStore.members_of`."""
        thread = object_iri(ObjectType.MEMORY_THREAD, thread_id)
        rows = self._connection.query(queries.subjects_of(self._graph, [thread], cm.OWN_THREAD))
        return _ids_of_type((row[0] for row in rows), ObjectType.DERIVED_MEMORY)

    def neighbours(
        self, nodes: Collection[MemoryObjectRef], relations: Collection[RelationType], cap: int
    ) -> dict[MemoryObjectRef, Neighbourhood]:
        """See `GraphStore.neighbours`; one batch of limited patterns."""
        asked = [
            (ref, relation, outgoing)
            for ref in dict.fromkeys(nodes)
            for relation in dict.fromkeys(relations)
            for outgoing in (True, False)
        ]
        iris = {ref: ref_iri(ref) for ref in nodes}
        patterns = [
            Pattern(iris[ref], cm.RELATIONS[relation], None, cap + 1)
            if outgoing
            else Pattern(None, cm.RELATIONS[relation], iris[ref], cap + 1)
            for ref, relation, outgoing in asked
        ]
        edges: dict[MemoryObjectRef, list[Edge]] = {ref: [] for ref in nodes}
        capped: dict[MemoryObjectRef, set[tuple[RelationType, bool]]] = {ref: set() for ref in nodes}
        answers = self._connection.match(self._graph, patterns) if patterns else []
        for (ref, relation, outgoing), triples in zip(asked, answers, strict=True):
            if len(triples) > cap:
                capped[ref].add((relation, outgoing))
            for triple in triples[:cap]:
                other = found_ref(triple.object if outgoing else triple.subject)
                source, target = (ref, other) if outgoing else (other, ref)
                edges[ref].append(Edge(source, relation, target))
        return {ref: Neighbourhood(tuple(edges[ref]), frozenset(capped[ref])) for ref in edges}

    def turns(self, places: Collection[tuple[MemoryId, int]]) -> dict[tuple[MemoryId, int], MemoryId]:
        """See `GraphStore.turns`."""
        nodes = [turn_iri(*place) for place in dict.fromkeys(places)]
        rows = self._rows(queries.subjects_of(self._graph, chunk, cm.TURN) for chunk in chunks(nodes))
        found: dict[tuple[MemoryId, int], MemoryId] = {}
        for observation, turn in rows:
            place, observation_id = _place(turn), found_ref(observation).id
            found[place] = min(found.get(place, observation_id), observation_id, key=lambda item: item.int)
        return found

    def link_ids(self, edges: Collection[Edge]) -> dict[Edge, tuple[MemoryId, ...]]:
        """See `GraphStore.link_ids`."""
        nodes = {edge_iri(edge.source, edge.relation, edge.target): edge for edge in edges}
        found: dict[Edge, set[MemoryId]] = {edge: set() for edge in edges}
        for link, node in self._rows(
            queries.subjects_of(self._graph, chunk, cm.EDGE) for chunk in chunks(nodes)
        ):
            found[nodes[node]].add(found_ref(link).id)  # type: ignore[index]
        return {edge: sorted_ids(ids) for edge, ids in found.items()}

    def _rows(self, texts: Iterable[str]) -> Iterator[Row]:
        for text in texts:
            yield from self._connection.query(text)


class _Request:
    """One snapshot query for objects of any types, and how its rows are put together."""

    def __init__(self, graph: NamedNode, refs: Sequence[MemoryObjectRef]) -> None:
        self._graph = graph
        self._subjects: list[NamedNode] = []
        self._refs: list[MemoryObjectRef] = []
        self._by_type: defaultdict[ObjectType, list[tuple[int, NamedNode]]] = defaultdict(list)
        for ref in refs:
            self._by_type[ref.object_type].append(self._number(ref, ref_iri(ref)))

    def _number(self, ref: MemoryObjectRef, node: NamedNode) -> tuple[int, NamedNode]:
        self._subjects.append(node)
        self._refs.append(ref)
        return len(self._subjects) - 1, node

    def text(self) -> str:
        """Return the query."""
        groups = []
        for object_type, subjects in self._by_type.items():
            groups.append(self._fields(subjects, OBJECT_PREDICATES[object_type]))
            if object_type in _SUPPRESSIBLE:
                groups.append(queries.suppressions(self._graph, subjects))
        if derived := self._by_type.get(ObjectType.DERIVED_MEMORY):
            groups.append(queries.successions(self._graph, derived))
            groups.append(queries.parts(self._graph, derived, cm.ASSERTION))
        if episodes := self._by_type.get(ObjectType.EPISODE):
            owners = [self._refs[number] for number, _ in episodes]
            scenes = [self._number(ref, scene_iri(ref_iri(ref))) for ref in owners]
            settings = [self._number(ref, setting_iri(scene_iri(ref_iri(ref)))) for ref in owners]
            groups.append(self._fields(scenes, SCENE_PREDICATES))
            groups.append(self._fields(settings, SETTING_PREDICATES))
            groups.append(queries.parts(self._graph, scenes, cm.PARTICIPANT))
            groups.append(queries.parts(self._graph, scenes, cm.CUSTOM_VALUE))
        return queries.snapshot(groups)

    def _fields(self, subjects: list[tuple[int, NamedNode]], predicates: Sequence[NamedNode]) -> str:
        return queries.crossed(self._graph, subjects, [(_NUMBERS[item], item) for item in predicates])

    def collect(self, rows: Iterable[Row]) -> Snapshot:
        """Put the rows together."""
        snapshot = Snapshot()
        for subject, kind, value, node, predicate in rows:
            number, what = found_number(subject), found_number(kind)
            if value is None:
                continue
            if what >= 0:
                snapshot.node(self._subjects[number]).add(_PREDICATES[what], value)
            elif what == queries.PART and isinstance(node, NamedNode) and isinstance(predicate, NamedNode):
                snapshot.node(node).add(predicate, value)
            elif what == queries.SUPPRESSION:
                snapshot.suppressed_at.setdefault(self._refs[number], []).append(_instant(value, node))
            elif what == queries.SUCCESSION:
                snapshot.superseded_by.setdefault(self._refs[number], set()).add(found_ref(value).id)
        return snapshot


def _instant(term: Term, event: Term | None) -> datetime:
    try:
        return INSTANT.read(term)  # type: ignore[no-any-return]
    except ValueError:
        raise GraphQueryError(kind="hydration", detail=f"{_label(event)} at: unreadable") from None


def _place(term: Term | None) -> tuple[MemoryId, int]:
    try:
        return place_of(term)  # type: ignore[arg-type]
    except ValueError:
        raise GraphQueryError(kind="selection", detail=f"not a turn: {_label(term)}") from None


def _ids_of_type(terms: Iterable[Term | None], object_type: ObjectType) -> tuple[MemoryId, ...]:
    refs = map(found_ref, terms)
    return sorted_ids(ref.id for ref in refs if ref.object_type is object_type)
