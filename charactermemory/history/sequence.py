"""The messages of a stored thread as a list that loads only what is looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableSequence, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, overload

from charactermemory.history.models import Message

CHUNK = 64
"""Rows per query while reading newest first; a token budget of a few thousand ends in the first chunks."""


@dataclass(frozen=True)
class Selection:
    """Which rows of a thread to read; the result is always in stored order.

    `offset` and `limit` count from the oldest row, or from the newest when `newest` is set. `after` and
    `before` are exclusive sequence numbers, `since` is the earliest created_at. `visible` leaves hidden
    messages out.
    """

    limit: int | None = None
    offset: int = 0
    newest: bool = False
    after: int | None = None
    before: int | None = None
    roles: tuple[str, ...] | None = None
    since: datetime | None = None
    visible: bool = False


@dataclass
class ThreadState:
    """What a window algorithm may know of the thread beside its messages.

    `metadata` is the thread's as last stored; `keep` stores one more metadata key, at once.
    """

    thread_id: str
    metadata: dict[str, Any] = field(default_factory=dict)
    keep: Callable[[str, Any], None] = lambda key, value: None


class ThreadMessages(MutableSequence[Message]):
    """A list of stored messages, read on demand.

    `messages[-n:]` costs n rows at any length of the thread; iterating loads everything once. It stays as it
    was when made, whatever is added to the thread later. Changing it changes this object alone, never what
    is stored.
    """

    def __init__(
        self,
        read: Callable[[Selection], list[Message]],
        count: int | Callable[[], int],
        selection: Selection,
        state: ThreadState | None = None,
    ) -> None:
        self._read = read
        self._count = count
        self._selection = selection
        self._rows: list[Message] | None = None
        self.state = state

    def visible(self, hidden: Callable[[int | None], int], state: ThreadState) -> ThreadMessages:
        """Return the same messages without the hidden ones, as a window algorithm gets them.

        `hidden` counts the hidden messages before a sequence number; asked only when the length is.
        """
        selection = replace(self._selection, visible=True)
        return ThreadMessages(
            self._read, lambda: len(self) - hidden(self._selection.before), selection, state
        )

    def load(self) -> list[Message]:
        """Return every message, reading them at most once."""
        if self._rows is None:
            self._rows = self._read_selection(self._selection)
        return self._rows

    def with_roles(self, roles: tuple[str, ...]) -> list[Message]:
        """Return the messages of these roles; one indexed query for instruction roles."""
        if self._rows is not None:
            return [message for message in self._rows if message.role in roles]
        return self._read_selection(replace(self._selection, roles=roles))

    def since(self, instant: datetime) -> list[Message]:
        """Return the messages created at or after `instant`; one indexed query."""
        if self._rows is not None:
            return [message for message in self._rows if message.created_at >= instant]
        return self._read_selection(replace(self._selection, since=instant))

    def after(self, seq: int) -> list[Message]:
        """Return the messages stored after sequence number `seq`."""
        if self._rows is not None:
            return [message for message in self._rows if message.seq is not None and message.seq > seq]
        return self._read_selection(replace(self._selection, after=seq))

    def _read_selection(self, selection: Selection) -> list[Message]:
        return self._read(selection)

    def __len__(self) -> int:
        if self._rows is not None:
            return len(self._rows)
        if callable(self._count):
            self._count = self._count()
        return self._count

    def __iter__(self) -> Iterator[Message]:
        return iter(self.load())

    def __reversed__(self) -> Iterator[Message]:
        if self._rows is not None:
            yield from reversed(self._rows)
            return
        offset = 0
        while True:
            rows = self._read_selection(replace(self._selection, newest=True, limit=CHUNK, offset=offset))
            yield from reversed(rows)
            if len(rows) < CHUNK:
                return
            offset += CHUNK

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        if self._rows is not None:
            return self._rows[index]
        if isinstance(index, slice):
            return self._slice(index)
        newest, offset = (True, -1 - index) if index < 0 else (False, index)
        rows = self._read_selection(replace(self._selection, newest=newest, offset=offset, limit=1))
        if not rows:
            raise IndexError("message index out of range")
        return rows[0]

    def _slice(self, index: slice) -> list[Message]:
        start, stop, step = index.start or 0, index.stop, index.step or 1
        if step == 1 and start < 0 and (stop is None or stop < 0):
            return self._span(newest=True, offset=-(stop or 0), limit=(stop or 0) - start)
        if step == 1 and start > 0 and (stop is None or stop >= 0):
            return self._span(newest=False, offset=start, limit=None if stop is None else stop - start)
        if step == 1 and start == 0 and stop is not None and stop >= 0:
            return self._span(newest=False, offset=0, limit=stop)
        return self.load()[index]

    def _span(self, newest: bool, offset: int, limit: int | None) -> list[Message]:
        if limit is not None and limit <= 0:
            return []
        return self._read_selection(replace(self._selection, newest=newest, offset=offset, limit=limit))

    @overload
    def __setitem__(self, index: int, value: Message) -> None: ...
    @overload
    def __setitem__(self, index: slice, value: Iterable[Message]) -> None: ...
    def __setitem__(self, index: int | slice, value: Message | Iterable[Message]) -> None:
        self.load()[index] = value  # type: ignore[index, assignment]

    def __delitem__(self, index: int | slice) -> None:
        del self.load()[index]

    def insert(self, index: int, value: Message) -> None:
        """Put `value` before `index`, in this object alone."""
        self.load().insert(index, value)

    def clear(self) -> None:
        """Forget every message, in this object alone."""
        self._rows = []

    def copy(self) -> list[Message]:
        """Return the messages as a plain list."""
        return list(self.load())

    def sort(self, *, key: Callable[[Message], Any] | None = None, reverse: bool = False) -> None:
        """Sort in place, in this object alone."""
        self._rows = sorted(self.load(), key=key, reverse=reverse)  # type: ignore[type-var, arg-type]

    def __add__(self, other: Sequence[Message]) -> list[Message]:
        return [*self, *other]

    def __radd__(self, other: Sequence[Message]) -> list[Message]:
        return [*other, *self]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ThreadMessages | list):
            return len(self) == len(other) and self.load() == list(other)
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self)} stored messages>"


def of_roles(messages: Sequence[Message], roles: tuple[str, ...]) -> list[Message]:
    """Return the messages of these roles from a lazy or a plain sequence."""
    if isinstance(messages, ThreadMessages):
        return messages.with_roles(roles)
    return [message for message in messages if message.role in roles]


def created_since(messages: Sequence[Message], instant: datetime) -> list[Message]:
    """Return the messages created at or after `instant` from a lazy or a plain sequence."""
    if isinstance(messages, ThreadMessages):
        return messages.since(instant)
    return [message for message in messages if message.created_at >= instant]
