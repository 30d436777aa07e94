"""What a deployment may turn: how strongly a notion's commonness narrows what it opens (recall.md §12)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from charactermemory.config import Settings
from charactermemory.domain.kinds import RelationType
from charactermemory.errors import OutOfDomain
from charactermemory.ids import ObjectType


@dataclass(frozen=True, slots=True)
class FanoutSpec:
    """How many neighbours of one kind a notion opens: between `minimum` and `maximum`."""

    relation: RelationType
    object_type: ObjectType
    minimum: int
    maximum: int

    @property
    def pair(self) -> tuple[RelationType, ObjectType]:
        """What the spec is about."""
        return (self.relation, self.object_type)

    def __post_init__(self) -> None:
        if not 0 <= self.minimum <= self.maximum:
            raise OutOfDomain(
                keys=(f"retrieval.fanout.{self.relation.value}.{self.object_type.value}",),
                expected="min <= max",
                actual=f"min={self.minimum} max={self.maximum}",
            )


DEFAULT_SPECS = (
    FanoutSpec(RelationType.ABOUT, ObjectType.DERIVED_MEMORY, 0, 20),
    FanoutSpec(RelationType.INVOLVES, ObjectType.EPISODE, 0, 5),
    FanoutSpec(RelationType.PART_OF_THREAD, ObjectType.DERIVED_MEMORY, 0, 15),
)
"""Recall.md §12.3."""


RELEVANCE_FLOORS: dict[str, float] = {"wordllama:l2_supercat:256": 0.30}
"""Measured (docs/recall-tuning.md); an embedder that is not here has no floor."""


@dataclass(frozen=True, slots=True)
class RecallKnobs:
    """The settings that steer recall.

    Attributes:
        alpha: smoothing of the selectivity score; finite, > 0.
        gamma: how sharply the budget follows the score; finite, > 0.
        specs: the fan-outs that follow selectivity, in the order in which they are planned.
        floors: the least similarity to the topic that the automatic profile admits, by embedder fingerprint.
        language: the collection's; it tells how months are called.

    Raises:
        OutOfDomain: alpha or gamma is not finite and positive.
    """

    alpha: float = 1.0
    gamma: float = 1.0
    specs: tuple[FanoutSpec, ...] = DEFAULT_SPECS
    floors: Mapping[str, float] = field(default_factory=lambda: dict(RELEVANCE_FLOORS))
    language: str = "english"

    def __post_init__(self) -> None:
        for name, value in (("alpha", self.alpha), ("gamma", self.gamma)):
            if not (math.isfinite(value) and value > 0):
                raise OutOfDomain(keys=(name,), expected="a finite number above 0", actual=repr(value))

    @classmethod
    def of(cls, settings: Settings) -> RecallKnobs:
        """Take the knobs out of the settings."""
        about, involves, thread = (spec.pair for spec in DEFAULT_SPECS)
        return cls(
            alpha=settings.selectivity_smoothing_alpha,
            gamma=settings.selectivity_gamma,
            language=settings.language,
            specs=(
                FanoutSpec(
                    *about,
                    settings.retrieval_fanout_about_entity_derived_memory_min,
                    settings.retrieval_fanout_about_entity_derived_memory_max,
                ),
                FanoutSpec(
                    *involves,
                    settings.retrieval_fanout_participant_entity_episode_min,
                    settings.retrieval_fanout_participant_entity_episode_max,
                ),
                FanoutSpec(
                    *thread,
                    settings.retrieval_fanout_part_of_thread_derived_memory_min,
                    settings.retrieval_fanout_part_of_thread_derived_memory_max,
                ),
            ),
        )
