"""Between values and RDF terms: names of nodes, and one codec per kind of literal.

The library serialises every term; text is never formatted into a query. Codecs are lossless: times keep six
digits, numbers their shortest exact form. What cannot be read back is a `ValueError` without the value in it,
for that may be memory text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any
from uuid import UUID

from pyoxigraph import Literal, NamedNode

from charactermemory.adapters.oxigraph.connection import Term
from charactermemory.adapters.oxigraph.vocabulary import (
    BASE,
    XSD_BOOLEAN,
    XSD_DATE_TIME,
    XSD_DOUBLE,
    XSD_INTEGER,
    XSD_STRING,
)
from charactermemory.domain.kinds import RelationType
from charactermemory.domain.model import utc_text
from charactermemory.ids import MemoryId, MemoryObjectRef, ObjectType

_OBJECT_TYPES = {member.value: member for member in ObjectType}


def graph_iri(collection: str) -> NamedNode:
    """Return the named graph of a collection; it is also the node that stands for the collection in it."""
    return NamedNode(f"{BASE}collection:{collection}")


# Every step of a commit asks for the same few names.
@lru_cache(maxsize=4096)
def object_iri(object_type: ObjectType, object_id: MemoryId) -> NamedNode:
    """Return the node of an object or link."""
    return NamedNode(f"{BASE}{object_type}:{object_id}")


@lru_cache(maxsize=4096)
def ref_iri(ref: MemoryObjectRef) -> NamedNode:
    """Return the node of a reference."""
    return object_iri(ref.object_type, ref.id)


def turn_iri(episode_id: MemoryId, position: int) -> NamedNode:
    """Return the node of one place in an episode, by which its observation is found at once."""
    return NamedNode(f"{object_iri(ObjectType.EPISODE, episode_id).value}:turn:{position:d}")


def edge_iri(source: MemoryObjectRef, relation: RelationType, target: MemoryObjectRef) -> NamedNode:
    """Return the node of a relation triple, by which the links that assert it are found at once."""
    ends = (f"{ref.object_type.value}:{ref.id}" for ref in (source, target))
    return NamedNode(f"{BASE}edge:{relation.value}:{':'.join(ends)}")


def event_iri(event_id: MemoryId) -> NamedNode:
    """Return the node of a lifecycle event."""
    return NamedNode(f"{BASE}event:{event_id}")


def receipt_iri(token: int) -> NamedNode:
    """Return the node of the receipt of the commit numbered `token`."""
    return NamedNode(f"{BASE}receipt:{token:d}")


def fence_iri(token: int) -> NamedNode:
    """Return the node of the fence at `token`; commits with a lower token fail once it is stored."""
    return NamedNode(f"{BASE}fence:{token:d}")


def volume_iri(number: int) -> NamedNode:
    """Return the node under which a run of receipts is kept together."""
    return NamedNode(f"{BASE}volume:{number:d}")


def part_iri(owner: NamedNode, name: str, number: int | None = None) -> NamedNode:
    """Return a node nested under `owner`; numbered ones sort by their name, from 1."""
    ending = f":{name}" if number is None else f":{name}:{number:06d}"
    return NamedNode(owner.value + ending)


def ref_of(term: Term | None) -> MemoryObjectRef:
    """Return the reference that a node stands for.

    Raises:
        ValueError: the term is no node of an object or link.
    """
    if not isinstance(term, NamedNode):
        raise ValueError("no memory object")
    return _ref_named(term.value)


# The same nodes are met over and over in one recall, and parsing costs several times what remembering does.
@lru_cache(maxsize=8_192)
def _ref_named(name: str) -> MemoryObjectRef:
    token, _, rest = name.removeprefix(BASE).partition(":")
    object_type = _OBJECT_TYPES.get(token)
    if object_type is None or not name.startswith(BASE):
        raise ValueError("no memory object")
    return MemoryObjectRef.of(object_type, UUID(rest))


def place_of(term: Term) -> tuple[MemoryId, int]:
    """Return the (episode id, position) of a turn node.

    Raises:
        ValueError: the term is none.
    """
    if not isinstance(term, NamedNode):
        raise ValueError("no turn")
    head, _, position = term.value.rpartition(":turn:")
    return UUID(head.removeprefix(f"{BASE}episode:")), int(position)


def part_number(name: str) -> int:
    """Return the number of a nested node, by its name.

    Raises:
        ValueError: it has none.
    """
    return int(name.rpartition(":")[2])


@dataclass(frozen=True, slots=True)
class Codec:
    """How one kind of value is written as a term and read back; `read` raises `ValueError`."""

    write: Callable[[Any], NamedNode | Literal]
    read: Callable[[Term], Any]


def _lexical(term: Term, datatype: NamedNode) -> str:
    if not isinstance(term, Literal) or term.datatype != datatype:
        raise ValueError("of another datatype")
    return term.value


def _read_instant(term: Term) -> datetime:
    value = datetime.fromisoformat(_lexical(term, XSD_DATE_TIME))
    if value.tzinfo is UTC:
        return value
    if value.tzinfo is None:
        raise ValueError("a time without zone")
    return value.astimezone(UTC)


def _read_boolean(term: Term) -> bool:
    value = _lexical(term, XSD_BOOLEAN)
    if value not in ("true", "false", "1", "0"):
        raise ValueError("no boolean")
    return value in ("true", "1")


def _read_notion(term: Term) -> MemoryId:
    ref = ref_of(term)
    if ref.object_type is not ObjectType.ENTITY:
        raise ValueError("no notion")
    return ref.id


def _read_string(term: Term) -> str:
    return _lexical(term, XSD_STRING)


STRING = Codec(lambda value: Literal(value), _read_string)
INTEGER = Codec(
    lambda value: Literal(str(value), datatype=XSD_INTEGER), lambda term: int(_lexical(term, XSD_INTEGER))
)
DOUBLE = Codec(
    lambda value: Literal(repr(value), datatype=XSD_DOUBLE), lambda term: float(_lexical(term, XSD_DOUBLE))
)
BOOLEAN = Codec(lambda value: Literal("true" if value else "false", datatype=XSD_BOOLEAN), _read_boolean)
INSTANT = Codec(lambda value: Literal(utc_text(value), datatype=XSD_DATE_TIME), _read_instant)
NOTION_ID = Codec(lambda value: object_iri(ObjectType.ENTITY, value), _read_notion)
REFERENCE = Codec(ref_iri, ref_of)


def token_codec(kind: type[StrEnum]) -> Codec:
    """Return the codec of a closed vocabulary; an unknown token cannot be read."""
    terms = {member: Literal(member.value) for member in kind}
    members: dict[Term, StrEnum] = {term: member for member, term in terms.items()}

    def read(term: Term) -> StrEnum:
        member = members.get(term)
        if member is None:
            raise ValueError("an unknown token")
        return member

    return Codec(terms.__getitem__, read)
