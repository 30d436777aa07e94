"""What a road is: it looks at the context and proposes objects to start from (DESIGN R10)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from charactermemory.domain.model import Model
from charactermemory.ids import MemoryObjectRef
from charactermemory.ports.stores import Stores
from charactermemory.ports.vectors import Completeness, LegHits
from charactermemory.recall.fusion import Leg
from charactermemory.recall.situation import Situation


class CueKind(StrEnum):
    """What in the situation called a memory up."""

    PARTICIPANT = "participant"
    TOPIC = "topic"


class Proposal(NamedTuple):
    """One object to start from.

    Attributes:
        ref: the object.
        cue: how strong the cue is of itself, 0..1; 0 where searches tell.
        similarity: raw cosine, where a dense search found it.
        lexical: raw BM25, where a lexical search found it.
    """

    ref: MemoryObjectRef
    cue: float = 0.0
    similarity: float | None = None
    lexical: float | None = None


@dataclass(frozen=True, slots=True)
class Search:
    """One leg of a vector search a road made: what came back, for the report, and the best of each object."""

    leg: str
    hits: LegHits
    best: Leg


class Degradation(Model):
    """Something recall had to do without; `cause` is an error's stable code, `kind` its kind if it has one."""

    road: str
    part: str
    cause: str
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class RoadAnswer:
    """What one road found, and what it had to do without.

    `below_floor` counts what was found and is too unlike the topic to be proposed.
    """

    proposals: tuple[Proposal, ...] = ()
    searches: tuple[Search, ...] = ()
    below_floor: int = 0
    embedding_dimension: int | None = None
    degraded: tuple[Degradation, ...] = ()


class Road(Protocol):
    """One way from a cue to memories."""

    @property
    def name(self) -> str:
        """The stable token under which what came this way is reported."""
        ...

    @property
    def cue(self) -> CueKind:
        """The kind of cue it follows."""
        ...

    def propose(self, stores: Stores, situation: Situation) -> RoadAnswer:
        """Return roots for this situation. Failures of derived stores degrade; graph failures raise."""
        ...


NOT_REQUESTED = Completeness(kind="not_requested")
"""The completeness of a search that was not made."""
