"""Messages of the chat completions API, in and out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from charactermemory.errors import ValidationError
from charactermemory.history import Message, approximate_tokens
from charactermemory.integrations.openai.parts import to_chat_parts
from charactermemory.integrations.openai.plain import get, number, plain, text, without_metadata
from charactermemory.integrations.openai.request import Given

FIELDS = ("tool_calls", "tool_call_id", "function_call", "name", "refusal")
"""Wire fields that a stored message has a field of its own for; the rest goes to `extra`."""

STORED_ONLY = frozenset({"items", "annotations"})
"""What is stored with a message and not sent back: the responses API's own items, an answer's citations."""


class Chat:
    """How history is read from, and put into, a chat completions call."""

    def applies(self, kwargs: dict[str, Any]) -> bool:
        """Say whether the call carries a conversation."""
        return "messages" in kwargs

    def given(self, kwargs: dict[str, Any]) -> list[Given]:
        """Return the caller's messages, read once. Raises `ValidationError` for what is no message."""
        return [Given(from_wire(item), [without_metadata(item)]) for item in kwargs["messages"]]

    def with_request(self, kwargs: dict[str, Any], request: list[Given]) -> dict[str, Any]:
        """Return the call's arguments with the whole request in place of the caller's messages."""
        messages = [item for given in request for item in (given.wire or [to_wire(given.message)])]
        return {**kwargs, "messages": messages}

    def outputs(self, completion: Any) -> list[Message]:
        """Return the answer's choices as messages to store; all but the first hidden."""
        choices = list(get(completion, "choices") or ())
        usage = counted(get(completion, "usage"), "prompt_tokens", "completion_tokens", "total_tokens")
        spent = usage.get("completion_tokens")
        messages = []
        for index, choice in enumerate(choices):
            wire = plain(get(choice, "message"))
            message = from_wire({**wire, "role": wire.get("role") or "assistant"})
            message.metadata = described(
                finish_reason=text(get(choice, "finish_reason")),
                model=text(get(completion, "model")),
                choice=index if len(choices) > 1 else None,
                usage=usage if usage and index == 0 else None,
            )
            message.hidden = index > 0
            message.token_count = spent if index == 0 and spent is not None else approximate_tokens(message)
            messages.append(message)
        return messages


def from_wire(given: Any) -> Message:
    """Return a stored message for one of the wire, or of the SDK. Raises `ValidationError`."""
    if not isinstance(given, Mapping) and not hasattr(given, "role"):
        raise ValidationError(field="messages", problem=f"expected a message, got {type(given).__name__}")
    metadata = get(given, "metadata") or {}  # checked when stored, so taken as it is
    wire = plain(without_metadata(given))
    wire.pop("metadata", None)
    role, content = wire.pop("role", None), wire.pop("content", None)
    message = Message(content, str(role), metadata=metadata)
    for name in FIELDS:
        if (value := wire.pop(name, None)) is not None:
            setattr(message, name, value)
    message.extra = {key: value for key, value in wire.items() if value is not None}
    return message


def to_wire(message: Message) -> dict[str, Any]:
    """Return a stored message as it goes on the wire."""
    content = None if message.null_content else message.content
    wire: dict[str, Any] = {"role": message.role, "content": to_chat_parts(content)}
    for name in FIELDS:
        if (value := getattr(message, name)) is not None:
            wire[name] = value
    wire.update({key: value for key, value in message.extra.items() if key not in STORED_ONLY})
    audio = wire.get("audio")
    if isinstance(audio, dict) and "id" in audio:
        wire["audio"] = {"id": audio["id"]}  # an answer's audio is referred to, not sent back
    return wire


def described(**values: Any) -> dict[str, Any]:
    """Return the metadata of an answer: its type and what is known of the rest."""
    return {"type": "output", **{key: value for key, value in values.items() if value is not None}}


def counted(usage: Any, *names: str) -> dict[str, int]:
    """Return the token counts of these names that an answer's usage gives."""
    counts = {name: number(get(usage, name)) for name in names}
    return {name: count for name, count in counts.items() if count is not None}
