"""Running a window algorithm: what it is offered, and whether what it returns is a window."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from charactermemory.clock import Clock
from charactermemory.errors import AlgorithmError
from charactermemory.history.algorithms.base import BaseAlgorithm
from charactermemory.history.bridge import settle
from charactermemory.history.models import Message, Thread
from charactermemory.history.sequence import ThreadMessages, ThreadState
from charactermemory.history.storage.base import BaseStorage


def choose(
    storage: BaseStorage,
    thread: Thread,
    algorithm: BaseAlgorithm | None,
    clock: Clock,
    keep: Callable[[str, Any], None],
) -> list[Message]:
    """Return the window of a stored thread; every visible message when there is no algorithm.

    `keep` stores one metadata key for an algorithm that asks for it. Raises `AlgorithmError` when the
    algorithm raises, or returns something else than distinct messages.
    """
    assert isinstance(thread.messages, ThreadMessages)  # noqa: S101 - what every storage returns
    visible = thread.messages.visible(
        lambda before: storage.hidden_count(thread.id, before),
        ThreadState(thread.id, thread.metadata, keep),
    )
    if algorithm is None:
        return visible.load()
    offered = _offered(visible, algorithm, clock)
    if inspect.iscoroutinefunction(algorithm.get_message_window) and isinstance(offered, ThreadMessages):
        offered.load()  # it runs on the caller's loop, which must not wait for the store
    try:
        window = settle(algorithm.get_message_window(offered))
    except Exception as error:
        raise AlgorithmError(
            algorithm=type(algorithm).__name__, problem=f"get_message_window raised {error!r}"
        ) from error
    return _checked(window, algorithm)


def _offered(messages: ThreadMessages, algorithm: BaseAlgorithm, clock: Clock) -> Sequence[Message]:
    """Return what the algorithm's hints ask for."""
    recent: list[Message]
    if algorithm.lookback is not None:
        recent = messages.since(clock() - algorithm.lookback)
        if algorithm.history_scope == "recent" and algorithm.max_messages:
            recent = recent[-algorithm.max_messages :]
    elif algorithm.history_scope == "recent" and algorithm.max_messages:
        recent = messages[-algorithm.max_messages :]
    else:
        return messages
    if not algorithm.roles_always:
        return recent
    merged = {message.id: message for message in (*messages.with_roles(algorithm.roles_always), *recent)}
    return sorted(merged.values(), key=lambda message: message.seq or 0)


def _checked(window: Any, algorithm: BaseAlgorithm) -> list[Message]:
    name = type(algorithm).__name__
    if not isinstance(window, Sequence) or isinstance(window, str | bytes):
        raise AlgorithmError(
            algorithm=name,
            problem=f"get_message_window returned {type(window).__name__}, expected a list of messages",
        )
    seen: set[str] = set()
    for message in window:
        if not isinstance(message, Message):
            raise AlgorithmError(
                algorithm=name, problem=f"the window holds {type(message).__name__}, expected messages only"
            )
        if message.id in seen:
            raise AlgorithmError(algorithm=name, problem=f"the window holds message {message.id} twice")
        seen.add(message.id)
    return list(window)
