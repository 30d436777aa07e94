"""Comparing graph, index and statistics, and repairing what differs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from charactermemory.upkeep.verify import VerifyReport
from memory_app.operations import opening

SHOWN = 20
"""Differences named one by one."""


@dataclass(frozen=True)
class Verified:
    """The check of one collection; `after` is that made after a repair."""

    collection: str
    found: VerifyReport
    after: VerifyReport | None = None

    @property
    def clean(self) -> bool:
        """Whether nothing differs, or nothing does any more."""
        return (self.after or self.found).differences == 0

    def summary(self) -> dict[str, Any]:
        """Return it for JSON: counts, and the first differences by reference."""
        last = self.after or self.found
        gone = self.found.went_back
        return {
            "collection": self.collection,
            "objects": last.objects,
            "points": last.points,
            "differences": last.differences,
            "found": self.found.differences,
            "kinds": dict(sorted(Counter(item.kind for item in self.found.found).items())),
            "first": [str(item) for item in last.found[:SHOWN]],
            "went_back": None if gone is None else {"head": gone.head, "seen": gone.seen},
        }


def verify(collection: str, *, repair: bool = False) -> Verified:
    """Compare one collection both ways; with `repair` set right what differs and compare again.

    Raises:
        Refused, CharacterMemoryError: it is not there, or a store cannot be read.
    """
    with opening.existing(collection) as memory:
        found = memory.upkeep.verify(repair=repair)
        needed = found.differences or found.went_back
        return Verified(collection, found, memory.upkeep.verify() if repair and needed else None)
