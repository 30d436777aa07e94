"""One turn of a talk as memory sees it: what came to mind before it, and what was said in it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from charactermemory.domain.scene import Scene
from charactermemory.history import HistoryManager, Message, Recalled, Selection
from charactermemory.history.signals import Signal
from charactermemory.ids import MemoryObjectRef
from charactermemory.integrations.openai.request import Prepared
from charactermemory.recall.pack import ContinuityContextPack

memory_failed = Signal()
"""Memory failed and the call went on without it; values: stage ("recall", "remember" or "enrich"), thread_id,
error. The sender is the `CharacterMemory`, or the call whose turn could not be read back."""

exchange_remembered = Signal()
"""A turn is an episode now; values: exchange, outcome (with what is left to repair). The sender is the
`CharacterMemory`."""

Run = Callable[..., Awaitable[Any]]
"""Runs a blocking function with its arguments for an async caller."""

MEMORY = "memory"
"""`metadata["type"]` of the messages that carry memory into a request; they are never stored."""

LOOP_LIMIT = 200
"""Messages looked back through for the user's turn that began a tool loop."""


@dataclass(frozen=True)
class Recollection:
    """What came to mind before a call.

    Attributes:
        scene: the situation.
        pack: what recall brought back; None when it failed.
        in_progress: memories of this very conversation, and the messages they were made of.
        told: the same for window algorithms.
    """

    scene: Scene
    pack: ContinuityContextPack | None = None
    in_progress: dict[MemoryObjectRef, str | None] = field(default_factory=dict)
    told: Recalled = Recalled()  # noqa: RUF009 - frozen


@dataclass(frozen=True)
class Exchange:
    """One turn, from the user's words to the character's answer.

    Attributes:
        thread_id: the conversation.
        scene: the situation in which it was said.
        messages: everything stored of it in order: instructions, tool traffic and hidden messages included.
        pack: what the character had in mind; None when recall failed.
    """

    thread_id: str
    scene: Scene
    messages: tuple[Message, ...]
    pack: ContinuityContextPack | None = None


def from_memory(message: Message) -> bool:
    """Say whether a message of a request carries memory."""
    return message.metadata.get("type") == MEMORY


def whole_exchange(
    manager: HistoryManager, prepared: Prepared, stored: list[Message], recollection: Recollection
) -> Exchange | None:
    """Return the turn that ends with what was just stored; None while the model still waits for its tools.

    A call that brings tool results continues a turn begun earlier, which is read back from the store.
    """
    visible = [message for message in stored if not message.hidden]
    if not visible or visible[-1].tool_calls:
        return None
    messages = stored
    if any(message.role == "tool" for message in stored) and not _has_user(stored):
        messages = [*_begun(manager, prepared.thread_id, stored[0]), *stored]
    return Exchange(prepared.thread_id, recollection.scene, tuple(messages), recollection.pack)


def _begun(manager: HistoryManager, thread_id: str, first: Message) -> list[Message]:
    """Return the messages before `first` that belong to its turn: back to the user's words."""
    earlier = manager.storage.read(
        thread_id, Selection(before=first.seq, newest=True, limit=LOOP_LIMIT, visible=True)
    )
    turn: list[Message] = []
    for message in reversed(earlier):
        ended = message.role == "assistant" and not message.tool_calls
        if ended or (message.role != "user" and _has_user(turn)):
            break
        turn.insert(0, message)
    return turn if _has_user(turn) else []


def _has_user(messages: list[Message]) -> bool:
    return any(message.role == "user" for message in messages)
