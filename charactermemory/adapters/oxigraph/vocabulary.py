"""The names of everything that stands in a collection's graph (`vocabulary.ttl` says what they mean).

Classes and predicates are `urn:charactermemory:vocab:*`, relations `urn:charactermemory:relation:<token>`.
"""

from __future__ import annotations

from pyoxigraph import NamedNode

from charactermemory.domain.kinds import RelationType
from charactermemory.ids import ObjectType

BASE = "urn:charactermemory:"
VOCABULARY = BASE + "vocab:"
RELATION = BASE + "relation:"
_XSD = "http://www.w3.org/2001/XMLSchema#"


def _name(name: str) -> NamedNode:
    return NamedNode(VOCABULARY + name)


TYPE = NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")
XSD_STRING = NamedNode(_XSD + "string")
XSD_INTEGER = NamedNode(_XSD + "integer")
XSD_DOUBLE = NamedNode(_XSD + "double")
XSD_BOOLEAN = NamedNode(_XSD + "boolean")
XSD_DATE_TIME = NamedNode(_XSD + "dateTime")

CLASSES = {
    ObjectType.EPISODE: _name("Episode"),
    ObjectType.OBSERVATION: _name("Observation"),
    ObjectType.ENTITY: _name("Entity"),
    ObjectType.MEMORY_THREAD: _name("MemoryThread"),
    ObjectType.DERIVED_MEMORY: _name("DerivedMemory"),
    ObjectType.MEMORY_LINK: _name("MemoryLink"),
}
SCENE_CLASS = _name("Scene")
PARTICIPANT_CLASS = _name("Participant")
SETTING_CLASS = _name("Setting")
CUSTOM_VALUE_CLASS = _name("CustomValue")
ASSERTION_CLASS = _name("Assertion")
EVENT_CLASS = _name("LifecycleEvent")
EXTERNAL_REFERENCE_CLASS = _name("ExternalReference")
RECEIPT_CLASS = _name("Receipt")
VOLUME_CLASS = _name("Volume")
FENCE_CLASS = _name("Fence")

# Every object and link
DIGEST = _name("digest")
CREATED_AT = _name("createdAt")
SCHEMA_VERSION = _name("schemaVersion")
# Several classes
MODALITY = _name("modality")
SUMMARY = _name("summary")
TEXT = _name("text")
RAW_REF = _name("rawRef")
SALIENCE_SCORE = _name("salienceScore")
RETENTION_STATE = _name("retentionState")
UPDATED_AT = _name("updatedAt")
NAME = _name("name")
KEY = _name("key")
# Episode and its scene
SOURCE_CONVERSATION_ID = _name("sourceConversationId")
SCENE = _name("scene")
TIME = _name("time")
OFFSET_MINUTES = _name("offsetMinutes")
PARTICIPANT = _name("participant")
NOTION = _name("notion")
DESCRIPTION = _name("description")
SETTING = _name("setting")
WORDS = _name("words")
CUSTOM_VALUE = _name("customValue")
VALUE = _name("value")
# Observation
POSITION = _name("position")
TURN = _name("turn")
SPEAKER = _name("speaker")
OBSERVED_AT = _name("observedAt")
# Memory thread
TITLE = _name("title")
STATUS = _name("status")
LAST_TOUCHED_AT = _name("lastTouchedAt")
CANONICAL_KEY = _name("canonicalKey")
# Derived memory: what it names itself, told apart from what links say of it
DERIVED_TYPE = _name("derivedType")
GIVEN_BY_APPLICATION = _name("givenByApplication")
OWN_SOURCE = _name("ownSource")
OWN_THREAD = _name("ownThread")
OWN_NOTION = _name("ownNotion")
ASSERTION = _name("assertion")
SUBJECT = _name("subject")
PREDICATE = _name("predicate")
NORMALIZED_NAME = _name("normalizedName")
# Link
FROM = _name("from")
TO = _name("to")
RELATION_OF_LINK = _name("relation")
EDGE = _name("edge")
RATIONALE = _name("rationale")
# Lifecycle event
OPERATION = _name("operation")
AT = _name("at")
REQUESTED_BY = _name("requestedBy")
EXTERNAL_REFERENCE = _name("externalReference")
SOURCE_REF = _name("sourceRef")
TARGET = _name("target")
SUPPRESSES = _name("suppresses")
# Receipts, fences, and the graph itself
TOKEN = _name("token")
PLAN_DIGEST = _name("planDigest")
WROTE = _name("wrote")
TOUCHED = _name("touched")
EVENT = _name("event")
VOLUME_NUMBER = _name("volumeNumber")
LISTS = _name("lists")
MOVED_TO = _name("movedTo")

RELATIONS = {relation: NamedNode(RELATION + relation.value) for relation in RelationType}
RELATION_BY_NODE = {node: relation for relation, node in RELATIONS.items()}
