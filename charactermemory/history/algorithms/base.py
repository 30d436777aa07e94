"""What an algorithm that chooses the context window has to offer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Sequence
from datetime import timedelta
from typing import ClassVar, Literal

from charactermemory.history import validation
from charactermemory.history.models import Message, Thread


class BaseAlgorithm(ABC):
    """Chooses which stored messages go into the context window.

    Only `get_message_window` has to be written. Both methods may be `async def`. `max_messages` is the
    algorithm's own number, at least 1, or None.

    Hints that a subclass may set, so that less is read: `history_scope` "recent" offers only the newest
    `max_messages`; `lookback` offers only messages of that age or younger; `roles_always` adds the messages
    of these roles whatever their age.
    """

    history_scope: ClassVar[Literal["all", "recent"]] = "all"
    lookback: timedelta | None = None
    roles_always: tuple[str, ...] = ()

    def __init__(self, max_messages: int | None = None) -> None:
        if max_messages is not None:
            validation.positive("max_messages", max_messages)
        self.max_messages = max_messages

    @abstractmethod
    def get_message_window(
        self, messages: Sequence[Message]
    ) -> Sequence[Message] | Awaitable[Sequence[Message]]:
        """Return the messages for the window, in the order to be sent.

        `messages` are the thread's visible ones in stored order, as a list that loads what is looked at:
        `messages[-n:]` reads n rows.
        """

    def process_thread(self, thread: Thread, new_message: Message) -> None | Awaitable[None]:  # noqa: B027
        """Take note of a message that was just stored; it is the last of `thread.messages`.

        Called once per stored message. What it does to `thread.metadata` is stored, what it does to
        `thread.messages` is not. It runs while the thread is locked for writing: do not call the manager.
        """

    @property
    def processes(self) -> bool:
        """Whether `process_thread` does anything; when not, storing a message loads nothing for it."""
        return type(self).process_thread is not BaseAlgorithm.process_thread
