"""Storing a call and its answer, and never letting that stand between the caller and a paid answer."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol
from uuid import uuid4

from charactermemory.domain.scene import Scene
from charactermemory.errors import ValidationError
from charactermemory.history import HistoryManager, Message, approximate_tokens, saving_failed, validation
from charactermemory.history.recalled import showing
from charactermemory.integrations.openai.exchange import (
    Exchange,
    Recollection,
    Run,
    memory_failed,
    whole_exchange,
)
from charactermemory.integrations.openai.request import Given, Prepared, prepare

logger = logging.getLogger(__name__)

current_thread: ContextVar[str | None] = ContextVar("charactermemory_chat_thread", default=None)


@dataclass(frozen=True)
class CallOptions:
    """What one call says about its thread."""

    thread_id: str | None = None
    thread_metadata: dict[str, Any] | None = None
    message_metadata: dict[str, Any] | None = None

    scene: Scene | None = None

    NAMES: ClassVar[tuple[str, ...]] = ("thread_id", "thread_metadata", "message_metadata", "scene")

    @classmethod
    def take(cls, kwargs: dict[str, Any]) -> CallOptions:
        """Take the options out of a call's arguments."""
        options = cls(**{name: kwargs.pop(name) for name in cls.NAMES if name in kwargs})
        if options.thread_id is not None and not isinstance(options.thread_id, str):
            raise ValidationError(field="thread_id", problem=f"expected a text, got {options.thread_id!r}")
        if options.scene is not None and not isinstance(options.scene, Scene):
            raise ValidationError(field="scene", problem=f"expected a Scene, got {options.scene!r}")
        for name in ("thread_metadata", "message_metadata"):
            if getattr(options, name) is not None:
                validation.json_object(name, getattr(options, name))
        return options


class Companion(Protocol):
    """The long-term memory beside a history; it never raises an `Exception`."""

    def recall(
        self, history: History, thread_id: str, given: list[Message], scene: Scene | None
    ) -> Recollection:
        """Return what comes to mind before the call."""

    def insert(self, prepared: Prepared, recollection: Recollection) -> None:
        """Put what came to mind into the request."""

    def remember(self, exchange: Exchange) -> None:
        """Keep what was said."""

    async def remember_async(self, exchange: Exchange, run: Run) -> None:
        """Keep what was said; `run` does blocking work."""


@dataclass
class History:
    """A manager and the ways of one wrapped client; see `with_history` for the options."""

    manager: HistoryManager
    default_thread: str | None = None
    create_missing: bool = True
    keep_input: bool = False
    partial_in_window: bool = False
    raise_storage_errors: bool = False
    companion: Companion | None = None
    _unsaved: dict[str, set[asyncio.Task[None]]] = field(default_factory=dict)

    def begin(self, given: list[Given], options: CallOptions) -> Call:
        """Make a call ready. Raises before anything is sent or written."""
        thread_id = options.thread_id or current_thread.get() or self.default_thread
        for item in given:
            message = validation.message(item.message)
            message.metadata = {"type": "input", **(options.message_metadata or {}), **message.metadata}
            message.created_at = self.manager.clock()
            message.token_count = approximate_tokens(message)
        create = self.create_missing or thread_id is None
        thread_id = thread_id or str(uuid4())
        if self.companion is None:
            if options.scene is not None:
                raise ValidationError(field="scene", problem="this client has no memory; see with_memory")
            return Call(self, prepare(self.manager, thread_id, given, create), options)
        messages = [item.message for item in given]
        recollection = self.companion.recall(self, thread_id, messages, options.scene)
        with showing(recollection.told):
            prepared = prepare(self.manager, thread_id, given, create)
        self.companion.insert(prepared, recollection)
        return Call(self, prepared, options, recollection)

    async def settled(self, thread_id: str | None) -> None:
        """Wait for streams of this thread that were left half read and are still being stored."""
        waiting = self._unsaved.get(thread_id or current_thread.get() or self.default_thread or "")
        if waiting:
            await asyncio.gather(*waiting)

    def save_later(self, thread_id: str, saving: Awaitable[None]) -> None:
        """Store on the running loop what nobody waits for."""
        task: asyncio.Task[None] = asyncio.ensure_future(saving)
        tasks = self._unsaved.setdefault(thread_id, set())
        tasks.add(task)

        def done(finished: asyncio.Task[None]) -> None:
            tasks.discard(finished)
            if not tasks:
                self._unsaved.pop(thread_id, None)

        task.add_done_callback(done)


@dataclass
class Call:
    """One call under way."""

    history: History
    prepared: Prepared
    options: CallOptions
    recollection: Recollection | None = None
    exchange: Exchange | None = None

    def save(self, answer: Callable[[], list[Message]], partial: bool = False) -> None:
        """Store the caller's new messages and the answer in one transaction.

        A failure is logged and signalled (`saving_failed`); raised only when the history is told to.
        """
        messages = list(self.prepared.inputs)
        try:
            for message in answer():
                message.metadata = {**message.metadata, **(self.options.message_metadata or {})}
                message.created_at = self.history.manager.clock()
                if partial:
                    message.metadata["partial"] = True
                    message.hidden = message.hidden or not self.history.partial_in_window
                messages.append(message)
            stored = self._store(messages)
        except Exception as error:
            logger.exception("the answer was received but could not be stored")
            saving_failed.send(
                self.history.manager, thread_id=self.prepared.thread_id, messages=messages, error=error
            )
            if self.history.raise_storage_errors:
                raise
        else:
            self._note(stored)

    def remember(self) -> None:
        """Hand what was stored to the companion, if there is one."""
        if self.history.companion is not None and self.exchange is not None:
            self.history.companion.remember(self.exchange)

    async def remember_async(self) -> None:
        """The same for an async caller."""
        if self.history.companion is not None and self.exchange is not None:
            await self.history.companion.remember_async(self.exchange, self.history.manager.storage.run)

    def failed(self) -> None:
        """Note that the call itself failed: nothing is stored, unless the input is to be kept."""
        if self.history.keep_input:
            for message in self.prepared.inputs:
                message.metadata["failed"] = True
                message.hidden = True
            self.save(list)

    def mark(self, answer: Any) -> Any:
        """Write the thread's id onto the answer as `_thread_id`, which is no part of its data."""
        with contextlib.suppress(AttributeError, TypeError, ValueError):
            answer._thread_id = self.prepared.thread_id
        return answer

    def _note(self, stored: list[Message]) -> None:
        if self.recollection is None:
            return
        try:
            self.exchange = whole_exchange(self.history.manager, self.prepared, stored, self.recollection)
        except Exception as error:
            logger.exception("the turn was stored but cannot be remembered")
            memory_failed.send(self, stage="remember", thread_id=self.prepared.thread_id, error=error)

    def _store(self, messages: list[Message]) -> list[Message]:
        thread_id = self.prepared.thread_id
        manager = self.history.manager
        thread, created = manager.get_or_create_thread(thread_id, self.options.thread_metadata)
        if not created and self.options.thread_metadata:
            manager.update_thread_metadata(thread_id, self.options.thread_metadata)
        return manager.add_messages(thread_id, messages)
