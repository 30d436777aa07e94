"""What was written or read before: a graph only grows, and under a digest a content never changes.

So a read has to ask for digest and lifecycle alone where the content is known (consistency.md R4); that is three
rows an object instead of fifteen, most of what reading costs.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple

from charactermemory.domain.objects import Episode, MemoryObject
from charactermemory.ids import MemoryObjectRef

CAPACITY = 12_288
"""Objects kept of a collection, about 2 kB each: all that recall comes to of a memory of ten thousand."""

LONGEST = 2_000
"""Characters of an object that is kept, or a few thousand documents would fill the memory; most have a hundred."""


def is_short(item: MemoryObject) -> bool:
    """Whether an object is short enough to be kept."""
    size = len(getattr(item, "text", None) or getattr(item, "summary", None) or "")
    if isinstance(item, Episode):
        size += sum(map(len, item.scene.custom_values.values()))
    return size <= LONGEST


class Content(NamedTuple):
    """An object as it was written, and its digest."""

    authored: MemoryObject
    digest: str


class Contents:
    """The objects met last, of some of which it is only known that they are stored. Thread-safe."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self._kept: OrderedDict[MemoryObjectRef, Content | None] = OrderedDict()

    def among(self, refs: Iterable[MemoryObjectRef]) -> dict[MemoryObjectRef, Content]:
        """Return the known contents of `refs`."""
        found: dict[MemoryObjectRef, Content] = {}
        with self._lock:
            for ref in refs:
                content = self._kept.get(ref)
                if content is not None:
                    self._kept.move_to_end(ref)
                    found[ref] = content
        return found

    def stored(self, refs: Iterable[MemoryObjectRef]) -> set[MemoryObjectRef]:
        """Return those of `refs` that are known to be stored."""
        with self._lock:
            found = {ref for ref in refs if ref in self._kept}
            for ref in found:
                self._kept.move_to_end(ref)
        return found

    def keep(self, contents: Iterable[Content]) -> None:
        """Remember contents, of long ones only that they are stored, and let go of what was met longest ago."""
        with self._lock:
            for content in contents:
                ref = content.authored.ref
                self._kept[ref] = content if is_short(content.authored) else None
                self._kept.move_to_end(ref)
            self._shrink()

    def met(self, refs: Iterable[MemoryObjectRef]) -> None:
        """Remember that `refs` are stored."""
        with self._lock:
            for ref in refs:
                self._kept.setdefault(ref, None)
            self._shrink()

    def _shrink(self) -> None:
        while len(self._kept) > self._capacity:
            self._kept.popitem(last=False)
