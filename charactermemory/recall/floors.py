"""Room reserved for each kind of cue, so that a loud topic cannot silence who is there (recall.md §16.4)."""

from __future__ import annotations

from collections.abc import Sequence

from charactermemory.recall.roads.road import CueKind

FLOOR = 1
"""Places of every bounded list that each kind of cue may claim, if it has anything for them."""


class Gate:
    """Decides, best first, what gets into a bounded list.

    Everything does as long as that leaves each kind of cue its floor; then only what a kind still has a claim
    to. Room that cannot serve every kind serves them in their order.
    """

    def __init__(self, kinds: Sequence[frozenset[CueKind]], room: int) -> None:
        """Take the kinds of cue behind each item of the list, and how many may get in."""
        waiting = frozenset().union(*kinds)
        self.room = room
        self._left = len(kinds)
        self._claims = {kind: FLOOR for kind in CueKind if kind in waiting}

    def admits(self, kinds: frozenset[CueKind]) -> bool:
        """Say whether the next item may get in."""
        self._left -= 1
        if self.room <= 0:
            return False
        if self._left < self.room or self.room > len(self._claims):
            return True
        return any(kind in kinds for kind in list(self._claims)[: self.room])

    def admit(self, kinds: frozenset[CueKind]) -> None:
        """Take that item in."""
        self.room -= 1
        for kind in kinds & self._claims.keys():
            self._claims[kind] -= 1
            if not self._claims[kind]:
                del self._claims[kind]


def admitted(kinds: Sequence[frozenset[CueKind]], room: int) -> list[bool]:
    """Say which of a list's items, best first, get in."""
    gate = Gate(kinds, room)
    taken = []
    for of in kinds:
        taken.append(gate.admits(of))
        if taken[-1]:
            gate.admit(of)
    return taken
