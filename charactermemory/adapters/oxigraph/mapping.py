"""Objects, links, events and receipts as triples (DESIGN R2, decisions "To R2").

A field is a literal, or a node where it names an object. Fields that are relations are written twice: as the
relation's direct triple, walked like any link, and under a predicate of their own (`ownSource`, `turn`, ...),
so that a link which asserts the same relation never changes what the object itself says. Nested values are
named nodes below their owner; there are no blank nodes, so writing twice adds nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from pyoxigraph import Literal, NamedNode, Triple

from charactermemory.adapters.oxigraph import vocabulary as cm
from charactermemory.adapters.oxigraph.terms import (
    BOOLEAN,
    DOUBLE,
    INSTANT,
    INTEGER,
    NOTION_ID,
    STRING,
    Codec,
    edge_iri,
    event_iri,
    object_iri,
    part_iri,
    receipt_iri,
    ref_iri,
    token_codec,
    turn_iri,
    volume_iri,
)
from charactermemory.domain.kinds import DerivedType, Modality, RelationType, RetentionState, ThreadStatus
from charactermemory.domain.lifecycle import LifecycleEvent
from charactermemory.domain.objects import (
    DerivedMemory,
    Episode,
    MemoryLink,
    MemoryObject,
    Observation,
)
from charactermemory.domain.scene import Scene
from charactermemory.ids import MemoryId, ObjectType
from charactermemory.ports.graph import WriteBatch

VOLUME_SIZE = 256
"""Tokens listed by one volume node: the head is found by reading the volumes' numbers and the tokens of the
last, so 100,000 commits cost about 650 rows instead of 100,000."""

Object: TypeAlias = NamedNode | Literal
Statement: TypeAlias = tuple[NamedNode, Object]


@dataclass(frozen=True, slots=True)
class Field:
    """One plain field of a value: its name in the model, its predicate, how it is written."""

    name: str
    predicate: NamedNode
    codec: Codec
    required: bool = True


_MODALITY = token_codec(Modality)
_RETENTION = Field("retention_state", cm.RETENTION_STATE, token_codec(RetentionState))
_SALIENCE = Field("salience_score", cm.SALIENCE_SCORE, DOUBLE)
_RAW_REF = Field("raw_ref", cm.RAW_REF, STRING, required=False)
_UPDATED_AT = Field("updated_at", cm.UPDATED_AT, INSTANT)
_EVERY = (
    Field("created_at", cm.CREATED_AT, INSTANT),
    Field("schema_version", cm.SCHEMA_VERSION, STRING),
)

FIELDS: dict[ObjectType, tuple[Field, ...]] = {
    ObjectType.EPISODE: (
        *_EVERY,
        Field("modality", cm.MODALITY, _MODALITY),
        Field("summary", cm.SUMMARY, STRING, required=False),
        Field("source_conversation_id", cm.SOURCE_CONVERSATION_ID, STRING, required=False),
        _RAW_REF,
        _SALIENCE,
        _RETENTION,
    ),
    ObjectType.OBSERVATION: (
        *_EVERY,
        Field("position", cm.POSITION, INTEGER),
        Field("speaker_entity_id", cm.SPEAKER, NOTION_ID, required=False),
        Field("observed_at", cm.OBSERVED_AT, INSTANT, required=False),
        Field("modality", cm.MODALITY, _MODALITY),
        Field("text", cm.TEXT, STRING),
        _RAW_REF,
        _SALIENCE,
        _RETENTION,
    ),
    ObjectType.ENTITY: _EVERY,
    ObjectType.MEMORY_THREAD: (
        *_EVERY,
        Field("title", cm.TITLE, STRING),
        Field("summary", cm.SUMMARY, STRING),
        Field("status", cm.STATUS, token_codec(ThreadStatus)),
        Field("last_touched_at", cm.LAST_TOUCHED_AT, INSTANT),
        _SALIENCE,
        Field("canonical_key", cm.CANONICAL_KEY, STRING, required=False),
        _UPDATED_AT,
    ),
    ObjectType.DERIVED_MEMORY: (
        *_EVERY,
        Field("derived_type", cm.DERIVED_TYPE, token_codec(DerivedType)),
        Field("text", cm.TEXT, STRING),
        Field("given_by_application", cm.GIVEN_BY_APPLICATION, BOOLEAN),
        _SALIENCE,
        _RETENTION,
        _UPDATED_AT,
    ),
    ObjectType.MEMORY_LINK: (
        *_EVERY,
        Field("rationale", cm.RATIONALE, STRING, required=False),
    ),
}
"""The plain fields of every object type; what is not plain is written and read by name below."""

STATED_ENDS: dict[RelationType, tuple[frozenset[ObjectType], frozenset[ObjectType]]] = {
    RelationType.OBSERVED_IN: (frozenset({ObjectType.OBSERVATION}), frozenset({ObjectType.EPISODE})),
    RelationType.INVOLVES: (frozenset({ObjectType.EPISODE}), frozenset({ObjectType.ENTITY})),
    RelationType.DERIVED_FROM: (
        frozenset({ObjectType.DERIVED_MEMORY}),
        frozenset({ObjectType.EPISODE, ObjectType.OBSERVATION}),
    ),
    RelationType.PART_OF_THREAD: (
        frozenset({ObjectType.DERIVED_MEMORY}),
        frozenset({ObjectType.MEMORY_THREAD}),
    ),
}
"""The types of the sources and targets of relations that fields state; a link may assert them of any.

