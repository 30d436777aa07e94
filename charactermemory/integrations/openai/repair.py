"""Making a request valid whatever an algorithm chose: no tool call without its result, and no result alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any
from uuid import uuid4

from charactermemory.history import Message

FindCall = Callable[[str], list[Message]]
"""Looks in the store for the assistant message that made a call: that message and the results it has got
so far, or nothing."""


def repaired(history: Iterable[Message], new: list[Message], find_call: FindCall) -> list[Message]:
    """Return history and new messages as one valid sequence, otherwise in the given order.

    Results directly follow their call, each once. A call that the new messages answer is put before them,
    fetched from the store when the window left it out. Calls without a result are taken out of their
    message, and the message too when nothing else is in it; results without a call are dropped from history.
    Stored rows are never touched.
    """
    past = list(history)
    asked_now = {call for message in new for call in call_ids(message)}
    answered_now = [
        message.tool_call_id for message in new if message.role == "tool" and message.tool_call_id
    ]
    in_flight: list[Message] = []
    for call in answered_now:
        if call in asked_now or any(call in call_ids(message) for message in in_flight):
            continue
        owner = next((message for message in past if call in call_ids(message)), None)
        found = [owner] if owner is not None else find_call(call)
        in_flight.extend(found)
    moved = {message.id for message in in_flight}
    past = [message for message in past if message.id not in moved]
    sequence = _Sequence([*past, *in_flight, *new])
    for message in [*past, *in_flight]:
        sequence.add(message)
    for message in new:
        sequence.add(message, keep_orphan=True)
    return sequence.messages


def call_ids(message: Message) -> list[str]:
    """Return the ids of the calls an assistant message makes."""
    return [call["id"] for call in message.tool_calls or () if isinstance(call.get("id"), str)]


class _Sequence:
    def __init__(self, everything: list[Message]) -> None:
        self.messages: list[Message] = []
        self._results: dict[str, Message] = {}
        for message in everything:
            if message.role == "tool" and message.tool_call_id:
                self._results.setdefault(message.tool_call_id, message)
        self._known = {call for message in everything for call in call_ids(message)}
        self._done: set[str] = set()

    def add(self, message: Message, keep_orphan: bool = False) -> None:
        if message.role == "tool":
            # Sent with its call; a new one whose call nobody knows is the caller's to be told about.
            if keep_orphan and message.tool_call_id not in self._known:
                self.messages.append(message)
            return
        if not message.tool_calls:
            self.messages.append(message)
            return
        answered = [call for call in call_ids(message) if call in self._results and call not in self._done]
        self._done.update(answered)
        kept = with_calls(message, set(answered))
        if kept is not None:
            self.messages.append(kept)
            self.messages.extend(self._results[call] for call in answered)


def with_calls(message: Message, kept: set[str]) -> Message | None:
    """Return `message` with only the `kept` calls; None when it says nothing without the others."""
    calls = [call for call in message.tool_calls or () if call.get("id") in kept]
    if len(calls) == len(message.tool_calls or ()):
        return message
    if not calls and not message.text:
        return None
    extra = dict(message.extra)
    if "items" in extra:
        extra["items"] = [item for item in extra["items"] if _stays(item, kept)]
    return replace(message, id=str(uuid4()), tool_calls=calls or None, extra=extra)


def _stays(item: dict[str, Any], kept: set[str]) -> bool:
    return item.get("type") != "reasoning" and ("call_id" not in item or item["call_id"] in kept)
