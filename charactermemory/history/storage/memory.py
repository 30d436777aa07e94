"""Threads in the memory of this process: for tests and for talks that need not last."""

from __future__ import annotations

import copy
import itertools
import threading
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from charactermemory.history.models import INSTRUCTION_ROLES, Message, Thread
from charactermemory.history.sequence import Selection, ThreadMessages
from charactermemory.history.storage.base import BaseStorage, Writing, check_page, duplicate_message, missing
from charactermemory.history.storage.search import SearchQuery, matches


@dataclass
class _Kept:
    id: str
    owner: str
    created_at: datetime
    updated_at: datetime
    metadata: dict[str, Any]
    order: int
    rows: list[Message] = field(default_factory=list)
    instructions: list[Message] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    next_seq: int = 0
    token_total: int = 0


class MemoryStorage(BaseStorage):
    """Keeps threads in a dictionary; safe to use from several threads of execution."""

    def __init__(
        self, max_messages: int | None = None, *, keep_system: bool = False, owner: str = ""
    ) -> None:
        super().__init__(max_messages, keep_system=keep_system, owner=owner)
        self._threads: dict[tuple[str, str], _Kept] = {}
        self._order = itertools.count()
        self._lock = threading.RLock()

    def create_thread(self, thread: Thread) -> bool:
        """Store the empty thread; False when the id is taken."""
        key = (self.owner, thread.id)
        with self._lock:
            if key in self._threads:
                return False
            self._threads[key] = _Kept(
                id=thread.id,
                owner=self.owner,
                created_at=thread.created_at,
                updated_at=thread.updated_at,
                metadata=copy.deepcopy(thread.metadata),
                order=next(self._order),
            )
            return True

    def get_thread(self, thread_id: str) -> Thread | None:
        """Return the thread with all its messages as a lazy sequence, or None."""
        with self._lock:
            kept = self._threads.get((self.owner, thread_id))
            return None if kept is None else self._thread(kept)

    def list_threads(self, limit: int = 100, offset: int = 0) -> list[Thread]:
        """Return threads, newest activity first, their messages not loaded."""
        check_page(limit, offset)
        with self._lock:
            return [self._thread(kept) for kept in self._own()[offset : offset + limit]]

    def search_threads(self, query: dict[str, Any], limit: int = 100, offset: int = 0) -> list[Thread]:
        """Return the threads that match `query`, newest activity first."""
        check_page(limit, offset)
        wanted = SearchQuery.parse(query)
        with self._lock:
            hits = [
                kept
                for kept in self._own()
                if matches(kept.metadata, wanted.metadata)
                and (
                    wanted.content is None or any(wanted.content in row.text.casefold() for row in kept.rows)
                )
            ]
            return [self._thread(kept) for kept in hits[offset : offset + limit]]

    def delete_thread(self, thread_id: str) -> bool:
        """Remove a thread with its messages; False when there is none."""
        with self._lock:
            return self._threads.pop((self.owner, thread_id), None) is not None

    def read(self, thread_id: str, selection: Selection) -> list[Message]:
        """Return copies of the selected messages in stored order."""
        with self._lock:
            kept = self._threads.get((self.owner, thread_id))
            if kept is None:
                return []
            few = selection.roles is not None and set(selection.roles) <= set(INSTRUCTION_ROLES)
            rows = kept.instructions if few else kept.rows
            return [row.copy() for row in _select(rows, selection)]

    def hidden_count(self, thread_id: str, before: int | None) -> int:
        """Return how many hidden messages lie before sequence number `before`."""
        with self._lock:
            kept = self._threads.get((self.owner, thread_id))
            rows = kept.rows if kept is not None else []
            return sum(1 for row in rows if row.hidden and (before is None or (row.seq or 0) < before))

    @contextmanager
    def writing(self, thread_id: str) -> Iterator[Writing]:
        """Hold the store's lock while one thread is written; an error inside undoes everything."""
        with self._lock:
            kept = self._threads.get((self.owner, thread_id))
            if kept is None:
                raise missing(thread_id)
            held = _MemoryWriting(self, kept)
            yield held
            held.commit()

    def _own(self) -> list[_Kept]:
        own = [kept for kept in self._threads.values() if kept.owner == self.owner]
        return sorted(own, key=lambda kept: (kept.updated_at, kept.order), reverse=True)

    def _thread(self, kept: _Kept) -> Thread:
        return Thread(
            id=kept.id,
            messages=ThreadMessages(
                lambda selection: self.read(kept.id, selection),
                len(kept.rows),
                Selection(before=kept.next_seq),
            ),
            metadata=copy.deepcopy(kept.metadata),
            created_at=kept.created_at,
            updated_at=kept.updated_at,
            owner=kept.owner,
            token_total=kept.token_total,
        )