About and supersedes are not here, for each comes with a link of its own.
"""

SCENE_FIELDS = (
    Field("instant", cm.TIME, INSTANT),
    Field("offset_minutes", cm.OFFSET_MINUTES, INTEGER),
)
PARTICIPANT_FIELDS = (
    Field("key", cm.NOTION, NOTION_ID, required=False),
    Field("name", cm.NAME, STRING, required=False),
    Field("description", cm.DESCRIPTION, STRING, required=False),
)
SETTING_FIELDS = (
    Field("key", cm.KEY, STRING, required=False),
    Field("words", cm.WORDS, STRING, required=False),
)
CUSTOM_VALUE_FIELDS = (Field("key", cm.KEY, STRING), Field("value", cm.VALUE, STRING))
ASSERTION_FIELDS = (
    Field("subject", cm.SUBJECT, NOTION_ID),
    Field("predicate", cm.PREDICATE, STRING),
    Field("name", cm.NAME, STRING),
    Field("normalized_name", cm.NORMALIZED_NAME, STRING),
)
EXTERNAL_REFERENCE_FIELDS = (
    Field("source_ref", cm.SOURCE_REF, STRING, required=False),
    Field("raw_ref", cm.RAW_REF, STRING, required=False),
)


def scene_iri(episode: NamedNode) -> NamedNode:
    """Return the node of an episode's scene."""
    return part_iri(episode, "scene")


def setting_iri(scene: NamedNode) -> NamedNode:
    """Return the node of a scene's setting."""
    return part_iri(scene, "setting")


def object_triples(item: MemoryObject, content: str) -> list[Triple]:
    """Return every triple of one object or link, whose digest is `content`.

    Raises:
        InvalidSceneTimeOffset: the scene's offset has a part finer than a minute, which the graph cannot keep.
    """
    node = ref_iri(item.ref)
    triples = [
        Triple(node, cm.TYPE, cm.CLASSES[item.object_type]),
        Triple(node, cm.DIGEST, Literal(content)),
    ]
    triples += _plain(node, item, FIELDS[item.object_type])
    match item:
        case Episode():
            triples += _scene(node, item.scene)
        case Observation():
            episode = object_iri(ObjectType.EPISODE, item.episode_id)
            triples.append(Triple(node, cm.RELATIONS[RelationType.OBSERVED_IN], episode))
            triples.append(Triple(node, cm.TURN, turn_iri(item.episode_id, item.position)))
        case DerivedMemory():
            triples += _derived(node, item)
        case MemoryLink():
            triples += _link(node, item)
        case _:
            pass
    return triples


def event_triples(event: LifecycleEvent) -> list[Triple]:
    """Return every triple of a forget or correct event."""
    node = event_iri(event.id)
    triples = [
        Triple(node, cm.TYPE, cm.EVENT_CLASS),
        Triple(node, cm.OPERATION, Literal(event.operation)),
        Triple(node, cm.AT, INSTANT.write(event.at)),
        Triple(node, cm.RATIONALE, Literal(event.rationale)),
    ]
    if event.requested_by is not None:
        triples.append(Triple(node, cm.REQUESTED_BY, Literal(event.requested_by)))
    triples += [Triple(node, cm.TARGET, ref_iri(ref)) for ref in event.targets]
    triples += [Triple(node, cm.SUPPRESSES, ref_iri(ref)) for ref in event.suppresses]
    triples += _numbered(
        node,
        cm.EXTERNAL_REFERENCE,
        cm.EXTERNAL_REFERENCE_CLASS,
        "external_reference",
        (list(_statements(reference, EXTERNAL_REFERENCE_FIELDS)) for reference in event.external_refs),
    )
    return triples


def receipt_triples(token: int, batch: WriteBatch, wrote: Iterable[NamedNode]) -> list[Triple]:
    """Return every triple of the receipt of `batch`, which newly stores the nodes `wrote`."""
    node = receipt_iri(token)
    triples = [
        Triple(node, cm.TYPE, cm.RECEIPT_CLASS),
        Triple(node, cm.TOKEN, INTEGER.write(token)),
        Triple(node, cm.OPERATION, Literal(batch.operation)),
        Triple(node, cm.AT, INSTANT.write(batch.at)),
        Triple(node, cm.PLAN_DIGEST, Literal(batch.plan_digest)),
        *volume_triples(token),
    ]
    triples += [Triple(node, cm.WROTE, item) for item in wrote]
    triples += [Triple(node, cm.TOUCHED, ref_iri(ref)) for ref in batch.touched]
    if batch.event is not None:
        triples.append(Triple(node, cm.EVENT, event_iri(batch.event.id)))
    return triples


