"""Threads that take turns: only one runs at a time, and who goes on is drawn at every step."""

from __future__ import annotations

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


@dataclass(eq=False)
class _Actor:
    act: Callable[[], None]
    turn: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    ended: bool = False
    error: BaseException | None = None


class Turns:
    """Gives one thread after the other its turn. At `end_at` turns the process dies, and all threads with it."""

    def __init__(self, random: Random, die: Callable[[], None], end_at: int | None) -> None:
        self._random = random
        self._die = die
        self._end_at = end_at
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
        turns = 0
        while running := [actor for actor in actors if not actor.ended]:
            if turns == self._end_at:
                self._dead = True
                self._die()
            self._random.choice(running).turn.release()
            self._back.acquire()
            turns += 1
            if turns > MOST_TURNS:
                self._dead = True
        for thread in threads:
            thread.join()
        assert turns <= MOST_TURNS, "the actors wait for one another"
        for actor in actors:
            if actor.error is not None:
                raise actor.error
        return self._dead

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

    def give(self) -> None:
        """Give the turn back; return when it comes again. A thread that takes no turns goes on at once."""
        actor: _Actor | None = getattr(self._here, "actor", None)
        if actor is None:
            return
        self._back.release()
        actor.turn.acquire()
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
            self._turns.give()
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
