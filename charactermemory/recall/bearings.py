"""What speaks for an object: its own match, and that of what stands around it (docs/recall-tuning.md).

Said of a conversation: a turn is seldom the only one about its matter. So a turn whose neighbours match,
whose whole episode matches, or that was spoken by someone the topic names, is worth more than its words.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from charactermemory.ids import MemoryObjectRef
from charactermemory.ports.graph import Place, Spot
from charactermemory.recall.fusion import Leg, fuse
from charactermemory.recall.months import Month
from charactermemory.recall.roots import Candidate

NEIGHBOUR_SHARES = {1: 0.5, 2: 0.2}
"""What a turn gets of the own score of a turn so many places away in its episode."""
NAMED = 0.5
"""What a matching turn gets for being spoken by someone the topic names."""
PRESENT_SHARE = 0.5
"""What a memory gets of its match for being spoken by, or held about, someone present (see `presence`)."""
PRESENT_BESIDE_NAMED = 0.0625
"""The same where the topic names someone: who is present then settles little more than ties."""
EPISODE_SHARE = 0.3
"""What an episode and the matching turns in it get of its mean best scores."""
EPISODE_BEST = 5
"""How many turns that mean is taken over; missing ones count as 0."""


@dataclass(slots=True)
class Bearing:
    """What speaks for one object, each part before its weight in the ranking formula.

    Attributes:
        own: strength of its own match or cue, 0..1.
        matched: whether the topic itself found it.
        neighbours: its share of the matches beside it in its episode.
        named: its bonus for a person the topic names.
        present: its bonus for being spoken by someone present.
        episode: its share of its episode's matches.
    """

    own: float = 0.0
    matched: bool = False
    neighbours: float = 0.0
    named: float = 0.0
    present: float = 0.0
    episode: float = 0.0

    @property
    def total(self) -> float:
        """All parts together."""
        return self.own + self.neighbours + self.named + self.present + self.episode

    @property
    def match(self) -> float:
        """What the topic found of it and beside it."""
        return self.own + self.neighbours


NO_BEARING = Bearing()


@dataclass
class Cues:
    """What the roads found, and where it stands.

    Attributes:
        candidates: everything any road proposed.
        legs: the searches behind it.
        places: where observations stand, as far as was asked.
        turns: of each episode, the observation at each position that is known to be taken.
        named: the notions the topic names.
        present: the notions that are present.
        months: the months the topic names.
        spoken: the observations among `places` that one of those spoke.
    """

    candidates: Mapping[MemoryObjectRef, Candidate]
    legs: Sequence[Leg] = ()
    places: dict[MemoryObjectRef, Place] = field(default_factory=dict)
    turns: dict[MemoryObjectRef, dict[int, MemoryObjectRef]] = field(default_factory=dict)
    named: frozenset[MemoryObjectRef] = frozenset()
    present: frozenset[MemoryObjectRef] = frozenset()
    months: frozenset[Month] = frozenset()
    spoken: set[MemoryObjectRef] = field(default_factory=set)
    _matches: tuple[Collection[MemoryObjectRef], dict[MemoryObjectRef, float]] | None = field(
        default=None, init=False
    )

    @property
    def present_share(self) -> float:
        """What the closest memories of someone present get of their match."""
        return PRESENT_BESIDE_NAMED if self.named else PRESENT_SHARE

    def know(self, found: Mapping[MemoryObjectRef, Place]) -> None:
        """Take note of where observations stand."""
        for ref, place in sorted(found.items()):
            self.places[ref] = place
            if place.speaker in self.present:
                self.spoken.add(ref)
            self.stands(ref, place.episode, place.position)

    def stands(self, observation: MemoryObjectRef, episode: MemoryObjectRef, position: int) -> None:
        """Take note of what stands at one place."""
        self.turns.setdefault(episode, {})[position] = observation

    def beside_found(self) -> set[MemoryObjectRef]:
        """Return the observations known by nothing but that they stand beside one that was found."""
        return {ref for turns in self.turns.values() for ref in turns.values()} - self.places.keys()

    def beside(self, refs: Iterable[MemoryObjectRef]) -> list[Spot]:
        """Return the places next to these observations, sorted."""
        spots = {
            (place.episode, place.position + away)
            for ref in refs
            if (place := self.places.get(ref)) is not None
            for away in _AWAY
            if place.position + away >= 0
        }
        return sorted(spots)

    def next_to(self, ref: MemoryObjectRef) -> frozenset[MemoryObjectRef]:
        """Return the observations known to stand next to one."""
        place = self.places.get(ref)
        if place is None:
            return frozenset()
        turns = self.turns.get(place.episode, {})
        return frozenset(turns[place.position + away] for away in _AWAY if place.position + away in turns)

    def bearings(
        self,
        left_out: Collection[MemoryObjectRef] = (),
        speakers: Mapping[MemoryObjectRef, MemoryObjectRef] | None = None,
    ) -> dict[MemoryObjectRef, Bearing]:
        """Return what speaks for each candidate, the turns beside it and their episodes.

        Args:
            left_out: what is known to be no longer there or not to be shown; it counts for nothing.
            speakers: who spoke turns that are known by nothing but their neighbours.
        """
        found: dict[MemoryObjectRef, Bearing] = {}
        matches = self._fused(left_out)
        for ref, candidate in self.candidates.items():
            if ref not in left_out:
                match = matches.get(ref, 0.0)
                found[ref] = Bearing(max(candidate.cue, match), match > 0)
        self._add_neighbours(found, left_out)
        self._add_named(found, speakers or {})
        self._add_present(found)
        self._add_episodes(found, left_out)
        return found

    def _fused(self, left_out: Collection[MemoryObjectRef]) -> dict[MemoryObjectRef, float]:
        """Return the legs' common scores, made once for as long as the same is left out."""
        if self._matches is None or self._matches[0] != left_out:
            self._matches = left_out, fuse(self.legs, left_out)
        return self._matches[1]

    def _add_neighbours(
        self, found: dict[MemoryObjectRef, Bearing], left_out: Collection[MemoryObjectRef]
    ) -> None:
        given = [
            (place, bearing.own)
            for ref, place in self.places.items()
            if len(self.turns[place.episode]) > 1
            and (bearing := found.get(ref)) is not None
            and bearing.own > 0
        ]
        for (episode, position, _), own in given:
            turns = self.turns[episode]
            for away, share in _AWAY.items():
                beside = turns.get(position + away)
                if beside is not None and beside not in left_out:
                    bearing = found.get(beside)
                    if bearing is None:
                        bearing = found[beside] = Bearing()
                    bearing.neighbours += share * own

    def _add_named(
        self, found: dict[MemoryObjectRef, Bearing], speakers: Mapping[MemoryObjectRef, MemoryObjectRef]
    ) -> None:
        if not self.named:
            return
        for ref, bearing in found.items():
            place = self.places.get(ref)
            speaker = place.speaker if place else speakers.get(ref)
            if speaker in self.named and bearing.match > 0:
                bearing.named = NAMED

    def _add_present(self, found: dict[MemoryObjectRef, Bearing]) -> None:
        share = self.present_share
        for ref in self.spoken:
            if (bearing := found.get(ref)) is not None:
                bearing.present = share * bearing.match

    def _add_episodes(
        self, found: dict[MemoryObjectRef, Bearing], left_out: Collection[MemoryObjectRef]
    ) -> None:
        for episode, turns in self.turns.items():
            if len(turns) < 2:
                continue  # one turn is not its episode
            said = [bearing for ref in turns.values() if (bearing := found.get(ref)) is not None]
            if sum(bearing.own > 0 for bearing in said) < 2:
                continue
            said = [bearing for bearing in said if bearing.total > 0]
            best = sorted((bearing.total for bearing in said), reverse=True)[:EPISODE_BEST]
            share = EPISODE_SHARE * sum(best) / EPISODE_BEST
            for bearing in said:
                bearing.episode = share
            if episode not in left_out:
                found.setdefault(episode, Bearing()).episode = share


_AWAY = {sign * away: share for away, share in NEIGHBOUR_SHARES.items() for sign in (-1, 1)}
