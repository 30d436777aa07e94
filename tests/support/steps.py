"""Every call a memory makes to its ports, numbered; a test may act around each, or end the process there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

Moment = Literal["before", "after"]


class Crash(BaseException):
    """The process ends here; no handler of the code under test may catch it."""


@dataclass(frozen=True, slots=True)
class Step:
    """One call: its number from 1, the port, and the name of the method."""

    number: int
    port: str
    name: str


Watch = Callable[[Step, Moment], None]
"""Called around every step."""


def unwatched(step: Step, moment: Moment) -> None:
    """Watch nothing."""


class Steps:
    """Numbers the calls of all ports that share it.

    Once `dead`, every further call raises `Crash`, so that no `finally` of the code under test reaches a
    store, as none would after a SIGKILL. `bury` then lets the handles be closed, and only that.
    """

    def __init__(self) -> None:
        self.taken: list[Step] = []
        self.watch: Watch = unwatched
        self.dead = False
        self._buried = False

    def kill(self) -> None:
        """End the process: from now on every call raises."""
        self.dead = True

    def crash(self) -> None:
        """End the process here."""
        self.kill()
        raise Crash

    def bury(self) -> None:
        """Let what is left of a dead process be closed."""
        self.dead = self._buried = True

    def run(self, port: str, name: str, call: Callable[[], Any]) -> Any:
        """Take one step."""
        if self._buried:
            return call() if name == "close" else None
        if self.dead:
            raise Crash
        step = Step(len(self.taken) + 1, port, name)
        self.taken.append(step)
        self.watch(step, "before")
        answer = call()
        self.watch(step, "after")
        return answer


class Stepped:
    """A port whose every call is a step. A rebuild that it begins is a port of its own."""

    def __init__(self, inner: Any, port: str, steps: Steps, *, kept: bool = False) -> None:
        """Take the port; a `kept` one is not closed with the memory, as a disk is not."""
        self.inner = inner
        self._port = port
        self._steps = steps
        self._kept = kept

    def close(self) -> None:
        """Close, unless it outlives the process."""
        if not self._kept:
            self._steps.run(self._port, "close", self.inner.close)

    def begin_rebuild(self, anew: bool = False) -> Stepped:
        """Begin a rebuild of an index, or go on with one."""
        begun = self._steps.run(self._port, "begin_rebuild", lambda: self.inner.begin_rebuild(anew))
        return Stepped(begun, f"{self._port} rebuild", self._steps)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.inner, name)
        if not callable(value):
            return value

        def call(*args: Any, **named: Any) -> Any:
            return self._steps.run(self._port, name, lambda: value(*args, **named))

        return call
