"""From stored nodes back to objects with their lifecycle.

What cannot be read is a `GraphQueryError` of kind hydration that names subject and predicate, never a value.
An object is active only where the graph says so in a token we know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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
    scene_iri,
    setting_iri,
)
from charactermemory.adapters.oxigraph.terms import REFERENCE, part_number, place_of, ref_iri
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


def broken(node: NamedNode, predicate: NamedNode, problem: str) -> NoReturn:
    """Raise the hydration error of one predicate of one node."""
    name = predicate.value.removeprefix(cm.VOCABULARY)
    raise GraphQueryError(kind="hydration", detail=f"{node.value} {name}: {problem}") from None


@dataclass(slots=True)
class Node:
    """What was read under one node, by predicate."""

    iri: NamedNode
    terms: dict[NamedNode, list[Term]] = field(default_factory=dict)

    def add(self, predicate: NamedNode, term: Term) -> None:
        """Note one triple."""
        self.terms.setdefault(predicate, []).append(term)

    def value(self, predicate: NamedNode, read: Callable[[Term], Any]) -> Any:
        """Return the one value of a predicate."""
        found = self.terms.get(predicate, ())
        if len(found) != 1:
            broken(self.iri, predicate, "several values" if found else "missing")
        return self._decoded(predicate, read, found[0])

    def values(self, predicate: NamedNode, read: Callable[[Term], Any]) -> list[Any]:
        """Return every value of a predicate."""
        return [self._decoded(predicate, read, term) for term in self.terms.get(predicate, ())]

    def digests(self) -> list[str]:
        """Return the distinct digests, sorted."""
        return sorted({term.value for term in self.terms.get(cm.DIGEST, ()) if isinstance(term, Literal)})

    def fields(self, items: Iterable[Field]) -> dict[str, Any]:
        """Return the values of plain fields by their names; None for an absent field that may be."""
        values: dict[str, Any] = {}
        for item in items:
            if item.required or item.predicate in self.terms:
                values[item.name] = self.value(item.predicate, item.codec.read)
            else:
                values[item.name] = None
        return values

    def _decoded(self, predicate: NamedNode, read: Callable[[Term], Any], term: Term) -> Any:
        try:
            return read(term)
        except ValueError as error:
            broken(self.iri, predicate, str(error) if type(error) is ValueError else "unreadable")


@dataclass(slots=True)
class Snapshot:
    """What one query read: nodes, when events suppressed an object, and which memories supersede it."""

    nodes: dict[NamedNode, Node] = field(default_factory=dict)
    suppressed_at: dict[MemoryObjectRef, list[datetime]] = field(default_factory=dict)
    superseded_by: dict[MemoryObjectRef, set[MemoryId]] = field(default_factory=dict)

    def node(self, iri: NamedNode) -> Node:
        """Return the node, an empty one if nothing was read under it yet."""
        found = self.nodes.get(iri)
        if found is None:
            found = self.nodes[iri] = Node(iri)
        return found

    def contradicts(self, known: Mapping[MemoryObjectRef, Content]) -> bool:
        """Whether an object is stored with another content than is known of it."""
        nodes = ((self.nodes.get(ref_iri(ref)), content) for ref, content in known.items())
        return any(node is not None and node.digests() != [content.digest] for node, content in nodes)

    def stored(self, ref: MemoryObjectRef, known: Content | None = None) -> Stored | None:
        """Return the object with its lifecycle; None if it is not stored. Give its content if it is known.

        Raises:
            StoredConflict: it is stored with several digests.
            GraphQueryError: its triples cannot be read.
        """
        node = self.nodes.get(ref_iri(ref))
        if node is None:
            return None
        digests = node.digests()
        if len(digests) > 1:
            raise StoredConflict(object=ref, digests=tuple(digests))
        if not digests:
            broken(node.iri, cm.DIGEST, "missing")
        authored = _hydrated(node, ref, self.nodes) if known is None else known.authored
        successors = sorted(self.superseded_by.get(ref, ()), key=lambda item: item.int)
        changes = self._changes(authored)
        return Stored(
            object=authored.replace(**changes) if changes else authored,
            authored=authored if changes else None,
            digest=digests[0],
            superseded_by=tuple(successors),
        )

    def _changes(self, authored: MemoryObject) -> dict[str, Any]:
        """Return what events say otherwise than the value as written (consistency.md R4)."""
        times = self.suppressed_at.get(authored.ref)
        if not times or not hasattr(authored, "retention_state"):
            return {}
        effective: dict[str, Any] = {"retention_state": RetentionState.SUPPRESSED}
        if isinstance(authored, DerivedMemory):
            effective["updated_at"] = max(authored.updated_at, *times)
        return {name: value for name, value in effective.items() if getattr(authored, name) != value}


def _hydrated(node: Node, ref: MemoryObjectRef, nodes: Mapping[NamedNode, Node]) -> MemoryObject:
    return _build(node, ref, node.fields(FIELDS[ref.object_type]) | _own(node, ref, nodes))


def _build(node: Node, ref: MemoryObjectRef, values: Mapping[str, Any]) -> MemoryObject:
    try:
        return _MODELS[ref.object_type](id=ref.id, **values)
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors(include_input=False)[0]["loc"])
        raise GraphQueryError(kind="hydration", detail=f"{node.iri.value} {where}: not valid") from None


def _own(node: Node, ref: MemoryObjectRef, nodes: Mapping[NamedNode, Node]) -> dict[str, Any]:
    match ref.object_type:
        case ObjectType.EPISODE:
            return {"scene": _scene(node, nodes)}
        case ObjectType.OBSERVATION:
            return _place(node)
        case ObjectType.DERIVED_MEMORY:
            return _derived(node, nodes)
        case ObjectType.MEMORY_LINK:
            return _link(node)
        case _:
            return {}


def _place(node: Node) -> dict[str, Any]:
    episode_id, position = node.value(cm.TURN, place_of)
    if position != node.value(cm.POSITION, lambda term: int(term.value)):  # type: ignore[union-attr]
        broken(node.iri, cm.TURN, "another position than the observation's")
    return {"episode_id": episode_id}


def _scene(episode: Node, nodes: Mapping[NamedNode, Node]) -> Scene:
    scene = nodes.get(scene_iri(episode.iri))
    if scene is None or cm.SCENE not in episode.terms:
        broken(episode.iri, cm.SCENE, "missing")
    values = scene.fields(SCENE_FIELDS)
    setting = None
    if cm.SETTING in scene.terms:
        place = nodes.get(setting_iri(scene.iri))
        setting = Setting(**place.fields(SETTING_FIELDS)) if place is not None else Setting()
    custom = (part.fields(CUSTOM_VALUE_FIELDS) for part in _parts(scene, cm.CUSTOM_VALUE, nodes))
    try:
        zone = timezone(timedelta(minutes=values["offset_minutes"]))
        time = values["instant"].astimezone(zone)
    except (ValueError, OverflowError):
        broken(scene.iri, cm.OFFSET_MINUTES, "no UTC offset")
    return Scene(
        time=time,
        participants=tuple(
            Participant(**part.fields(PARTICIPANT_FIELDS)) for part in _parts(scene, cm.PARTICIPANT, nodes)
        ),
        setting=setting,
        custom_values={part["key"]: part["value"] for part in custom},
    )


def _parts(owner: Node, predicate: NamedNode, nodes: Mapping[NamedNode, Node]) -> list[Node]:
    """Return the nodes nested under `predicate` in their order; numbers must run from 1 without gap."""
    found: dict[int, Node] = {}
    for term in owner.terms.get(predicate, ()):
        node = nodes.get(term) if isinstance(term, NamedNode) else None
        try:
            found[part_number(term)] = node  # type: ignore[arg-type, assignment]
        except (AttributeError, ValueError):
            broken(owner.iri, predicate, "no nested node")
    ordered = [found.get(number) for number in range(1, len(found) + 1)]
    parts = [node for node in ordered if node is not None]
    if len(parts) != len(owner.terms.get(predicate, ())):
        broken(owner.iri, predicate, "a nested node is missing")
    return parts


def _derived(node: Node, nodes: Mapping[NamedNode, Node]) -> dict[str, Any]:
    def ids(predicate: NamedNode, object_type: ObjectType) -> tuple[MemoryId, ...]:
        refs = node.values(predicate, REFERENCE.read)
        return tuple(ref.id for ref in refs if ref.object_type is object_type)

    assertions = []
    for part in _parts(node, cm.ASSERTION, nodes):
        values = part.fields(ASSERTION_FIELDS)
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
