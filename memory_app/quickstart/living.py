"""Living the sample life: remembering what is not there yet, session by session."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

from charactermemory import CharacterMemory, MemoryObjectRef, Stored
from charactermemory.remember.outcome import Outcome
from memory_app.quickstart.plans import LifePlans
from memory_app.sample.life import SampleLife

Progress = Callable[[int], None]
"""Called with the number of sessions done since the last call."""


@dataclass
class LifeClock:
    """A clock that stands at a moment of the life, so that what is corrected or forgotten in March says March."""

    now: datetime

    def __call__(self) -> datetime:
        """Return the moment."""
        return self.now


@dataclass
class Lived:
    """What one run added. `owed` counts the objects whose derived stores could not be written."""

    sessions: int = 0
    turns: int = 0
    corrections: int = 0
    forgettings: int = 0
    owed: int = 0

    @property
    def nothing(self) -> bool:
        """Whether everything was there already."""
        return not (self.sessions or self.corrections or self.forgettings)


def live(
    memory: CharacterMemory, life: SampleLife, clock: LifeClock, progress: Progress = lambda done: None
) -> Lived:
    """Remember the sessions that are not stored yet, and correct and forget what is not yet.

    Looks before it writes: a session is stored whole or not at all, and replaying one whose parts were
    forgotten since would be refused. So a run that was interrupted is taken up where it ended.

    Raises:
        CharacterMemoryError: see `CharacterMemory.commit`, `correct` and `forget`.
    """
    plans = LifePlans(life)
    stored = memory.browse.get(*_landmarks(life, plans))
    lived = Lived()

    def note(outcome: Outcome) -> None:
        lived.owed += sum(len(marker.objects) for marker in outcome.repair_needed)

    clock.now = life.beginning.time
    if any(plans.ref(belief.key) not in stored for belief in life.beginning.beliefs):
        note(memory.commit(plans.beginning()))
    for session in life.sessions:
        clock.now = session.time
        if plans.ref(session.key) not in stored:
            note(memory.commit(plans.session(session)))
            lived.sessions += 1
            lived.turns += len(session.turns)
        for correction in session.corrections:
            if plans.ref(correction.replacement.key) not in stored:
                note(memory.correct(plans.correction(correction)))
                lived.corrections += 1
        for forgetting in session.forgettings:
            if not all(_forgotten(stored, plans.ref(key)) for key in forgetting.targets):
                note(memory.forget(plans.forgetting(forgetting)))
                lived.forgettings += 1
        progress(1)
    return lived


def is_anothers(memory: CharacterMemory, life: SampleLife) -> bool:
    """Whether the memory holds something, and not the beginning of this life."""
    first = LifePlans(life).ref(life.beginning.beliefs[0].key)
    return bool(memory.stores.graph.head()) and not memory.browse.get(first)


def _landmarks(life: SampleLife, plans: LifePlans) -> Iterator[MemoryObjectRef]:
    """Yield what tells whether each step of the life was taken."""
    yield from (plans.ref(belief.key) for belief in life.beginning.beliefs)
    for session in life.sessions:
        yield plans.ref(session.key)
        yield from (plans.ref(correction.replacement.key) for correction in session.corrections)
        yield from (plans.ref(key) for forgetting in session.forgettings for key in forgetting.targets)


def _forgotten(stored: dict[MemoryObjectRef, Stored], ref: MemoryObjectRef) -> bool:
    return ref in stored and stored[ref].suppressed
