"""Small builders of valid objects with fixed times, so that a test says only what it is about."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from charactermemory.domain.beliefs import BeliefAssertion
from charactermemory.domain.kinds import DerivedType, RelationType
from charactermemory.domain.lifecycle import LifecycleEvent
from charactermemory.domain.objects import (
    DerivedMemory,
    Entity,
    Episode,
    MemoryLink,
    MemoryObject,
    MemoryThread,
    Observation,
)
from charactermemory.domain.scene import Scene
from charactermemory.ids import MemoryId, MemoryObjectRef, ObjectType, new_id

NOON = datetime(2026, 3, 14, 12, 0, tzinfo=UTC)
"""When everything happens unless a test says otherwise."""


def at(minutes: float) -> datetime:
    """Return the time `minutes` after noon."""
    return NOON + timedelta(minutes=minutes)


def numbered_id(number: int) -> MemoryId:
    """Return a fixed id; ids sort by their numbers."""
    return UUID(int=number)


def episode(**fields: Any) -> Episode:
    """An episode at noon with nobody present and no summary."""
    defaults: dict[str, Any] = {"id": new_id(), "created_at": NOON, "scene": Scene.at(NOON)}
    return Episode(**(defaults | fields))


def observation(of: Episode | MemoryId, position: int = 0, **fields: Any) -> Observation:
    """An observation at `position` of an episode, or of the episode with that id."""
    defaults: dict[str, Any] = {
        "id": new_id(),
        "created_at": NOON,
        "episode_id": of.id if isinstance(of, Episode) else of,
        "position": position,
        "text": f"Something was said at position {position}.",
    }
    return Observation(**(defaults | fields))


def notion(**fields: Any) -> Entity:
    """A notion."""
    defaults: dict[str, Any] = {"id": new_id(), "created_at": NOON}
    return Entity(**(defaults | fields))


def thread(**fields: Any) -> MemoryThread:
    """An active thread."""
    defaults: dict[str, Any] = {
        "id": new_id(),
        "created_at": NOON,
        "updated_at": NOON,
        "last_touched_at": NOON,
        "title": "The garden",
        "summary": "What is planted and when.",
    }
    return MemoryThread(**(defaults | fields))


def belief(*sources: Episode | Observation, known_as: str | None = None, **fields: Any) -> DerivedMemory:
    """A belief that rests on `sources`, or without any one given by the application.

    `known_as` names the first of `entity_ids`; a belief given by the application without `entity_ids` gets a
    new notion's id.
    """
    defaults: dict[str, Any] = {
        "id": new_id(),
        "created_at": NOON,
        "updated_at": NOON,
        "derived_type": DerivedType.CLAIM,
        "text": "It seems to be so.",
        "derived_from_episode_ids": tuple(item.id for item in sources if isinstance(item, Episode)),
        "derived_from_observation_ids": tuple(item.id for item in sources if isinstance(item, Observation)),
        "given_by_application": not sources,
        "entity_ids": () if sources else (new_id(),),
    }
    values = defaults | fields
    if known_as is not None:
        subject = next(iter(values["entity_ids"]))
        values["assertions"] = (BeliefAssertion.known_as(subject, known_as),)
    return DerivedMemory(**values)


def link(
    source: MemoryObject | MemoryObjectRef,
    target: MemoryObject | MemoryObjectRef,
    relation: RelationType = RelationType.ASSOCIATED_WITH,
    **fields: Any,
) -> MemoryLink:
    """A link from `source` to `target`."""
    start, end = (item if isinstance(item, MemoryObjectRef) else item.ref for item in (source, target))
    defaults: dict[str, Any] = {
        "id": new_id(),
        "created_at": NOON,
        "from_id": start.id,
        "from_type": start.object_type,
        "to_id": end.id,
        "to_type": end.object_type,
        "relation": relation,
    }
    return MemoryLink(**(defaults | fields))


def forgetting(*targets: MemoryObject | MemoryObjectRef, **fields: Any) -> LifecycleEvent:
    """A forget event at noon and a half that suppresses its targets."""
    refs = tuple(item if isinstance(item, MemoryObjectRef) else item.ref for item in targets)
    defaults: dict[str, Any] = {
        "id": new_id(),
        "operation": "forget",
        "at": at(30),
        "rationale": "asked to",
        "targets": refs,
        "suppresses": refs,
    }
    return LifecycleEvent(**(defaults | fields))


def unknown_ref(object_type: ObjectType = ObjectType.EPISODE) -> MemoryObjectRef:
    """A reference to something that no test stores."""
    return MemoryObjectRef.of(object_type, new_id())