def volume_triples(token: int) -> list[Triple]:
    """Return the triples that make `token` count as the head and stand in the order of writing."""
    number = token // VOLUME_SIZE
    node = volume_iri(number)
    return [
        Triple(node, cm.TYPE, cm.VOLUME_CLASS),
        Triple(node, cm.VOLUME_NUMBER, INTEGER.write(number)),
        Triple(node, cm.LISTS, INTEGER.write(token)),
    ]


def _statements(value: object, fields: Iterable[Field]) -> Iterator[Statement]:
    for field in fields:
        content = getattr(value, field.name)
        if content is not None:
            yield field.predicate, field.codec.write(content)


def _plain(node: NamedNode, value: object, fields: Iterable[Field]) -> list[Triple]:
    return [Triple(node, predicate, term) for predicate, term in _statements(value, fields)]


def _numbered(
    owner: NamedNode, predicate: NamedNode, kind: NamedNode, name: str, values: Iterable[list[Statement]]
) -> Iterator[Triple]:
    """Nest one node per value below `owner`, in order, repeats kept."""
    for number, statements in enumerate(values, start=1):
        node = part_iri(owner, name, number)
        yield Triple(owner, predicate, node)
        yield Triple(node, cm.TYPE, kind)
        for statement in statements:
            yield Triple(node, *statement)


def _scene(episode: NamedNode, scene: Scene) -> list[Triple]:
    scene.check()
    node = scene_iri(episode)
    triples = [Triple(episode, cm.SCENE, node), Triple(node, cm.TYPE, cm.SCENE_CLASS)]
    triples += _plain(node, scene, SCENE_FIELDS)
    participants = (list(_statements(participant, PARTICIPANT_FIELDS)) for participant in scene.participants)
    triples += _numbered(node, cm.PARTICIPANT, cm.PARTICIPANT_CLASS, "participant", participants)
    involves = cm.RELATIONS[RelationType.INVOLVES]
    triples += [
        Triple(episode, involves, object_iri(ObjectType.ENTITY, key)) for key in scene.participant_keys
    ]
    if scene.setting is not None:
        setting = setting_iri(node)
        triples += [Triple(node, cm.SETTING, setting), Triple(setting, cm.TYPE, cm.SETTING_CLASS)]
        triples += _plain(setting, scene.setting, SETTING_FIELDS)
    values: list[list[Statement]] = [
        [(cm.KEY, Literal(key)), (cm.VALUE, Literal(scene.custom_values[key]))] for key in _keys(scene)
    ]
    triples += _numbered(node, cm.CUSTOM_VALUE, cm.CUSTOM_VALUE_CLASS, "custom_value", values)
    return triples


def _keys(scene: Scene) -> list[str]:
    """The keys in a fixed order: the mapping has none, and a replay must name the same nodes."""
    return sorted(scene.custom_values)


def _derived(node: NamedNode, item: DerivedMemory) -> list[Triple]:
    own: list[tuple[RelationType, NamedNode | None, ObjectType, tuple[MemoryId, ...]]] = [
        (RelationType.DERIVED_FROM, cm.OWN_SOURCE, ObjectType.EPISODE, item.derived_from_episode_ids),
        (RelationType.DERIVED_FROM, cm.OWN_SOURCE, ObjectType.OBSERVATION, item.derived_from_observation_ids),
        (RelationType.PART_OF_THREAD, cm.OWN_THREAD, ObjectType.MEMORY_THREAD, item.thread_ids),
        (RelationType.ABOUT, cm.OWN_NOTION, ObjectType.ENTITY, item.entity_ids),
        # Nobody else may assert supersedes, so its direct triple is the memory's own word.
        (RelationType.SUPERSEDES, None, ObjectType.DERIVED_MEMORY, item.supersedes),
    ]
    triples = []
    for relation, predicate, object_type, ids in own:
        for object_id in ids:
            other = object_iri(object_type, object_id)
            triples.append(Triple(node, cm.RELATIONS[relation], other))
            if predicate is not None:
                triples.append(Triple(node, predicate, other))
    assertions = (list(_statements(assertion, ASSERTION_FIELDS)) for assertion in item.assertions)
    triples += _numbered(node, cm.ASSERTION, cm.ASSERTION_CLASS, "assertion", assertions)
    return triples


def _link(node: NamedNode, item: MemoryLink) -> list[Triple]:
    source, target = ref_iri(item.source), ref_iri(item.target)
    relation = cm.RELATIONS[item.relation]
    return [
        Triple(node, cm.FROM, source),
        Triple(node, cm.TO, target),
        Triple(node, cm.RELATION_OF_LINK, relation),
        Triple(node, cm.EDGE, edge_iri(item.source, item.relation, item.target)),
        Triple(source, relation, target),
    ]
