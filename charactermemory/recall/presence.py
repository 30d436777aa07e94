"""What the people present have to do with what was found (docs/recall-tuning.md).

"When is my birthday?" is asked by somebody, and the words do not say by whom. So among memories that match,
those gain that somebody present spoke, that are held about them, or that they had a part in. What they gain is
a share of the match itself: being there makes nothing relevant that the topic did not find.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from charactermemory.domain.kinds import RelationType
from charactermemory.ids import MemoryObjectRef
from charactermemory.recall.bearings import Cues
from charactermemory.recall.expansion import Walk

PARTY_SHARE = 0.25
"""How much closer a memory is for having been there, beside having spoken it or being who it is about."""

_ABOUT, _INVOLVES, _DERIVED_FROM = RelationType.ABOUT, RelationType.INVOLVES, RelationType.DERIVED_FROM


def company(walks: Sequence[Walk], cues: Cues) -> dict[MemoryObjectRef, float]:
    """Return how close admitted objects are to who is present, beside being spoken by them.

    1 for what is held about one of them. `PARTY_SHARE` if all of them took part in the episode that an object is,
    was said in or was concluded from; if some did, their part of it, so that the character itself, who is always
    there, does not make everybody's memories alike.
    """
    if not cues.present:
        return {}
    about: set[MemoryObjectRef] = set()
    there: defaultdict[MemoryObjectRef, set[MemoryObjectRef]] = defaultdict(set)
    concluded: list[tuple[MemoryObjectRef, MemoryObjectRef]] = []
    for walk in walks:
        for source, relation, target in walk.relations:
            if relation is _DERIVED_FROM:
                concluded.append((source, target))
            elif target in cues.present:
                if relation is _ABOUT:
                    about.add(source)
                elif relation is _INVOLVES and source in walk.visited:
                    there[source].add(target)
    party: dict[MemoryObjectRef, float] = {}
    for episode, people in there.items():
        share = PARTY_SHARE * len(people) / len(cues.present)
        party |= dict.fromkeys((episode, *cues.turns.get(episode, {}).values()), share)
    close = dict(party)
    for source, target in concluded:
        if target in party:
            close[source] = max(close.get(source, 0.0), party[target])
    for ref in about - cues.spoken:
        close[ref] = close.get(ref, 0.0) + 1.0
    return close
