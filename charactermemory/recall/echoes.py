"""Memories that say the same as one they belong to: an episode and its own turn, a belief and its source.

Only what is connected and of another kind is compared. Two people may say the same words, and that both did
is worth knowing.
"""

from __future__ import annotations

import re
from functools import cached_property

from charactermemory.domain.names import fold_letters
from charactermemory.domain.objects import DerivedMemory, Episode, MemoryObject, Observation
from charactermemory.ids import MemoryObjectRef, ObjectType

ECHO = 0.9
"""From this share of common words on, of all words in both, two texts say the same."""
_WORD = re.compile(r"\w+")


class _Said:
    """A memory and its words, which are taken apart when they are first compared."""

    def __init__(self, item: MemoryObject) -> None:
        self.item = item

    @cached_property
    def words(self) -> frozenset[str]:
        return _words(self.item)

    def repeats(self, other: _Said) -> bool:
        """Whether it says the same as a memory of another kind."""
        if self.item.object_type is other.item.object_type or not self.words:
            return False
        return len(self.words & other.words) >= ECHO * len(self.words | other.words)


class Echoes:
    """What the pack holds so far, by what it is connected to."""

    def __init__(self) -> None:
        self._held: dict[MemoryObjectRef, list[_Said]] = {}

    def met(self, item: MemoryObject) -> MemoryObjectRef | None:
        """Return the memory held already that is connected with `item` and says the same; else hold `item`."""
        said, anchors = _Said(item), _anchors(item)
        for anchor in anchors:
            for other in self._held.get(anchor, ()):
                if said.repeats(other):
                    return other.item.ref
        for anchor in anchors:
            self._held.setdefault(anchor, []).append(said)
        return None


def _words(item: MemoryObject) -> frozenset[str]:
    match item:
        case Episode():
            text = item.summary or ""
        case Observation() | DerivedMemory():
            text = item.text
        case _:
            return frozenset()
    return frozenset(_WORD.findall(fold_letters(text)))


def _anchors(item: MemoryObject) -> list[MemoryObjectRef]:
    """Return what ties a memory to others: itself and its sources; a turn's episode only for the episode."""
    match item:
        case Observation():
            return [item.ref, MemoryObjectRef.of(ObjectType.EPISODE, item.episode_id)]
        case DerivedMemory():
            sources = [MemoryObjectRef.of(ObjectType.EPISODE, one) for one in item.derived_from_episode_ids]
            turns = item.derived_from_observation_ids
            return [*sources, *(MemoryObjectRef.of(ObjectType.OBSERVATION, one) for one in turns)]
        case _:
            return [item.ref]
