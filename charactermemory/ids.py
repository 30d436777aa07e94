"""Identity of memory objects: ids, object types, typed references, deterministic derivation.

Identity is the pair (object type, id); the same UUID may name objects of different types
(memory-core §1.1). Derived ids are UUIDv5 over length-framed parts (memory-core §1.2), so that
every replay of one plan or correction names the same objects.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any, NamedTuple
from uuid import UUID, uuid4

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

MemoryId = UUID
"""Any UUID but the nil one; ordering is that of its 16 bytes."""

NIL_ID = UUID(int=0)

DERIVATION_NAMESPACE = UUID("5f18dc72-f839-58f8-8ff3-c841298cc789")
"""Namespace of every derived id; fixed for ever (memory-core §1.2)."""


class ObjectType(StrEnum):
    """The six kinds of memory object; declaration order is the stable rank 0..5."""

    EPISODE = "episode"
    OBSERVATION = "observation"
    ENTITY = "entity"
    MEMORY_THREAD = "memory_thread"
    DERIVED_MEMORY = "derived_memory"
    MEMORY_LINK = "memory_link"

    rank: int
    """Stable rank used in every ordering; a plain attribute, since orderings ask for little else."""


for _rank, _member in enumerate(ObjectType):
    _member.rank = _rank


class _Written(BaseModel):
    """A typed reference to one object; sorts by (id, type rank)."""

    model_config = ConfigDict(extra="forbid", strict=True, title="MemoryObjectRef")

    object_type: ObjectType
    id: Annotated[UUID, Field(description="Id of the object")]

    @classmethod
    def inlined(cls) -> Any:
        """Return the schema without a name of its own."""
        return {key: value for key, value in cls.__pydantic_core_schema__.items() if key != "ref"}

    def reference(self) -> MemoryObjectRef:
        """Return what the fields stand for."""
        return MemoryObjectRef.of(self.object_type, self.id)


class _Key(NamedTuple):
    number: int
    rank: int
    object_type: ObjectType


class MemoryObjectRef(_Key):
    """A typed reference to one object; sorts by (id, type rank). For pydantic it is a model of its two fields.

    It is the tuple it sorts by: one recall hashes and compares references ten thousand times, which a tuple
    does in a fifth of the time of a model. A process keeps a hundred thousand of them, so it holds its id as a
    number and nothing beside.

    Attributes:
        number: the id as a number.
        rank: the rank of the type.
        object_type: type of the object.
    """

    __slots__ = ()

    def __new__(cls, *, object_type: ObjectType, id: UUID) -> MemoryObjectRef:
        """Make a reference.

        Raises:
            ValidationError: of pydantic, for anything but an object type and a UUID.
        """
        if type(object_type) is not ObjectType or not isinstance(id, UUID):
            _Written(object_type=object_type, id=id)
        return cls.of(object_type, id)

    @classmethod
    def of(cls, object_type: ObjectType, id: UUID) -> MemoryObjectRef:
        """Return the reference of what is known to be an object type and a UUID."""
        return cls.numbered(object_type, id.int)

    @classmethod
    def numbered(cls, object_type: ObjectType, number: int) -> MemoryObjectRef:
        """Return the reference of a type and an id that is known as a number."""
        return tuple.__new__(cls, (number, object_type.rank, object_type))

    @property
    def id(self) -> UUID:
        """Id of the object."""
        return UUID(int=self.number)

    @property
    def order(self) -> tuple[int, int]:
        """Stable order key: (id as number, type rank)."""
        return (self.number, self.rank)

    def __reduce__(self) -> tuple[Callable[..., MemoryObjectRef], tuple[ObjectType, UUID]]:
        return self.of, (self.object_type, self.id)

    def __str__(self) -> str:
        return f"{self.object_type.value} {self.id}"

    def __repr__(self) -> str:
        return f"MemoryObjectRef(object_type={self.object_type!r}, id={self.id!r})"

    def _written(self) -> dict[str, Any]:
        return {"object_type": self.object_type, "id": self.id}

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        written = _Written.inlined()
        return core_schema.json_or_python_schema(
            json_schema=core_schema.no_info_after_validator_function(_Written.reference, written),
            python_schema=core_schema.is_instance_schema(cls),
            serialization=core_schema.plain_serializer_function_ser_schema(cls._written),
            ref=f"{cls.__module__}.{cls.__qualname__}:{id(cls)}",
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return handler(_Written.inlined())


def new_id() -> UUID:
    """Return a random version 4 id."""
    return uuid4()


def derive_id(*parts: str | UUID) -> UUID:
    """Derive the UUIDv5 of `parts`, each framed by its 8-byte big-endian length.

    UUID parts contribute their 16 raw bytes, texts their UTF-8 bytes; the framing keeps
    ("ab", "c") and ("a", "bc") apart (memory-core §1.2).
    """
    framed = bytearray()
    for part in parts:
        raw = part.bytes if isinstance(part, UUID) else part.encode()
        framed += len(raw).to_bytes(8, "big") + raw
    digest = hashlib.sha1(DERIVATION_NAMESPACE.bytes + bytes(framed), usedforsecurity=False).digest()
    return UUID(bytes=digest[:16], version=5)


def plan_candidate_id(seed: str, label: str) -> UUID:
    """Id of a plan candidate that brought none, e.g. label `observation:0`."""
    return derive_id("character_memory.remember_plan", seed, label)


def supersedes_link_id(successor: UUID, predecessor: UUID) -> UUID:
    """Id of the derived Supersedes link from `successor` to `predecessor`."""
    return derive_id("character_memory.lifecycle.supersedes_link", successor, predecessor)


def about_link_id(memory: UUID, notion: UUID) -> UUID:
    """Id of the derived About link from a derived memory to one of its notions."""
    return derive_id("character_memory.belief.about_link", memory, notion)


def correction_seed(identity_json: str) -> UUID:
    """Seed of a correction, from the canonical JSON of its identity view (memory-core §9.4)."""
    return derive_id("character_memory.lifecycle.correction", identity_json)


def replacement_id(seed: UUID, index: int) -> UUID:
    """Id of the `index`-th replacement of a correction whose draft brought none."""
    return derive_id("character_memory.lifecycle.replacement_memory", seed, f"replacement:{index}")
