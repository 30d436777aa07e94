"""What a message store must be able to do; rows, not whole threads, are written."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, ParamSpec, TypeVar

from charactermemory.errors import MessageIdTaken, ThreadNotFoundError
from charactermemory.history import bridge, validation
from charactermemory.history.models import Message, Thread
from charactermemory.history.sequence import Selection

P = ParamSpec("P")
T = TypeVar("T")


class Writing(ABC):
    """A thread held for writing: one transaction, the thread's row locked until it ends.

    `thread` carries the thread as it stands inside the transaction; its metadata is stored at the end.
    """

    thread: Thread

    @abstractmethod
    def append(self, message: Message) -> None:
        """Store `message` as the thread's last, giving it its `seq`, and apply the storage's cap.

        Raises `ValidationError` when the thread already has a message of that id.
        """

    @abstractmethod
    def has(self, message_id: str) -> bool:
        """Say whether the thread has a message of that id."""


class BaseStorage(ABC):
    """A store of threads and their messages, seen by one owner.

    `max_messages` caps how many messages of a thread are kept, oldest going first; with `keep_system`
    system and developer messages are never removed and do not count. What a window shows is the
    algorithm's business, never the cap's. `owner` scopes everything: no operation sees another owner's
    threads, and two owners may use one thread id.
    """

    def __init__(
        self, max_messages: int | None = None, *, keep_system: bool = False, owner: str = ""
    ) -> None:
        if max_messages is not None:
            validation.positive("max_messages", max_messages)
        self.max_messages = max_messages
        self.keep_system = keep_system
        self.owner = owner

    def scoped(self, owner: str) -> BaseStorage:
        """Return this store as `owner` sees it."""
        twin = copy.copy(self)
        twin.owner = owner
        return twin

    @abstractmethod
    def create_thread(self, thread: Thread) -> bool:
        """Store the empty thread; False, and nothing written, when the id is taken."""

    @abstractmethod
    def get_thread(self, thread_id: str) -> Thread | None:
        """Return the thread with all its messages as a lazy sequence, or None."""

    @abstractmethod
    def list_threads(self, limit: int = 100, offset: int = 0) -> list[Thread]:
        """Return threads, newest activity first, their messages not loaded."""

    @abstractmethod
    def search_threads(self, query: dict[str, Any], limit: int = 100, offset: int = 0) -> list[Thread]:
        """Return the threads that match `query` (see `SearchQuery`), newest activity first."""

    @abstractmethod
    def delete_thread(self, thread_id: str) -> bool:
        """Remove a thread with its messages; False when there is none."""

    @abstractmethod
    def read(self, thread_id: str, selection: Selection) -> list[Message]:
        """Return the selected messages in stored order; none for an unknown thread."""

    @abstractmethod
    def hidden_count(self, thread_id: str, before: int | None) -> int:
        """Return how many hidden messages lie before sequence number `before`."""

    @abstractmethod
    def writing(self, thread_id: str) -> AbstractContextManager[Writing]:
        """Hold a thread for writing. Raises `ThreadNotFoundError`; an error inside undoes everything."""

    def save_thread(self, thread: Thread) -> None:
        """Store a thread object: metadata replaced, messages not yet stored appended, nothing removed."""
        validation.thread_id(thread.id)
        validation.json_object("metadata", thread.metadata)
        messages = [validation.message(message) for message in thread.messages]
        self.create_thread(replace(thread, messages=[]))
        with self.writing(thread.id) as held:
            held.thread.metadata = copy.deepcopy(thread.metadata)
            for message in messages:
                if not held.has(message.id):
                    held.append(message)

    async def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run blocking work on this store for an async caller; in a worker thread."""
        return await bridge.in_worker(function, *args, **kwargs)


def missing(thread_id: str) -> ThreadNotFoundError:
    """Return the error for an unknown thread."""
    return ThreadNotFoundError(thread_id=thread_id)


def duplicate_message(message: Message) -> MessageIdTaken:
    """Return the error for a message id that the thread already has."""
    return MessageIdTaken(field="id", problem=f"the thread already has a message {message.id!r}")


def check_page(limit: int, offset: int) -> None:
    """Refuse a page of no rows or before the first one."""
    validation.positive("limit", limit)
    validation.not_negative("offset", offset)
