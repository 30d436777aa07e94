"""What a caller asks of recall: the situation, and how much may come back (recall.md §2, DESIGN R9)."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Literal, Self

from pydantic import Field

from charactermemory.domain.kinds import RelationType
from charactermemory.domain.lifecycle import LifecyclePolicy
from charactermemory.domain.model import Listed, Model, Text
from charactermemory.domain.names import fold_white_space
from charactermemory.domain.scene import Scene
from charactermemory.errors import OutOfDomain
from charactermemory.ids import MemoryId, ObjectType

ObjectTypes = Annotated[tuple[ObjectType, ...], Listed]
RelationTypes = Annotated[tuple[RelationType, ...], Listed]

MAX_ANCHORS = 64
"""Notions one context may name; each costs its own neighbourhood."""


class CandidateLimits(Model):
    """How many candidates each leg of a search may bring, and how many roots are expanded."""

    max_vector_candidates: Annotated[int, Field(ge=0, le=1_000)] = 48
    max_graph_roots: Annotated[int, Field(ge=0, le=100)] = 12


class GraphLimits(Model):
    """How far and how widely each root is expanded; only counts bound it, never a clock.

    Attributes:
        max_depth: hops from a root; each is one graph round trip, so at most 3 fit the budget of six.
        max_nodes: objects one root may bring, itself included.
        max_fanout_per_node: neighbours kept of one node.
        max_hub_edges: edges read of one node by relation and direction, and weighed in all.
        allowed_relation_types: relations that are walked; empty = all.
        allowed_object_types: types that are walked; empty = all. Does not scope vector candidates.
    """

    max_depth: Annotated[int, Field(ge=0, le=3)] = 2
    max_nodes: Annotated[int, Field(ge=0, le=1_000)] = 96
    max_fanout_per_node: Annotated[int, Field(ge=0, le=256)] = 16
    max_hub_edges: Annotated[int, Field(ge=0, le=1_000)] = 64
    allowed_relation_types: RelationTypes = ()
    allowed_object_types: ObjectTypes = (
        ObjectType.EPISODE,
        ObjectType.OBSERVATION,
        ObjectType.DERIVED_MEMORY,
        ObjectType.MEMORY_THREAD,
        ObjectType.ENTITY,
    )

    @cached_property
    def relations(self) -> frozenset[RelationType]:
        """The relations that are walked."""
        return frozenset(self.allowed_relation_types or RelationType)

    @cached_property
    def types(self) -> frozenset[ObjectType]:
        """The object types that are walked."""
        return frozenset(self.allowed_object_types or ObjectType)


SECTION_MAX = 500
"""Memories that one section of a pack may hold."""
SectionLimit = Annotated[int, Field(ge=0, le=SECTION_MAX)]


class SectionLimits(Model):
    """How many entries each section of the pack may hold; fields stand in the order of the pack."""

    active_threads: SectionLimit = 6
    relevant_episodes: SectionLimit = 8
    salient_observations: SectionLimit = 16
    derived_memories: SectionLimit = 12
    preferences: SectionLimit = 8
    relationship_notes: SectionLimit = 8
    open_loops: SectionLimit = 8
    commitments: SectionLimit = 8
    character_signals: SectionLimit = 8


Profile = Literal["full", "automatic"]

AUTOMATIC_ROOTS = 8
AUTOMATIC_SECTIONS = SectionLimits(
    active_threads=3,
    relevant_episodes=4,
    salient_observations=8,
    derived_memories=6,
    preferences=4,
    relationship_notes=4,
    open_loops=4,
    commitments=4,
    character_signals=4,
)
"""The most that the automatic profile brings, whatever the limits of the context allow."""


class RetrievalContext(Model):
    """One question to the memory.

    Attributes:
        topic: what is being talked about; None or white space = no topic.
        scene: the situation: its participants' keys are anchors. Absent means nothing is known about it.
        anchors: notions to start from, in order of importance.
        object_type_defaults: the types the topic may find directly; at least one.
        profile: `full` brings the best there is, however weak. `automatic`, for recall before every reply,
            brings less, and nothing that is too unlike the topic.
        include_trace: whether to explain every step; the pack is the same either way.
    """

    topic: Text | None = None
    scene: Scene | None = None
    anchors: Annotated[tuple[MemoryId, ...], Listed, Field(max_length=MAX_ANCHORS)] = ()
    candidate_limits: CandidateLimits = CandidateLimits()
    graph_limits: GraphLimits = GraphLimits()
    section_limits: SectionLimits = SectionLimits()
    lifecycle_policy: LifecyclePolicy = LifecyclePolicy()
    object_type_defaults: ObjectTypes = (
        ObjectType.EPISODE,
        ObjectType.OBSERVATION,
        ObjectType.DERIVED_MEMORY,
        ObjectType.MEMORY_THREAD,
    )
    profile: Profile = "full"
    include_trace: bool = False

    @classmethod
    def new(cls, topic: str) -> Self:
        """A context of a topic alone, everything else at its default."""
        return cls(topic=topic)

    def with_trace(self) -> Self:
        """The same context with the trace asked for."""
        return self.replace(include_trace=True)

    def within_profile(self) -> Self:
        """The same context with its limits lowered to those of its profile."""
        if self.profile == "full":
            return self
        candidates, sections = self.candidate_limits, self.section_limits
        most = dict(AUTOMATIC_SECTIONS)
        return self.replace(
            candidate_limits=candidates.replace(
                max_graph_roots=min(candidates.max_graph_roots, AUTOMATIC_ROOTS)
            ),
            section_limits=sections.replace(
                **{section: min(limit, most[section]) for section, limit in sections}
            ),
        )

    @property
    def query(self) -> str | None:
        """The topic as it is searched for; None if there is none."""
        return fold_white_space(self.topic) or None if self.topic else None

    @property
    def anchored_notions(self) -> tuple[MemoryId, ...]:
        """The notions named by the caller or present in the scene, distinct, in order."""
        present = self.scene.participant_keys if self.scene else ()
        return tuple(dict.fromkeys((*self.anchors, *present)))

    def check(self) -> None:
        """Judge what construction accepts.

        Raises:
            OutOfDomain: `object_type_defaults` is empty.
            InvalidSceneTimeOffset: the scene's offset has a part finer than a minute.
        """
        if not self.object_type_defaults:
            raise OutOfDomain(
                keys=("object_type_defaults",), expected="at least one retrieval object type", actual="[]"
            )
        if self.scene:
            self.scene.check()
