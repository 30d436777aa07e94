"""Content and lifecycle of objects of any types, by one query: of one moment (consistency.md R10a).

Every row is a triple: what is asked of a subject is its own triples, those of nodes nested under it, and those
that other nodes say of its lifecycle. One number tells subject and predicate.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain

from pyoxigraph import NamedNode

from charactermemory.adapters.oxigraph import queries
from charactermemory.adapters.oxigraph import vocabulary as cm
from charactermemory.adapters.oxigraph.answers import found_number, found_ref, label
from charactermemory.adapters.oxigraph.connection import Connection, Row, Term
from charactermemory.adapters.oxigraph.hydration import (
    ASSERTION_PREDICATES,
    CUSTOM_VALUE_PREDICATES,
    OBJECT_PREDICATES,
    PARTICIPANT_PREDICATES,
    SCENE_PREDICATES,
    SETTING_PREDICATES,
    Node,
    Snapshot,
)
from charactermemory.adapters.oxigraph.mapping import scene_iri
from charactermemory.adapters.oxigraph.terms import INSTANT, ref_iri
from charactermemory.errors import GraphQueryError
from charactermemory.ids import MemoryObjectRef, ObjectType

ROWS_PER_NODE = 64
"""Rows read of a node on average at most, before its fields are looked up one by one; most have about 15."""

_NESTED = {
    cm.SETTING: SETTING_PREDICATES,
    cm.PARTICIPANT: PARTICIPANT_PREDICATES,
    cm.CUSTOM_VALUE: CUSTOM_VALUE_PREDICATES,
    cm.ASSERTION: ASSERTION_PREDICATES,
}
_PREDICATES = tuple(
    dict.fromkeys(
        chain(
            *OBJECT_PREDICATES.values(),
            SCENE_PREDICATES,
            *_NESTED.values(),
            (queries.SUPPRESSED_BY, queries.SUPERSEDED_BY),
        )
    )
)
_STEP = len(_PREDICATES)
"""Subjects are numbered in steps of this; what is between tells the predicate."""
_NAMES = tuple(predicate.value for predicate in _PREDICATES)
_NUMBERS = {predicate: number for number, predicate in enumerate(_PREDICATES)}
_SUPPRESSED_BY = _NUMBERS[queries.SUPPRESSED_BY]
_SUPERSEDED_BY = _NUMBERS[queries.SUPERSEDED_BY]
_HUBS = (ObjectType.ENTITY, ObjectType.MEMORY_THREAD)
"""What is commonly linked to so much that passing over it is no option."""
_SUPPRESSIBLE = (ObjectType.EPISODE, ObjectType.OBSERVATION, ObjectType.DERIVED_MEMORY)


@dataclass(frozen=True, slots=True)
class _Question:
    """What is asked of a kind of subject: branches of the query, and the predicates that answer."""

    branches: tuple[str, ...]
    predicates: tuple[NamedNode, ...]

    def __or__(self, other: _Question) -> _Question:
        return _Question(self.branches + other.branches, self.predicates + other.predicates)


def _content(predicates: tuple[NamedNode, ...], sparing: bool) -> _Question:
    parts = [predicate for predicate in predicates if predicate in _NESTED]
    own = tuple(map(queries.field, predicates)) if sparing else (queries.ALL,)
    nested = tuple(map(queries.nested, parts))
    return _Question(own + nested, (*predicates, *chain(*(_NESTED[part] for part in parts))))


def _lifecycle(object_type: ObjectType) -> _Question:
    question = _Question((), ())
    if object_type in _SUPPRESSIBLE:
        question |= _Question((queries.SUPPRESSION,), (queries.SUPPRESSED_BY,))
    if object_type is ObjectType.DERIVED_MEMORY:
        question |= _Question((queries.SUCCESSION,), (queries.SUPERSEDED_BY,))
    return question


def _of_objects(sparing: bool) -> dict[ObjectType, _Question]:
    return {
        object_type: _content(predicates, sparing or object_type in _HUBS) | _lifecycle(object_type)
        for object_type, predicates in OBJECT_PREDICATES.items()
    }


_OF_OBJECTS = {sparing: _of_objects(sparing) for sparing in (False, True)}
_OF_SCENES = {sparing: _content(SCENE_PREDICATES, sparing) for sparing in (False, True)}
_OF_KNOWN = {
    object_type: _content((cm.DIGEST,), sparing=True) | _lifecycle(object_type) for object_type in ObjectType
}


def snapshot(
    connection: Connection,
    graph: NamedNode,
    refs: Sequence[MemoryObjectRef],
    known: Container[MemoryObjectRef],
) -> Snapshot:
    """Return what is stored of `refs`; of those among `known` digest and lifecycle alone."""
    request = _Request(refs, known)
    rows = connection.query(request.text(graph, sparing=False))
    if len(rows) >= request.limit:  # somebody has so many links that fields may be missing
        rows = connection.query(request.text(graph, sparing=True))
    return request.collect(rows)


class _Request:
    """One query for objects of any types, and how its rows are put together."""

    def __init__(self, refs: Sequence[MemoryObjectRef], known: Container[MemoryObjectRef]) -> None:
        self._refs = refs
        self._known: defaultdict[ObjectType, list[int]] = defaultdict(list)
        self._unknown: defaultdict[ObjectType, list[int]] = defaultdict(list)
        for number, ref in enumerate(refs):
            (self._known if ref in known else self._unknown)[ref.object_type].append(number)
        self._nodes = [ref_iri(ref) for ref in refs]
        episodes = self._unknown[ObjectType.EPISODE]
        self._scenes = range(len(self._nodes), len(self._nodes) + len(episodes))
        self._nodes += [scene_iri(self._nodes[number]) for number in episodes]

    @property
    def limit(self) -> int:
        """Rows that are read at most, unless sparingly."""
        return ROWS_PER_NODE * (len(self._nodes) + 1)

    def text(self, graph: NamedNode, sparing: bool) -> str:
        """Return the query; with `sparing` it looks up field by field and leaves links alone."""
        asked = [
            *((_OF_OBJECTS[sparing][kind], numbers) for kind, numbers in self._unknown.items()),
            (_OF_SCENES[sparing], self._scenes),
            *((_OF_KNOWN[kind], numbers) for kind, numbers in self._known.items()),
        ]
        asked = [(question, numbers) for question, numbers in asked if numbers]
        groups = [
            queries.met(
                graph, ((number * _STEP, self._nodes[number]) for number in numbers), question.branches
            )
            for question, numbers in asked
        ]
        predicates = dict.fromkeys(chain(*(question.predicates for question, _ in asked)))
        numbered = [(_NUMBERS[predicate], predicate) for predicate in predicates]
        return queries.snapshot(groups, numbered, None if sparing else self.limit)

    def collect(self, rows: Iterable[Row]) -> Snapshot:
        """Put the rows together."""
        snapshot = Snapshot()
        nodes = [Node(node) for node in self._nodes]
        for key, value, other in rows:
            if key is None or value is None:
                continue
            number, what = divmod(found_number(key), _STEP)
            if what == _SUPPRESSED_BY:
                snapshot.suppressed_at.setdefault(self._refs[number], []).append(_instant(value, other))
            elif what == _SUPERSEDED_BY:
                snapshot.superseded_by.setdefault(self._refs[number], set()).add(found_ref(value).id)
            elif other is None:
                nodes[number].terms[_NAMES[what]].append(value)
            else:
                snapshot.part(other).terms[_NAMES[what]].append(value)
        snapshot.objects = {ref: node for ref, node in zip(self._refs, nodes, strict=False) if node.terms}
        snapshot.parts |= {node.iri.value: node for node in nodes[len(self._refs) :] if node.terms}
        return snapshot


def _instant(term: Term, event: Term | None) -> datetime:
    try:
        return INSTANT.read(term)  # type: ignore[no-any-return]
    except ValueError:
        raise GraphQueryError(kind="hydration", detail=f"{label(event)} at: unreadable") from None
