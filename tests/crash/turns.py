"""Threads that take turns: only one runs at a time, and at every step it is drawn whether another goes on."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

from charactermemory.adapters.oxigraph.locks import ThreadWriterLock
from charactermemory.ports.locks import Grant
from tests.support.steps import Crash

MOST_TURNS = 20_000
"""Far more than any actors here need: reached only if they wait for one another for ever."""


_numbers = itertools.count()
"""No two processes ever share one, as they would an address: a lock's tokens go by its name."""


@dataclass(eq=False)
class _Actor:
    act: Callable[[], None]
    turn: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    ended: bool = False
    waiting: bool = False
    held_up_till: int = 0
    error: BaseException | None = None


class Turns:
    """Gives one thread after the other its turn. At `end_at` turns the process dies, and all threads with it.

    The one that runs goes on until, with the chance `change` at every step, another is drawn, or it waits. A small
    chance lets one do much between two steps of another, which is what most races need; a great one mixes them.
    """

    def __init__(
        self, random: Random, die: Callable[[], None], end_at: int | None, change: float = 1.0
    ) -> None:
        self.number = next(_numbers)
        self._random = random
        self._die = die
        self._end_at = end_at
        self._change = change
        self._taken = 0
        self._back = threading.Semaphore(0)
        self._here = threading.local()
        self._dead = False

    def play(self, acts: Sequence[Callable[[], None]]) -> bool:
        """Run `acts`, each in a thread of its own; return whether the process died before they were done.

        Raises:
            Exception: the first that an act raised.
        """
        actors = [_Actor(act) for act in acts]
        threads = [threading.Thread(target=self._run, args=(actor,)) for actor in actors]
        for thread in threads:
            thread.start()
        last: _Actor | None = None
        while running := [actor for actor in actors if not actor.ended]:
            if self._taken == self._end_at:
                self._dead = True
                self._die()
            last = self._next(running, last)
            last.turn.release()
            self._back.acquire()
            self._taken += 1
            if self._taken > MOST_TURNS:
                self._dead = True
        for thread in threads:
            thread.join()
        assert self._taken <= MOST_TURNS, "the actors wait for one another"
        for actor in actors:
            if actor.error is not None:
                raise actor.error
        return self._dead

    def _next(self, running: list[_Actor], last: _Actor | None) -> _Actor:
        """Choose who goes on: of those that could, if any, one that is not held up."""
        free = [actor for actor in running if not actor.waiting] or running
        free = [actor for actor in free if actor.held_up_till <= self._taken] or free
        if last in free and self._random.random() >= self._change:
            return last
        return self._random.choice(free)

    def _run(self, actor: _Actor) -> None:
        actor.turn.acquire()
        self._here.actor = actor
        try:
            actor.act()
        except Crash:
            pass
        except BaseException as error:
            actor.error = error
        actor.ended = True
        self._back.release()

    def end(self) -> None:
        """Let the process die here: no thread takes another step."""
        if getattr(self._here, "actor", None) is not None:
            self._end_at = self._taken + 1

    def give(self, *, waiting: bool = False, hold_up: int = 0) -> None:
        """Give the turn back; return when it comes again. A thread that takes no turns goes on at once.

        Args:
            waiting: whether this thread waits for another.
            hold_up: turns that others have first, as long as they can do something with them.
        """
        actor: _Actor | None = getattr(self._here, "actor", None)
        if actor is None:
            return
        actor.waiting = waiting
        actor.held_up_till = self._taken + hold_up
        self._back.release()
        actor.turn.acquire()
        actor.waiting = False
        if self._dead:
            raise Crash


class Mutex:
    """A re-entrant lock that gives the turn on while it waits."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._owner: int | None = None
        self._depth = 0

    def __enter__(self) -> None:
        while self._owner not in (None, threading.get_ident()):
            self._turns.give(waiting=True)
        self._owner = threading.get_ident()
        self._depth += 1

    def __exit__(self, *error: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._owner = None


class TurnsWriterLock:
    """The writer lock of a process whose threads take turns."""

    def __init__(self, name: str, turns: Turns) -> None:
        self._lock = ThreadWriterLock(name)
        self._mutex = Mutex(turns)

    @contextmanager
    def hold(
        self, collection: str, settle: Callable[[int, int], bool], head: Callable[[], int]
    ) -> Iterator[Grant]:
        """See `WriterLock`."""
        with self._mutex, self._lock.hold(collection, settle, head) as grant:
            yield grant

    def last_settled(self, collection: str) -> int | None:
        """See `WriterLock`."""
        return self._lock.last_settled(collection)
