"""Putting streamed fragments together into the message they make up."""

from __future__ import annotations

from typing import Any, Protocol

from charactermemory.history import Message, approximate_tokens
from charactermemory.integrations.openai.chat import Chat, described
from charactermemory.integrations.openai.plain import get, number, plain, text
from charactermemory.integrations.openai.responses import Responses


class Recorder(Protocol):
    """Listens to the events of one stream."""

    @property
    def finished(self) -> bool:
        """Whether the model's answer has come to its end."""

    def feed(self, event: Any) -> None:
        """Take one event in."""

    def messages(self) -> list[Message]:
        """Return what was said so far, as messages to store."""


class ChatRecorder:
    """Listens to chat completion chunks; choices and tool calls are told apart by their index."""

    def __init__(self) -> None:
        self._choices: dict[int, dict[str, Any]] = {}
        self._reasons: dict[int, str] = {}
        self._usage: Any = None
        self._model: str | None = None

    @property
    def finished(self) -> bool:
        """Whether every choice begun has its finish_reason."""
        return bool(self._reasons) and self._reasons.keys() >= self._choices.keys()

    def feed(self, event: Any) -> None:
        """Take one chunk in."""
        self._model = text(get(event, "model")) or self._model
        usage = get(event, "usage")
        if usage is not None:
            self._usage = usage
        for choice in get(event, "choices") or ():
            index = number(get(choice, "index")) or 0
            delta = plain(get(choice, "delta")) or {}
            _merge(self._choices.setdefault(index, {}), delta)
            reason = text(get(choice, "finish_reason"))
            if reason:
                self._reasons[index] = reason

    def messages(self) -> list[Message]:
        """Return the choices so far."""
        choices = [
            {"message": _closed(message), "finish_reason": self._reasons.get(index)}
            for index, message in sorted(self._choices.items())
            if set(message) - {"role"} or index in self._reasons
        ]
        return Chat().outputs({"choices": choices, "model": self._model, "usage": self._usage})


class ResponseRecorder:
    """Listens to response events; the last lifecycle event carries the whole answer."""

    def __init__(self) -> None:
        self._text = ""
        self._response: Any = None

    @property
    def finished(self) -> bool:
        """Whether the response has reached an end."""
        return self._response is not None

    def feed(self, event: Any) -> None:
        """Take one event in."""
        kind = get(event, "type")
        if kind == "response.output_text.delta":
            self._text += text(get(event, "delta")) or ""
        elif kind in ("response.completed", "response.incomplete", "response.failed"):
            self._response = get(event, "response")

    def messages(self) -> list[Message]:
        """Return the answer, or the text so far."""
        if self._response is not None:
            return Responses().outputs(self._response)
        if not self._text:
            return []
        message = Message(self._text, "assistant", metadata=described())
        message.token_count = approximate_tokens(message)
        return [message]


def _merge(message: dict[str, Any], delta: dict[str, Any]) -> None:
    """Add a delta: texts are joined, but what names or types something is said once; lists go by index."""
    for key, value in delta.items():
        if value is None:
            continue
        known = message.get(key)
        if isinstance(value, list):
            places = message.setdefault(key, {})
            for position, item in enumerate(value):
                index = item.get("index", position) if isinstance(item, dict) else position
                if isinstance(item, dict):
                    _merge(places.setdefault(index, {}), {k: v for k, v in item.items() if k != "index"})
                else:
                    places[index] = item
        elif isinstance(value, dict):
            _merge(message.setdefault(key, {}), value)
        elif isinstance(value, str) and isinstance(known, str) and key not in ("role", "id", "type"):
            message[key] = known + value
        else:
            message[key] = value


def _closed(message: dict[str, Any]) -> dict[str, Any]:
    """Return a merged message with its indexed lists in order."""
    closed: dict[str, Any] = {}
    for key, value in message.items():
        if isinstance(value, dict) and value and all(isinstance(index, int) for index in value):
            closed[key] = [_closed(value[index]) for index in sorted(value)]
        else:
            closed[key] = _closed(value) if isinstance(value, dict) else value
    if closed.get("tool_calls") and not closed.get("content"):
        closed["content"] = None
    return closed
