"""The anchor road: notions that the caller or the topic names, or that are present (recall.md §12.7)."""

from __future__ import annotations

from dataclasses import dataclass

from charactermemory.ids import MemoryObjectRef, ObjectType
from charactermemory.ports.stores import Stores
from charactermemory.recall.roads.road import CueKind, Proposal, RoadAnswer
from charactermemory.recall.situation import Situation

ANCHOR_SCORE = 1.0
"""A named notion is a certain cue (recall.md §16.3)."""


@dataclass(frozen=True, slots=True)
class AnchorRoad:
    """Starts at each named notion; how much it opens follows its selectivity."""

    name: str = "anchor"
    cue: CueKind = CueKind.PARTICIPANT

    def propose(self, stores: Stores, situation: Situation) -> RoadAnswer:
        """Return every anchored notion, with full score."""
        return RoadAnswer(
            proposals=tuple(
                Proposal(ref=MemoryObjectRef.of(ObjectType.ENTITY, notion), cue=ANCHOR_SCORE)
                for notion in situation.anchors
            )
        )
