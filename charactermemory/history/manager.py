"""The way in to the chat window: threads, their messages and the window an algorithm chooses."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from charactermemory.clock import Clock, utc_now
from charactermemory.errors import ValidationError
from charactermemory.history import validation
from charactermemory.history.algorithms.base import BaseAlgorithm
from charactermemory.history.models import Message, Thread
from charactermemory.history.processing import Processing
from charactermemory.history.sequence import Selection
from charactermemory.history.storage.base import BaseStorage, check_page, missing
from charactermemory.history.window import choose


class HistoryManager:
    """Stores every message once and chooses the window by `algorithm` (None: every message).

    `raise_algorithm_errors` raises what `process_thread` raised, as `AlgorithmError`, instead of only
    logging and signalling it; the message is stored either way. `AsyncHistoryManager` is its async face.
    """

    def __init__(
        self,
        storage: BaseStorage,
        algorithm: BaseAlgorithm | None = None,
        *,
        raise_algorithm_errors: bool = False,
        clock: Clock = utc_now,
    ) -> None:
        if not isinstance(storage, BaseStorage):
            raise ValidationError(field="storage", problem=f"expected a BaseStorage, got {storage!r}")
        if algorithm is not None and not isinstance(algorithm, BaseAlgorithm):
            raise ValidationError(field="algorithm", problem=f"expected a BaseAlgorithm, got {algorithm!r}")
        self.storage = storage
        self.algorithm = algorithm
        self.raise_algorithm_errors = raise_algorithm_errors
        self.clock = clock

    def scoped(self, owner: str) -> HistoryManager:
        """Return a manager that sees and writes the threads of `owner` alone."""
        twin = copy.copy(self)
        twin.storage = self.storage.scoped(owner)
        return twin

    # --- threads ---------------------------------------------------------------------------------

    def create_thread(self, metadata: dict[str, Any] | None = None, thread_id: str | None = None) -> Thread:
        """Store a new thread and return it. Raises `ValidationError` when the id is taken."""
        thread = self._new_thread(thread_id, metadata)
        if not self.storage.create_thread(thread):
            raise ValidationError(field="thread_id", problem=f"a thread {thread.id!r} is already stored")
        return self._stored(thread.id)

    def get_or_create_thread(
        self, thread_id: str, metadata: dict[str, Any] | None = None
    ) -> tuple[Thread, bool]:
        """Return the thread, all its messages lazily, and whether it was created now with `metadata`."""
        created = self.storage.create_thread(self._new_thread(thread_id, metadata))
        return self._stored(thread_id), created

    def get_thread(self, thread_id: str) -> Thread:
        """Return the thread with the window in `.messages`.

        Raises `ThreadNotFoundError`, and `AlgorithmError` when the algorithm fails.
        """
        thread = self._stored(validation.thread_id(thread_id))
        window = choose(self.storage, thread, self.algorithm, self.clock, self._keeper(thread_id))
        return replace(thread, messages=window)

    def list_threads(self, limit: int = 100, offset: int = 0) -> list[Thread]:
        """Return threads, newest activity first, their messages not loaded."""
        return self.storage.list_threads(limit, offset)

    def search_threads(self, query: dict[str, Any], limit: int = 100, offset: int = 0) -> list[Thread]:
        """Return threads by `{"content": text, "metadata": {...}}` (see `SearchQuery`)."""
        return self.storage.search_threads(query, limit, offset)

    def update_thread_metadata(
        self, thread_id: str, changes: Mapping[str, Any] | Callable[[dict[str, Any]], None]
    ) -> Thread:
        """Merge `changes` into the metadata, or let a callable change it in place, without losing others' writes.

        Raises `ThreadNotFoundError` and `ValidationError`; messages are untouched.
        """
        validation.thread_id(thread_id)
        with self.storage.writing(thread_id) as held:
            if callable(changes):
                changes(held.thread.metadata)
            else:
                held.thread.metadata.update(copy.deepcopy(_metadata(changes)))
            validation.json_object("metadata", held.thread.metadata)
        return self._stored(thread_id)

    def delete_thread(self, thread_id: str) -> bool:
        """Remove a thread with its messages; False when there is none."""
        return self.storage.delete_thread(validation.thread_id(thread_id))

    # --- messages --------------------------------------------------------------------------------

    def add_message(
        self,
        thread_id: str,
        content: str | list[dict[str, Any]] | None,
        role: str,
        metadata: dict[str, Any] | None = None,
        tool_calls: list[dict[str, Any]] | None = None,
        tool_call_id: str | None = None,
        function_call: dict[str, Any] | None = None,
        name: str | None = None,
        *,
        token_count: int | None = None,
    ) -> Message:
        """Store one message as the thread's last and return it.

        Raises `ValidationError` and `ThreadNotFoundError` before anything is written.
        """
        if content is not None and not isinstance(content, str | list):
            raise ValidationError(
                field="content",
                problem=f"expected a text, a list of parts or None, got {type(content).__name__}",
            )
        message = Message(
            content=content,
            role=role,
            created_at=self.clock(),
            metadata={} if metadata is None else metadata,
            token_count=token_count,
            tool_calls=tool_calls,
            tool_call_id=tool_call_id,
            function_call=function_call,
            name=name,
        )
        return self.add_messages(thread_id, [message])[0]

    def add_messages(self, thread_id: str, messages: Iterable[Message]) -> list[Message]:
        """Store messages in order and in one transaction, and return them with their sequence numbers.

        `process_thread` runs once for each, inside the transaction; when it raises, its metadata changes are
        undone, the message stays, and the error is logged and signalled (`processing_failed`).
        """
        validation.thread_id(thread_id)
        stored = [validation.message(message).copy() for message in messages]
        processing = Processing(self, thread_id)
        with self.storage.writing(thread_id) as held:
            for message in stored:
                held.append(message)
                processing.take_note(held.thread, message)
        processing.report()
        return stored

    def get_messages(
        self,
        thread_id: str,
        limit: int | None = None,
        offset: int = 0,
        *,
        after: int | None = None,
        before: int | None = None,
    ) -> list[Message]:
        """Return stored messages in order, hidden ones included; the algorithm plays no part.

        Page by `limit` and `offset` from the oldest, or from a sequence number: `after` gives the oldest
        beyond it, `before` the newest ahead of it. Raises `ThreadNotFoundError` and `ValidationError`.
        """
        validation.thread_id(thread_id)
        check_page(1 if limit is None else limit, offset)
        self._stored(thread_id)
        newest = before is not None and after is None and limit is not None
        return self.storage.read(
            thread_id, Selection(limit=limit, offset=offset, after=after, before=before, newest=newest)
        )

    def message_count(self, thread_id: str) -> int:
        """Return how many messages are stored, without loading any."""
        return self._stored(validation.thread_id(thread_id)).message_count

    # --- inside ----------------------------------------------------------------------------------

    def _new_thread(self, thread_id: str | None, metadata: dict[str, Any] | None) -> Thread:
        now, given = self.clock(), _metadata(metadata or {})
        thread = Thread(metadata=given, created_at=now, updated_at=now, owner=self.storage.owner)
        if thread_id is not None:
            thread.id = validation.thread_id(thread_id)
        return thread

    def _stored(self, thread_id: str) -> Thread:
        thread = self.storage.get_thread(thread_id)
        if thread is None:
            raise missing(thread_id)
        return thread

    def _keeper(self, thread_id: str) -> Callable[[str, Any], None]:
        def keep(key: str, value: Any) -> None:
            self.update_thread_metadata(thread_id, {key: value})

        return keep


def _metadata(value: Any) -> dict[str, Any]:
    """Return a mapping as a dict of its own, when JSON can hold it; anything else is refused by name."""
    return validation.json_object("metadata", dict(value) if isinstance(value, Mapping) else value)
