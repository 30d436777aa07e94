"""A connection that counts its calls and fails where a test says: before or after one reached the store."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from charactermemory.adapters.oxigraph.connection import (
    Connection,
    NamedNode,
    Pattern,
    ResponseLost,
    Row,
    Triple,
)

CallName = Literal["query", "ask", "update", "match", "dump", "sync", "close"]
Moment = Literal["before", "after"]


@dataclass(frozen=True, slots=True)
class Call:
    """One call: its number from 1, its name, the text it sent (empty for sync, close, match, dump)."""

    number: int
    name: CallName
    text: str = ""


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens at a call. `before` keeps the call from the store; `after`, it has taken effect.

    Attributes:
        moment: before or after the call.
        error: raise this instead of going on or returning.
        lose_response: raise the `ResponseLost` of an update whose answer did not come.
        delay_seconds: wait so long first.
        kill: kill -9 this process.
    """

    moment: Moment = "before"
    error: Exception | None = None
    lose_response: bool = False
    delay_seconds: float = 0.0
    kill: bool = False


@dataclass
class RecordingConnection:
    """A `Connection` around another one. `calls` lists every call in the order in which they started.

    `faults` holds faults by call number; `next_faults` by name, each used up by the next call of that name.
    Numbers count the calls of this wrapper alone, so the same test run meets the same numbers.
    """

    inner: Connection
    faults: dict[int, Fault] = field(default_factory=dict)
    next_faults: dict[CallName, Fault] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    in_flight: bool = True
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def names(self) -> list[CallName]:
        """Return the names of the calls so far, in order."""
        return [call.name for call in self.calls]

    @contextmanager
    def _call(self, name: CallName, text: str = "") -> Iterator[None]:
        with self._lock:
            call = Call(len(self.calls) + 1, name, text)
            self.calls.append(call)
            fault = self.faults.pop(call.number, None) or self.next_faults.pop(name, None)
        if fault is not None and fault.moment == "before":
            self._strike(fault, call)
        yield
        if fault is not None and fault.moment == "after":
            self._strike(fault, call)

    def _strike(self, fault: Fault, call: Call) -> None:
        if fault.delay_seconds:
            time.sleep(fault.delay_seconds)
        if fault.kill:
            os.kill(os.getpid(), signal.SIGKILL)
        if fault.lose_response:
            raise ResponseLost(f"call {call.number} was answered to nobody", in_flight=self.in_flight)
        if fault.error is not None:
            raise fault.error

    def query(self, text: str) -> list[Row]:
        """See `Connection`."""
        with self._call("query", text):
            return self.inner.query(text)

    def ask(self, text: str) -> bool:
        """See `Connection`."""
        with self._call("ask", text):
            return self.inner.ask(text)

    def update(self, text: str) -> None:
        """See `Connection`."""
        with self._call("update", text):
            self.inner.update(text)

    def match(self, graph: NamedNode, patterns: Sequence[Pattern]) -> list[list[Triple]]:
        """See `Connection`."""
        with self._call("match"):
            return self.inner.match(graph, patterns)

    def occurring(self, graph: NamedNode, patterns: Iterable[Pattern]) -> set[Pattern]:
        """See `Connection`; over a network no call, so none is recorded."""
        return self.inner.occurring(graph, patterns)

    def dump(self, graph: NamedNode) -> Iterator[bytes]:
        """See `Connection`."""
        with self._call("dump"):
            return self.inner.dump(graph)

    def version(self) -> int | None:
        """See `Connection`; no call to the store, so none is recorded."""
        return self.inner.version()

    def sync(self) -> None:
        """See `Connection`."""
        with self._call("sync"):
            self.inner.sync()

    def backup(self, folder: Path) -> bool:
        """See `Connection`; not recorded."""
        return self.inner.backup(folder)

    def close(self) -> None:
        """See `Connection`."""
        with self._call("close"):
            self.inner.close()
