"""Facts about a graph that stay true once they are, since it only grows (consistency.md R4)."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping
from typing import Generic, TypeVar

from charactermemory.domain.kinds import RelationType
from charactermemory.ids import MemoryId, MemoryObjectRef
from charactermemory.ports.graph import Place

PLACES = 16_384
"""Places kept of a collection, about 500 bytes each; one recall asks for about a hundred."""
CROWDS = 4_096
"""Crowds kept of a collection; one recall meets a few dozen."""

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


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


class Places(Kept[MemoryId, Place]):
    """Where observations stand."""

    def __init__(self) -> None:
        super().__init__(PLACES)


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
