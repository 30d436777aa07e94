"""What the final read must bring: reading content is what recall spends most of its time on.

Measured here, one object costs about 0.1 ms, whereas the pack holds a few dozen and expansion comes to
hundreds. So only what can still get into the pack is read, what leads there, and what must be explained.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from charactermemory.ids import MemoryObjectRef, ObjectType
from charactermemory.recall.bearings import NAMED, Cues
from charactermemory.recall.context import SectionLimits
from charactermemory.recall.expansion import Walk
from charactermemory.recall.exploration import FEW, Explorer
from charactermemory.recall.floors import FLOOR
from charactermemory.recall.passage import Passage
from charactermemory.recall.ranking import Ranked, rank
from charactermemory.recall.roads.road import CueKind
from charactermemory.recall.roots import Root

MARGIN = 4
"""Objects read beyond a section's limit, to take the place of those that the verdict denies, and of turns that
turn out to ask (`asking`). Where that is too few everything is read (docs/recall-tuning.md)."""
MAX_DENIED = 64
"""Objects that statistics deny and that are read all the same, to explain why; beyond, theirs is the word."""


def everything(walks: Iterable[Walk]) -> set[MemoryObjectRef]:
    """Return all that the walks came to, denied or not."""
    found: set[MemoryObjectRef] = set()
    for walk in walks:
        found |= walk.visited.keys() | walk.filtered.keys() | {walk.root}
    return found


class Forecast(NamedTuple):
    """What the final read must bring, and the ranking that holds unless it brings a surprise.

    `ranked` is None where nothing was ranked, or by guesses that only the read can settle.
    """

    worth: set[MemoryObjectRef]
    ranked: list[Ranked] | None = None


def forecast(
    roots: Sequence[Root],
    walks: Sequence[Walk],
    explorer: Explorer,
    cues: Cues,
    passage: Passage,
    limits: SectionLimits,
) -> Forecast:
    """Foresee what is worth reading of all that the walks came to.

    Roots and whatever others were reached through; every object whose section only its content tells; of
    episodes and observations the best, by the score they will have; and what statistics know nothing of.
    """
    considered = everything(walks)
    given = {walk.root for walk in walks}
    if len(considered) <= FEW:
        return Forecast(_without_notions(considered, given))
    explorer.weigh(considered | cues.candidates.keys())
    found = explorer.found
    hints = found.hints
    bearings = cues.bearings(found.denied)
    said = (ref for ref in bearings if ref.object_type is ObjectType.OBSERVATION)
    unheard = {ref for ref in said if cues.named and ref not in cues.places}
    for ref in unheard:
        # Who spoke it is known once it is read; till then it counts as spoken by someone named.
        bearings[ref].named = NAMED
    wanted = set(given)
    for walk in walks:
        wanted.update(edge.other(ref) for ref, edge in walk.arrived.items())
    pruned: dict[ObjectType, list[Ranked]] = {ObjectType.EPISODE: [], ObjectType.OBSERVATION: []}
    ranked = rank(roots, walks, found.hint, cues, bearings, passage, found.capped)
    for item in ranked:
        if item.ref.object_type in pruned and item.ref in hints and item.ref not in unheard:
            pruned[item.ref.object_type].append(item)
        else:
            wanted.add(item.ref)
    for kind, limit in (
        (ObjectType.EPISODE, limits.relevant_episodes),
        (ObjectType.OBSERVATION, limits.salient_observations),
    ):
        wanted |= _best(pruned[kind], limit + MARGIN if limit else 0)
    denied = considered.difference(*(walk.visited for walk in walks), wanted)
    wanted |= set(sorted(denied)[:MAX_DENIED])
    return Forecast(_without_notions(wanted, given), None if unheard else ranked)


def _without_notions(
    refs: Iterable[MemoryObjectRef], given: Collection[MemoryObjectRef]
) -> set[MemoryObjectRef]:
    """Leave out the notions on the way: they are in no section, and nothing ends them."""
    return {ref for ref in refs if ref.object_type is not ObjectType.ENTITY or ref in given}


def _best(ranked: Sequence[Ranked], room: int) -> set[MemoryObjectRef]:
    """Return the best, and of each kind of cue enough to keep its floor."""
    chosen = {item.ref for item in ranked[:room]}
    for kind in CueKind:
        own = [item.ref for item in ranked if kind in item.kinds]
        chosen |= set(own[: min(FLOOR + MARGIN, room)])
    return chosen
