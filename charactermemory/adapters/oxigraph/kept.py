"""Facts about a graph that stay true once they are, since it only grows (consistency.md R4), or until they are
touched.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping
from functools import partial
from typing import Generic, TypeVar

from charactermemory.domain.kinds import RelationType
from charactermemory.ids import MemoryObjectRef, ObjectType
from charactermemory.ports.graph import Place

PLACES = 32_768
"""Places kept of a collection, about 300 bytes each; one recall asks for about a hundred."""
CROWDS = 4_096
"""Crowds kept of a collection; one recall meets a few dozen."""

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")

_EPISODE = partial(MemoryObjectRef.numbered, ObjectType.EPISODE)
_NOTION = partial(MemoryObjectRef.numbered, ObjectType.ENTITY)


class Kept(Generic[_Key, _Value]):
    """The values met last, by key. Thread-safe."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self._kept: OrderedDict[_Key, _Value] = OrderedDict()

    def among(self, keys: Iterable[_Key]) -> dict[_Key, _Value]:
        """Return what is known of `keys`."""
        found: dict[_Key, _Value] = {}
        with self._lock:
            for key in keys:
                value = self._kept.get(key)
                if value is not None:
                    self._kept.move_to_end(key)
                    found[key] = value
        return found

    def keep(self, values: Mapping[_Key, _Value]) -> None:
        """Remember values, and let go of what was met longest ago."""
        with self._lock:
            for key, value in values.items():
                self._kept[key] = value
                self._kept.move_to_end(key)
            while len(self._kept) > self._capacity:
                self._kept.popitem(last=False)

    def drop(self, keys: Iterable[_Key]) -> None:
        """Let go of values."""
        with self._lock:
            for key in keys:
                self._kept.pop(key, None)


class Current(Generic[_Key, _Value]):
    """Values that hold at one version of the store, and beyond it until a commit touches them. Thread-safe.

    Commits are told by `carry`; where the version went on without being told of, nothing is known any more.
    A value that is kept was read at its version or later: whatever a later commit made of it comes with a touch.
    """

    def __init__(self, capacity: int) -> None:
        self._lock = threading.Lock()
        self._version: int | None = None
        self._capacity = capacity
        self._kept: Kept[_Key, _Value] = Kept(capacity)

    def among(self, keys: Iterable[_Key], version: int | None) -> dict[_Key, _Value]:
        """Return what holds of `keys` at a version; nothing where None is known."""
        with self._lock:
            if version is None:
                return {}
            self._move_to(version)
            return self._kept.among(keys)

    def keep(self, values: Mapping[_Key, _Value], version: int | None) -> None:
        """Remember what was read at a version or later, unless more is known meanwhile."""
        with self._lock:
            if version is not None and version == self._version:
                self._kept.keep(values)

    def carry(self, version: int | None, touched: Iterable[_Key]) -> None:
        """Take note that a commit alone made `version` of the one before it; None if others had a hand in it."""
        with self._lock:
            if version is not None and version - 1 == self._version:
                self._kept.drop(touched)
                self._version = version
            elif version is not None:
                self._move_to(version)

    def _move_to(self, version: int) -> None:
        if version != self._version:
            self._version, self._kept = version, Kept(self._capacity)


class Places:
    """Where observations stand, and who spoke them, as far as that was asked. Thread-safe.

    Ids are kept as numbers, which Python's collector passes over.
    """

    def __init__(self) -> None:
        self._kept: Kept[int, tuple[int, int, int, bool]] = Kept(PLACES)

    def among(self, observations: Iterable[MemoryObjectRef], speakers: bool) -> dict[MemoryObjectRef, Place]:
        """Return the known places, with `speakers` those of which it is known who spoke."""
        asked = {ref.number: ref for ref in observations}
        return {
            asked[number]: Place(_EPISODE(episode), position, _NOTION(speaker) if speaker else None)
            for number, (episode, position, speaker, heard) in self._kept.among(asked).items()
            if heard or not speakers
        }

    def keep(self, found: Mapping[MemoryObjectRef, Place], speakers: bool) -> None:
        """Remember places; `speakers` tells whether it was asked who spoke."""
        self._kept.keep(
            {
                ref.number: (episode.number, position, speaker.number if speaker else 0, speakers)
                for ref, (episode, position, speaker) in found.items()
            }
        )


Crowd = tuple[MemoryObjectRef, RelationType]
"""A node, and the relation by which a crowd comes in."""


class Crowds(Kept[Crowd, int]):
    """The greatest number that each crowd is known to exceed."""

    def __init__(self) -> None:
        super().__init__(CROWDS)

    def exceeding(self, number: int, crowds: Iterable[Crowd]) -> set[Crowd]:
        """Return those of `crowds` that are known to be more than `number`."""
        return {crowd for crowd, known in self.among(crowds).items() if known >= number}

    def note(self, number: int, crowds: Iterable[Crowd]) -> None:
        """Remember that `crowds` are more than `number`."""
        every = set(crowds)
        known = self.among(every)
        self.keep({crowd: max(number, known.get(crowd, number)) for crowd in every})
