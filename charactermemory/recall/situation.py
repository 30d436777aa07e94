"""The situation recall answers to: the context, with the names of its topic understood."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from charactermemory.ids import MemoryId, MemoryObjectRef, ObjectType
from charactermemory.ports.graph import GraphStore
from charactermemory.recall.context import RetrievalContext
from charactermemory.recall.knobs import RecallKnobs
from charactermemory.recall.months import Month, months_in
from charactermemory.recall.names import Topic, read_topic


@dataclass(frozen=True, slots=True)
class Situation:
    """What every road looks at.

    Attributes:
        context: what the caller asks, within the caps of its profile.
        topic: the topic and the names in it; None if there is none.
        floors: the least similarity of what the topic finds, by embedder fingerprint, where one applies.
        months: the months that the topic names.
    """

    context: RetrievalContext
    topic: Topic | None = None
    floors: dict[str, float] = field(default_factory=dict)
    months: frozenset[Month] = frozenset()

    @classmethod
    def read(cls, graph: GraphStore, context: RetrievalContext, knobs: RecallKnobs) -> Situation:
        """Understand a context; one round trip if it has a topic.

        Raises:
            StoreError: the graph failed.
        """
        within = context.within_profile()
        topic = read_topic(graph, within.query) if within.query else None
        floors = dict(knobs.floors) if within.profile == "automatic" else {}
        # Whoever is called May is no month.
        months = months_in(topic.content, knobs.language) if topic and topic.content else frozenset()
        return cls(within, topic, floors, months)

    @property
    def anchors(self) -> tuple[MemoryId, ...]:
        """The notions that the caller names, that are present, or that the topic names; distinct, in order."""
        named = self.topic.bearers if self.topic else ()
        return tuple(dict.fromkeys((*self.context.anchored_notions, *named)))

    @property
    def present(self) -> frozenset[MemoryObjectRef]:
        """The notions that are present."""
        scene = self.context.scene
        return _notions(scene.participant_keys) if scene else frozenset()

    @property
    def named(self) -> frozenset[MemoryObjectRef]:
        """The notions that the topic names."""
        return _notions(self.topic.bearers) if self.topic else frozenset()


def _notions(ids: Iterable[MemoryId]) -> frozenset[MemoryObjectRef]:
    return frozenset(MemoryObjectRef.of(ObjectType.ENTITY, notion) for notion in ids)
