"""A port that is watched, and that fails or answers wrongly where a test says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Call:
    """One call: the method and its arguments by position."""

    name: str
    args: tuple[Any, ...]


@dataclass
class Spy:
    """Passes every call on to `inner`, lists it in `calls`, and meets it with the next fault of its name.

    A fault strikes instead of the call: nothing reaches `inner`. An alteration changes what `inner` answered.
    Both are used up in the order in which they were given.
    """

    inner: Any
    calls: list[Call] = field(default_factory=list)
    _faults: dict[str, list[BaseException]] = field(default_factory=dict)
    _alterations: dict[str, list[Callable[[Any], Any]]] = field(default_factory=dict)

    def fail(self, name: str, error: BaseException, times: int = 1) -> None:
        """Let the next `times` calls of `name` raise `error`."""
        self._faults.setdefault(name, []).extend([error] * times)

    def alter(self, name: str, change: Callable[[Any], Any]) -> None:
        """Let the next call of `name` answer `change(answer)`."""
        self._alterations.setdefault(name, []).append(change)

    def recover(self) -> None:
        """Drop the faults and alterations that were not met."""
        self._faults.clear()
        self._alterations.clear()

    def names(self) -> list[str]:
        """Return the names of the calls so far."""
        return [call.name for call in self.calls]

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.inner, name)
        if not callable(value):
            return value

        def call(*args: Any, **named: Any) -> Any:
            self.calls.append(Call(name, args))
            if self._faults.get(name):
                raise self._faults[name].pop(0)
            answer = value(*args, **named)
            if self._alterations.get(name):
                return self._alterations[name].pop(0)(answer)
            return answer

        return call