class _MemoryWriting(Writing):
    """Works on copies of a thread's lists and puts them in place at the end."""

    def __init__(self, storage: MemoryStorage, kept: _Kept) -> None:
        self._storage = storage
        self._kept = kept
        self._new: list[Message] = []
        self._removed: set[int] = set()
        self.thread = storage._thread(kept)
        self.thread.messages = self._view()

    def _view(self) -> ThreadMessages:
        rows = self._rows
        return ThreadMessages(
            lambda selection: [row.copy() for row in _select(rows(), selection)],
            lambda: len(rows()),
            Selection(before=self._kept.next_seq + len(self._new)),
        )

    def _rows(self) -> list[Message]:
        if not self._new and not self._removed:
            return self._kept.rows
        return [row for row in (*self._kept.rows, *self._new) if row.seq not in self._removed]

    def has(self, message_id: str) -> bool:
        """Say whether the thread has a message of that id."""
        return message_id in self._kept.ids or any(row.id == message_id for row in self._new)

    def append(self, message: Message) -> None:
        """Note `message` as the thread's last; stored when the writing ends well."""
        if self.has(message.id):
            raise duplicate_message(message)
        message.seq = self._kept.next_seq + len(self._new)
        self._new.append(message.copy())
        self._cap()
        self.thread.updated_at = max(self.thread.updated_at, message.created_at)
        self.thread.token_total += message.token_count or 0
        self.thread.messages = self._view()

    def _cap(self) -> None:
        cap = self._storage.max_messages
        if cap is None or len(self._kept.rows) + len(self._new) - len(self._removed) <= cap:
            return
        rows = self._rows()
        if self._storage.keep_system:
            rows = [row for row in rows if row.role not in INSTRUCTION_ROLES]
        self._removed.update(row.seq for row in rows[:-cap] if row.seq is not None)

    def commit(self) -> None:
        """Put everything in place."""
        kept = self._kept
        if self._removed:
            kept.rows = self._rows()
            kept.ids = {row.id for row in kept.rows}
            kept.instructions = [row for row in kept.rows if row.role in INSTRUCTION_ROLES]
        else:
            kept.rows.extend(self._new)
            kept.ids.update(row.id for row in self._new)
            kept.instructions.extend(row for row in self._new if row.role in INSTRUCTION_ROLES)
        kept.next_seq += len(self._new)
        kept.metadata = copy.deepcopy(self.thread.metadata)
        kept.updated_at = self.thread.updated_at
        kept.token_total = self.thread.token_total


def _select(rows: list[Message], wanted: Selection) -> list[Message]:
    start, stop = 0, len(rows)
    if wanted.after is not None:
        start = bisect_left(rows, wanted.after + 1, key=lambda row: row.seq or 0)
    if wanted.before is not None:
        stop = bisect_left(rows, wanted.before, key=lambda row: row.seq or 0)
    if not wanted.visible and wanted.roles is None and wanted.since is None:
        low, high = _page(stop - start, wanted)
        return rows[start + low : start + high]
    order = range(stop - 1, start - 1, -1) if wanted.newest else range(start, stop)
    fitting = (rows[index] for index in order if _fits(rows[index], wanted))
    end = None if wanted.limit is None else wanted.offset + wanted.limit
    picked = list(itertools.islice(fitting, wanted.offset, end))
    return picked[::-1] if wanted.newest else picked


def _fits(row: Message, wanted: Selection) -> bool:
    return (
        not (wanted.visible and row.hidden)
        and (wanted.roles is None or row.role in wanted.roles)
        and (wanted.since is None or row.created_at >= wanted.since)
    )


def _page(count: int, wanted: Selection) -> tuple[int, int]:
    limit = count if wanted.limit is None else wanted.limit
    if wanted.newest:
        high = max(0, count - wanted.offset)
        return max(0, high - limit), high
    return wanted.offset, wanted.offset + limit
