"""What long-term memory tells in the call under way, for algorithms that want to know while choosing a window."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Recalled:
    """What memory brings to this call; empty outside of a call with memory.

    `pack` is the continuity pack, None without one. `message_ids` are the messages of this thread whose words
    the pack holds: a window may leave them out, for they are then told from memory.
    """

    pack: Any = None
    message_ids: frozenset[str] = frozenset()


_NOTHING = Recalled()
_current: ContextVar[Recalled] = ContextVar("charactermemory_recalled", default=_NOTHING)


def recalled() -> Recalled:
    """Return what memory tells in the call whose window is being chosen."""
    return _current.get()


@contextmanager
def showing(what: Recalled | None) -> Iterator[None]:
    """Let algorithms that run inside see `what`."""
    token = _current.set(what or _NOTHING)
    try:
        yield
    finally:
        _current.reset(token)
