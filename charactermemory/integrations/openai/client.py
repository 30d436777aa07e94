"""Putting history onto a client, in place."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from charactermemory.errors import ConfigurationError
from charactermemory.history import BaseAlgorithm, BaseStorage, HistoryManager, validation
from charactermemory.integrations.openai.calls import ORIGINAL, original_of, wrapped_call, wrapped_stream
from charactermemory.integrations.openai.chat import Chat
from charactermemory.integrations.openai.recorders import ChatRecorder, ResponseRecorder
from charactermemory.integrations.openai.responses import Responses
from charactermemory.integrations.openai.saving import History, current_thread

Client = TypeVar("Client")

_RESOURCES: tuple[tuple[tuple[str, ...], Any, Any], ...] = (
    (("chat", "completions"), Chat(), ChatRecorder),
    (("responses",), Responses(), ResponseRecorder),
)
HISTORY = "_charactermemory_history"
"""Attribute of a wrapped client that holds its history."""
_CACHED = ("with_raw_response", "with_streaming_response")


def with_history(
    storage: BaseStorage | None = None,
    algorithm: BaseAlgorithm | None = None,
    history_manager: HistoryManager | None = None,
    *,
    default_thread: str | None = None,
    create_missing: bool = True,
    keep_input: bool = False,
    partial_in_window: bool = False,
    raise_storage_errors: bool = False,
) -> Callable[[Client], Client]:
    """Give clients a history: call what this returns with a client and use the client it gives back.

    Name a manager, or a storage and an algorithm. The client, sync or async, OpenAI's or one that looks like
    it, is changed in place and returned; wrapping it again replaces the history.

    `chat.completions.create`, `.parse` and `.stream` and `responses.create`, `.parse` and `.stream` then take
    `thread_id` (also by `use_thread` or `default_thread`; without any, each call begins a new thread, whose
    id is `_thread_id` of the answer), `thread_metadata`, and `message_metadata` for every message the call
    stores. A `metadata` key inside a message is stored with it and not sent.

    An unknown thread is created after the first success, or refused when `create_missing` is False. When a
    call fails nothing is stored, unless `keep_input`: then the input is, marked failed and kept out of
    windows. An answer cut short is stored as partial and kept out of windows, unless `partial_in_window`. A
    storage failure after the answer is logged and signalled, and raised only with `raise_storage_errors`.

    Raises `ConfigurationError` when neither, or both, of storage and manager are given.
    """
    if (storage is None) == (history_manager is None):
        raise ConfigurationError(detail="with_history needs either history_manager, or storage and algorithm")
    if history_manager is not None and algorithm is not None:
        raise ConfigurationError(detail="with_history: the algorithm is the history_manager's own")
    if default_thread is not None:
        validation.thread_id(default_thread)
    manager = history_manager or HistoryManager(storage, algorithm)  # type: ignore[arg-type]
    history = History(
        manager=manager,
        default_thread=default_thread,
        create_missing=create_missing,
        keep_input=keep_input,
        partial_in_window=partial_in_window,
        raise_storage_errors=raise_storage_errors,
    )
    return functools.partial(install, history=history)


@contextmanager
def use_thread(thread_id: str) -> Iterator[None]:
    """Let calls inside that name no thread belong to this one; nests, and holds per task."""
    token = current_thread.set(validation.thread_id(thread_id))
    try:
        yield
    finally:
        current_thread.reset(token)


def history_of(client: Any) -> History | None:
    """Return the history that a client was wrapped with."""
    found = getattr(client, "__dict__", {}).get(HISTORY)
    return found if isinstance(found, History) else None


def install(client: Client, history: History) -> Client:
    """Wrap the methods of `client` in place; a companion that it had stays unless `history` brings one."""
    known = history_of(client)
    if known is not None and history.companion is None:
        history = replace(history, companion=known.companion)
    found = False
    for path, api, recorder in _RESOURCES:
        resource = _dig(client, path)
        if resource is None or not callable(getattr(resource, "create", None)):
            continue
        found = True
        for name in _CACHED:
            vars(resource).pop(name, None)  # cached with the methods it had before
        for name in ("create", "parse"):
            method = getattr(resource, name, None)
            if callable(method):
                setattr(resource, name, wrapped_call(original_of(method), api, recorder, history))
        stream = getattr(resource, "stream", None)
        if callable(stream):
            resource.stream = wrapped_stream(original_of(stream), resource.create)
    if not found:
        raise ConfigurationError(
            detail=f"{type(client).__name__} has no chat.completions or responses to wrap"
        )
    for name in ("copy", "with_options"):
        method = getattr(client, name, None)
        if callable(method):
            setattr(client, name, _copying(original_of(method), history))
    setattr(client, HISTORY, history)
    return client


def _copying(original: Callable[..., Any], history: History) -> Callable[..., Any]:
    @functools.wraps(original)
    def copy(*args: Any, **kwargs: Any) -> Any:
        return install(original(*args, **kwargs), history)

    setattr(copy, ORIGINAL, original)
    return copy


def _dig(client: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        client = getattr(client, name, None)
        if client is None:
            return None
    return client
