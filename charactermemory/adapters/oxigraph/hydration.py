"""From stored nodes back to objects with their lifecycle.

What cannot be read is a `GraphQueryError` of kind hydration that names subject and predicate, never a value.
An object is active only where the graph says so in a token we know.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any, NoReturn

from pydantic import ValidationError
from pyoxigraph import Literal, NamedNode

from charactermemory.adapters.oxigraph import vocabulary as cm
from charactermemory.adapters.oxigraph.connection import Term
from charactermemory.adapters.oxigraph.contents import Content
from charactermemory.adapters.oxigraph.mapping import (
    ASSERTION_FIELDS,
    CUSTOM_VALUE_FIELDS,
    FIELDS,
    PARTICIPANT_FIELDS,
    SCENE_FIELDS,
    SETTING_FIELDS,
    Field,
)
from charactermemory.adapters.oxigraph.terms import INTEGER, REFERENCE, part_number, place_of
from charactermemory.domain.beliefs import BeliefAssertion
from charactermemory.domain.kinds import RelationType, RetentionState
from charactermemory.domain.lifecycle import Stored
from charactermemory.domain.objects import (
    DerivedMemory,
    Entity,
    Episode,
    MemoryLink,
    MemoryObject,
    MemoryThread,
    Observation,
)
from charactermemory.domain.scene import Participant, Scene, Setting
from charactermemory.errors import GraphQueryError, StoredConflict
from charactermemory.ids import MemoryId, MemoryObjectRef, ObjectType

SUPERSEDES = cm.RELATIONS[RelationType.SUPERSEDES]
_MODELS: dict[ObjectType, Callable[..., MemoryObject]] = {
    ObjectType.EPISODE: Episode,
    ObjectType.OBSERVATION: Observation,
    ObjectType.ENTITY: Entity,
    ObjectType.MEMORY_THREAD: MemoryThread,
    ObjectType.DERIVED_MEMORY: DerivedMemory,
    ObjectType.MEMORY_LINK: MemoryLink,
}


def _predicates(fields: Iterable[Field], *others: NamedNode) -> tuple[NamedNode, ...]:
    return tuple(item.predicate for item in fields) + others


OBJECT_PREDICATES: dict[ObjectType, tuple[NamedNode, ...]] = {
    object_type: _predicates(FIELDS[object_type], cm.DIGEST, *others)
    for object_type, others in {
        ObjectType.EPISODE: (cm.SCENE,),
        ObjectType.OBSERVATION: (cm.TURN,),
        ObjectType.ENTITY: (),
        ObjectType.MEMORY_THREAD: (),
        ObjectType.DERIVED_MEMORY: (cm.OWN_SOURCE, cm.OWN_THREAD, cm.OWN_NOTION, SUPERSEDES, cm.ASSERTION),
        ObjectType.MEMORY_LINK: (cm.FROM, cm.TO, cm.RELATION_OF_LINK),
    }.items()
}
"""What must be read under an object's node. Nothing else is, so a hub's links are never dragged along."""
SCENE_PREDICATES = _predicates(SCENE_FIELDS, cm.SETTING, cm.PARTICIPANT, cm.CUSTOM_VALUE)
SETTING_PREDICATES = _predicates(SETTING_FIELDS)
PARTICIPANT_PREDICATES = _predicates(PARTICIPANT_FIELDS)
CUSTOM_VALUE_PREDICATES = _predicates(CUSTOM_VALUE_FIELDS)
ASSERTION_PREDICATES = _predicates(ASSERTION_FIELDS)

_Reader = tuple[str, str, Callable[[Term], Any], bool]
"""Of a plain field: its name, that of its predicate, how its term is read, and whether it must be there."""


def _readers(fields: Iterable[Field]) -> tuple[_Reader, ...]:
    return tuple((item.name, item.predicate.value, item.codec.read, item.required) for item in fields)


_READERS = {object_type: _readers(fields) for object_type, fields in FIELDS.items()}
_SCENE = _readers(SCENE_FIELDS)
_SETTING = _readers(SETTING_FIELDS)
_PARTICIPANT = _readers(PARTICIPANT_FIELDS)
_CUSTOM_VALUE = _readers(CUSTOM_VALUE_FIELDS)
_ASSERTION = _readers(ASSERTION_FIELDS)


def broken(node: NamedNode, predicate: NamedNode | str, problem: str) -> NoReturn:
    """Raise the hydration error of one predicate of one node."""
    name = predicate if isinstance(predicate, str) else predicate.value
    detail = f"{node.value} {name.removeprefix(cm.VOCABULARY)}: {problem}"
    raise GraphQueryError(kind="hydration", detail=detail) from None


def unreadable(node: NamedNode, predicate: NamedNode | str, error: ValueError) -> NoReturn:
    """Raise the hydration error of a term that cannot be read. Only our own codecs say why without its text."""
    broken(node, predicate, str(error) if type(error) is ValueError else "unreadable")


@dataclass(slots=True)
class Node:
    """What was read under one node, by the predicate's name: Python remembers a text's hash, the library none."""

    iri: NamedNode
    terms: defaultdict[str, list[Term]] = field(default_factory=lambda: defaultdict(list))

    def of(self, predicate: NamedNode) -> Sequence[Term]:
        """Return the terms of a predicate as they were read."""
        return self.terms.get(predicate.value, ())

    def value(self, predicate: NamedNode, read: Callable[[Term], Any]) -> Any:
        """Return the one value of a predicate."""
        found = self.of(predicate)
        if len(found) != 1:
            broken(self.iri, predicate, "several values" if found else "missing")
        return self._decoded(predicate, read, found[0])

    def values(self, predicate: NamedNode, read: Callable[[Term], Any]) -> list[Any]:
        """Return every value of a predicate."""
        return [self._decoded(predicate, read, term) for term in self.of(predicate)]

    def digests(self) -> list[str]:
        """Return the distinct digests, sorted."""
        return sorted({term.value for term in self.of(cm.DIGEST) if isinstance(term, Literal)})

    def fields(self, readers: Iterable[_Reader]) -> dict[str, Any]:
        """Return the values of plain fields by their names; None for an absent field that may be."""
        values: dict[str, Any] = {}
        for name, predicate, read, required in readers:
            found = self.terms.get(predicate)
            if found is None:
                if required:
                    broken(self.iri, predicate, "missing")
                values[name] = None
                continue
            if len(found) > 1:
                broken(self.iri, predicate, "several values")
            try:
                values[name] = read(found[0])
            except ValueError as error:
                unreadable(self.iri, predicate, error)
        return values

    def _decoded(self, predicate: NamedNode, read: Callable[[Term], Any], term: Term) -> Any:
        try:
            return read(term)
        except ValueError as error:
            unreadable(self.iri, predicate, error)


@dataclass(slots=True)
class Snapshot:
    """What one query read: objects, nodes nested under them, and what others say of their lifecycle.

    Nested nodes go by name; of objects there is when events suppressed them, and which memories supersede them.
    """

    objects: dict[MemoryObjectRef, Node] = field(default_factory=dict)
    parts: dict[str, Node] = field(default_factory=dict)
    suppressed_at: dict[MemoryObjectRef, list[datetime]] = field(default_factory=dict)
    superseded_by: dict[MemoryObjectRef, set[MemoryId]] = field(default_factory=dict)

    def part(self, iri: Term) -> Node:
        """Return a nested node, an empty one if nothing was read under it yet."""
        if not isinstance(iri, NamedNode):
            raise GraphQueryError(kind="hydration", detail="a nested node has no name")
        found = self.parts.get(iri.value)
        if found is None:
            found = self.parts[iri.value] = Node(iri)
        return found

    def contradicts(self, known: Mapping[MemoryObjectRef, Content]) -> bool:
        """Whether an object is stored with another content than is known of it."""
        nodes = ((self.objects.get(ref), content) for ref, content in known.items())
        return any(node is not None and node.digests() != [content.digest] for node, content in nodes)

    def stored(self, ref: MemoryObjectRef, known: Content | None = None) -> Stored | None:
        """Return the object with its lifecycle; None if it is not stored. Give its content if it is known.

        Raises:
            StoredConflict: it is stored with several digests.
            GraphQueryError: its triples cannot be read.
        """
        node = self.objects.get(ref)
        if node is None:
            return None
        digests = node.digests()
        if len(digests) > 1:
            raise StoredConflict(object=ref, digests=tuple(digests))
        if not digests:
            broken(node.iri, cm.DIGEST, "missing")
        authored = _hydrated(node, ref, self.parts) if known is None else known.authored
        times = self.suppressed_at.get(ref)
        changes = _changes(authored, times) if times else {}
        successors = self.superseded_by.get(ref, ())
        return Stored(
            object=authored.replace(**changes) if changes else authored,
            authored=authored if changes else None,
            digest=digests[0],
            superseded_by=tuple(sorted(successors, key=lambda item: item.int)),
        )


def _changes(authored: MemoryObject, suppressed_at: Iterable[datetime]) -> dict[str, Any]:
    """Return what events say otherwise than the value as written (consistency.md R4)."""
    if not hasattr(authored, "retention_state"):
        return {}
    effective: dict[str, Any] = {"retention_state": RetentionState.SUPPRESSED}
    if isinstance(authored, DerivedMemory):
        effective["updated_at"] = max(authored.updated_at, *suppressed_at)
    return {name: value for name, value in effective.items() if getattr(authored, name) != value}


def _hydrated(node: Node, ref: MemoryObjectRef, parts: Mapping[str, Node]) -> MemoryObject:
    values = node.fields(_READERS[ref.object_type])
    values.update(_own(node, ref, parts))
    try:
        return _MODELS[ref.object_type](id=ref.id, **values)
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors(include_input=False)[0]["loc"])
        raise GraphQueryError(kind="hydration", detail=f"{node.iri.value} {where}: not valid") from None


def _own(node: Node, ref: MemoryObjectRef, parts: Mapping[str, Node]) -> dict[str, Any]:
    match ref.object_type:
        case ObjectType.EPISODE:
            return {"scene": _scene(node, parts)}
        case ObjectType.OBSERVATION:
            return _place(node)
        case ObjectType.DERIVED_MEMORY:
            return _derived(node, parts)
        case ObjectType.MEMORY_LINK:
            return _link(node)
        case _:
            return {}


def _place(node: Node) -> dict[str, Any]:
    episode_id, position = node.value(cm.TURN, place_of)
    if position != node.value(cm.POSITION, INTEGER.read):
        broken(node.iri, cm.TURN, "another position than the observation's")
    return {"episode_id": episode_id}


def _scene(episode: Node, parts: Mapping[str, Node]) -> Scene:
    scene = _part(episode, cm.SCENE, parts)
    if scene is None:
        broken(episode.iri, cm.SCENE, "missing")
    values = scene.fields(_SCENE)
    setting = None
    if scene.of(cm.SETTING):
        place = _part(scene, cm.SETTING, parts)
        setting = Setting(**place.fields(_SETTING)) if place is not None else Setting()
    custom = [part.fields(_CUSTOM_VALUE) for part in _parts(scene, cm.CUSTOM_VALUE, parts)]
    try:
        zone = timezone(timedelta(minutes=values["offset_minutes"]))
        time = values["instant"].astimezone(zone)
    except (ValueError, OverflowError):
        broken(scene.iri, cm.OFFSET_MINUTES, "no UTC offset")
    return Scene(
        time=time,
        participants=tuple(
            Participant(**part.fields(_PARTICIPANT)) for part in _parts(scene, cm.PARTICIPANT, parts)
        ),
        setting=setting,
        custom_values={part["key"]: part["value"] for part in custom},
    )


def _part(owner: Node, predicate: NamedNode, parts: Mapping[str, Node]) -> Node | None:
    """Return what was read under the one node nested under `predicate`; None for nothing."""
    return parts.get(owner.value(predicate, _name))


def _name(term: Term) -> str:
    if not isinstance(term, NamedNode):
        raise ValueError("no nested node")
    return term.value


def _parts(owner: Node, predicate: NamedNode, parts: Mapping[str, Node]) -> list[Node]:
    """Return the nodes nested under `predicate` in their order; numbers must run from 1 without gap."""
    terms = owner.of(predicate)
    if not terms:
        return []
    found: dict[int, Node | None] = {}
    for term in terms:
        try:
            name = _name(term)
            found[part_number(name)] = parts.get(name)
        except ValueError:
            broken(owner.iri, predicate, "no nested node")
    ordered = [found.get(number) for number in range(1, len(found) + 1)]
    nested = [node for node in ordered if node is not None]
    if len(nested) != len(terms):
        broken(owner.iri, predicate, "a nested node is missing")
    return nested


def _derived(node: Node, parts: Mapping[str, Node]) -> dict[str, Any]:
    def ids(predicate: NamedNode, object_type: ObjectType) -> tuple[MemoryId, ...]:
        refs = node.values(predicate, REFERENCE.read)
        return tuple(ref.id for ref in refs if ref.object_type is object_type)

    assertions = []
    for part in _parts(node, cm.ASSERTION, parts):
        values = part.fields(_ASSERTION)
        del values["normalized_name"]  # made from the name
        if values["predicate"] != "known_as":
            broken(part.iri, cm.PREDICATE, "an unknown token")
        assertions.append(BeliefAssertion(**values))
    return {
        "derived_from_episode_ids": ids(cm.OWN_SOURCE, ObjectType.EPISODE),
        "derived_from_observation_ids": ids(cm.OWN_SOURCE, ObjectType.OBSERVATION),
        "thread_ids": ids(cm.OWN_THREAD, ObjectType.MEMORY_THREAD),
        "entity_ids": ids(cm.OWN_NOTION, ObjectType.ENTITY),
        "supersedes": ids(SUPERSEDES, ObjectType.DERIVED_MEMORY),
        "assertions": tuple(assertions),
    }


def _link(node: Node) -> dict[str, Any]:
    source = node.value(cm.FROM, REFERENCE.read)
    target = node.value(cm.TO, REFERENCE.read)
    return {
        "from_id": source.id,
        "from_type": source.object_type,
        "to_id": target.id,
        "to_type": target.object_type,
        "relation": node.value(cm.RELATION_OF_LINK, _relation),
    }


def _relation(term: Term) -> RelationType:
    relation = cm.RELATION_BY_NODE.get(term) if isinstance(term, NamedNode) else None
    if relation is None:
        raise ValueError("an unknown token")
    return relation
