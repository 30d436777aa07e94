"""Content and lifecycle of objects of any types, by one query: of one moment (consistency.md R10a)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Sequence
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
    Snapshot,
)
from charactermemory.adapters.oxigraph.mapping import scene_iri, setting_iri
from charactermemory.adapters.oxigraph.terms import INSTANT, ref_iri
from charactermemory.errors import GraphQueryError
from charactermemory.ids import MemoryObjectRef, ObjectType

ROWS_PER_NODE = 64
"""Rows read of an object's node on average at most, before it is read field by field; they have about 15."""

_PREDICATES = tuple(
    dict.fromkeys(
        chain(
            *OBJECT_PREDICATES.values(),
            SCENE_PREDICATES,
            SETTING_PREDICATES,
            PARTICIPANT_PREDICATES,
            CUSTOM_VALUE_PREDICATES,
            ASSERTION_PREDICATES,
        )
    )
)
_NUMBERS = {predicate: number for number, predicate in enumerate(_PREDICATES)}
_NUMBERED = tuple(enumerate(_PREDICATES))
_HUBS = (ObjectType.ENTITY, ObjectType.MEMORY_THREAD)
"""What is commonly linked to so much that passing over it is no option."""
_SUPPRESSIBLE = (ObjectType.EPISODE, ObjectType.OBSERVATION, ObjectType.DERIVED_MEMORY)


def snapshot(
    connection: Connection,
    graph: NamedNode,
    refs: Sequence[MemoryObjectRef],
    known: Container[MemoryObjectRef],
) -> Snapshot:
    """Return what is stored of `refs`; of those among `known` digest and lifecycle alone."""
    request = _Request(graph, refs, known)
    rows = connection.query(request.text())
    if request.overflowed(rows):
        rows = connection.query(request.text(sparing=True))
    return request.collect(rows)


class _Request:
    """One snapshot query for objects of any types, and how its rows are put together.

    Of objects whose content is known it asks for digest and lifecycle alone.
    """

    def __init__(
        self, graph: NamedNode, refs: Sequence[MemoryObjectRef], known: Container[MemoryObjectRef]
    ) -> None:
        self._graph = graph
        self._limit = 0
        self._subjects = [ref_iri(ref) for ref in refs]
        self._refs = list(refs)
        numbered = list(enumerate(zip(refs, self._subjects, strict=True)))
        self._known = [(number, node) for number, (ref, node) in numbered if ref in known]
        self._unknown: defaultdict[ObjectType, list[tuple[int, NamedNode]]] = defaultdict(list)
        for number, (ref, node) in numbered:
            if ref not in known:
                self._unknown[ref.object_type].append((number, node))
        self._suppressible = [
            (number, node) for number, (ref, node) in numbered if ref.object_type in _SUPPRESSIBLE
        ]
        self._derived = [
            (number, node) for number, (ref, node) in numbered if ref.object_type is ObjectType.DERIVED_MEMORY
        ]

    def _numbered(self, ref: MemoryObjectRef, node: NamedNode) -> tuple[int, NamedNode]:
        self._subjects.append(node)
        self._refs.append(ref)
        return len(self._subjects) - 1, node

    def overflowed(self, rows: Sequence[Row]) -> bool:
        """Whether some object may have so many links that its fields are missing; then ask sparingly."""
        return 0 < self._limit <= len(rows)

    def text(self, sparing: bool = False) -> str:
        """Return the query; with `sparing` it looks up field by field and leaves links alone."""
        groups = []
        passed: list[tuple[int, NamedNode]] = []
        for object_type, subjects in self._unknown.items():
            if sparing or object_type in _HUBS:
                groups.append(self._fields(subjects, OBJECT_PREDICATES[object_type]))
            else:
                passed += subjects
        if self._known:
            groups.append(queries.one_field(self._graph, self._known, _NUMBERS[cm.DIGEST], cm.DIGEST))
        if self._suppressible:
            groups.append(queries.suppressions(self._graph, self._suppressible))
        if self._derived:
            groups.append(queries.successions(self._graph, self._derived))
        if derived := self._unknown.get(ObjectType.DERIVED_MEMORY):
            groups.append(self._parts(derived, cm.ASSERTION, ASSERTION_PREDICATES))
        if episodes := self._unknown.get(ObjectType.EPISODE):
            owners = [self._refs[number] for number, _ in episodes]
            scenes = [self._numbered(ref, scene_iri(ref_iri(ref))) for ref in owners]
            settings = [self._numbered(ref, setting_iri(scene_iri(ref_iri(ref)))) for ref in owners]
            if sparing:
                groups.append(self._fields(scenes, SCENE_PREDICATES))
                groups.append(self._fields(settings, SETTING_PREDICATES))
            else:
                passed += [*scenes, *settings]
            groups.append(self._parts(scenes, cm.PARTICIPANT, PARTICIPANT_PREDICATES))
            groups.append(self._parts(scenes, cm.CUSTOM_VALUE, CUSTOM_VALUE_PREDICATES))
        if passed:
            self._limit = ROWS_PER_NODE * (len(passed) + 1)
            groups.append(queries.whole(self._graph, passed, _NUMBERED, self._limit))
        return queries.snapshot(groups)

    def _fields(self, subjects: list[tuple[int, NamedNode]], predicates: Sequence[NamedNode]) -> str:
        return queries.crossed(self._graph, subjects, _numbered(predicates))

    def _parts(
        self, owners: list[tuple[int, NamedNode]], predicate: NamedNode, predicates: Iterable[NamedNode]
    ) -> str:
        return queries.parts(self._graph, owners, predicate, _numbered(predicates))

    def collect(self, rows: Iterable[Row]) -> Snapshot:
        """Put the rows together."""
        snapshot = Snapshot()
        for subject, kind, value, node in rows:
            if kind is None or value is None:
                continue
            number, what = found_number(subject), found_number(kind)
            if what >= 0:
                owner = node if isinstance(node, NamedNode) else self._subjects[number]
                snapshot.node(owner).add(_PREDICATES[what], value)
            elif what == queries.SUPPRESSION:
                snapshot.suppressed_at.setdefault(self._refs[number], []).append(_instant(value, node))
            elif what == queries.SUCCESSION:
                snapshot.superseded_by.setdefault(self._refs[number], set()).add(found_ref(value).id)
        return snapshot


def _instant(term: Term, event: Term | None) -> datetime:
    try:
        return INSTANT.read(term)  # type: ignore[no-any-return]
    except ValueError:
        raise GraphQueryError(kind="hydration", detail=f"{label(event)} at: unreadable") from None


def _numbered(predicates: Iterable[NamedNode]) -> list[tuple[int, NamedNode]]:
    return [(_NUMBERS[item], item) for item in predicates]
