"""Memories that say the same as one they belong to: an episode and its own turn, a belief and its source.

Only what is connected and of another kind is compared. Two people may say the same words, and that both did
is worth knowing.
"""

from __future__ import annotations

import re

from charactermemory.domain.names import fold_letters
from charactermemory.domain.objects import DerivedMemory, Episode, MemoryObject, Observation
from charactermemory.ids import MemoryObjectRef, ObjectType

ECHO = 0.9
"""From this share of common words on, of all words in both, two texts say the same."""
_WORD = re.compile(r"\w+")


class Echoes:
    """What the pack holds so far, by what it is connected to."""

    def __init__(self) -> None:
        self._held: dict[MemoryObjectRef, list[tuple[MemoryObjectRef, frozenset[str]]]] = {}

    def met(self, item: MemoryObject) -> MemoryObjectRef | None:
        """Return the memory held already that is connected with `item` and says the same; else hold `item`."""
        words, anchors = _words(item), _anchors(item)
        if not words:
            return None
        for anchor in anchors:
            for other, known in self._held.get(anchor, ()):
                alike = len(words & known) >= ECHO * len(words | known)
                if alike and other.object_type is not item.object_type:
                    return other
        for anchor in anchors:
            self._held.setdefault(anchor, []).append((item.ref, words))
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
