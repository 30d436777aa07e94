"""Items of the responses API, in and out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from charactermemory.errors import ValidationError
from charactermemory.history import Message, approximate_tokens
from charactermemory.integrations.openai.chat import counted, described
from charactermemory.integrations.openai.exchange import from_memory
from charactermemory.integrations.openai.parts import to_response_parts
from charactermemory.integrations.openai.plain import get, plain, text, without_metadata
from charactermemory.integrations.openai.request import Given

SERVER_STATE = ("previous_response_id", "conversation")
"""Arguments by which the API itself continues a conversation; the window is then not sent as well."""


class Responses:
    """How history is read from, and put into, a responses call.

    What one turn of the model produced (reasoning, calls, text) is stored as one assistant message with its
    items; the output of a call as a tool message. A call that continues a conversation kept by the API
    (`previous_response_id`, `conversation`) is stored and sent as it is.
    """

    def applies(self, kwargs: dict[str, Any]) -> bool:
        """Say whether the call carries a conversation."""
        return isinstance(kwargs.get("input"), str) or hasattr(kwargs.get("input"), "__iter__")

    def given(self, kwargs: dict[str, Any]) -> list[Given]:
        """Return the caller's input, read once. Raises `ValidationError` for what is no item."""
        raw = kwargs["input"]
        if isinstance(raw, str):
            return [Given(Message(raw, "user"), [{"role": "user", "content": raw}])]
        return [
            Given(_given(group), [without_metadata(item) for item in group]) for group in _groups(list(raw))
        ]

    def with_request(self, kwargs: dict[str, Any], request: list[Given]) -> dict[str, Any]:
        """Return the call's arguments with the whole request in place of the caller's input."""
        if any(isinstance(kwargs.get(name), str | Mapping) for name in SERVER_STATE):
            return _with_instructions(kwargs, [item.message for item in request if from_memory(item.message)])
        items = [item for given in request for item in (given.wire or to_items(given.message))]
        return {**kwargs, "input": items}

    def outputs(self, response: Any) -> list[Message]:
        """Return the answer as messages to store."""
        usage = counted(get(response, "usage"), "input_tokens", "output_tokens", "total_tokens")
        messages = [_message(group) for group in _groups(plain(list(get(response, "output") or ())))]
        for message in messages:
            message.metadata = described(
                finish_reason=text(get(response, "status")),
                model=text(get(response, "model")),
                response_id=text(get(response, "id")),
            )
            message.token_count = approximate_tokens(message)
        if len(messages) == 1 and "output_tokens" in usage:
            messages[0].token_count = usage["output_tokens"]
        if messages and usage:
            messages[0].metadata["usage"] = usage
        return messages


def _with_instructions(kwargs: dict[str, Any], memory: list[Message]) -> dict[str, Any]:
    """Return the arguments with memory among the instructions, which the API does not keep."""
    if not memory:
        return kwargs
    given = kwargs.get("instructions")
    texts = [given if isinstance(given, str) else "", *(message.text for message in memory)]
    return {**kwargs, "instructions": "\n\n".join(text for text in texts if text)}


def to_items(message: Message) -> list[Any]:
    """Return a stored message as items to send.

    Reasoning is sent only with its encrypted content: without it, it exists on the API's side at most. The
    ids of the items beside it go with it, as an id makes the API ask for the reasoning it belonged to.
    """
    if "items" in message.extra:
        items = [_sendable(item) for item in message.extra["items"]]
        if any(_is_lost(item) for item in items):
            return [_without_id(item) for item in items if not _is_lost(item)]
        if not any(item.get("type") == "reasoning" for item in items):
            return [_without_id(item) for item in items]
        return items
    if message.role in ("tool", "function"):
        output = to_response_parts(message.content, "user")
        return [{"type": "function_call_output", "call_id": message.tool_call_id, "output": output}]
    items = []
    if message.content or not message.tool_calls:
        content = to_response_parts(message.content or message.refusal or "", message.role)
        items.append({"role": message.role, "content": content})
    for call in message.tool_calls or ():
        function = call.get("function") or {}
        names = {"name": function.get("name"), "arguments": function.get("arguments")}
        items.append({"type": "function_call", "call_id": call.get("id"), **names})
    return items


def _groups(items: list[Any]) -> list[list[Any]]:
    """Cut items into messages: what the model said in one go together, everything else alone."""
    groups: list[list[Any]] = []
    open_group: list[Any] = []
    for item in items:
        if not isinstance(item, Mapping) and not hasattr(item, "type") and not hasattr(item, "role"):
            raise ValidationError(field="input", problem=f"expected an item, got {type(item).__name__}")
        if not _of_model(item):
            groups.append([item])
            open_group = []
        elif open_group and not _starts_anew(item, open_group):
            open_group.append(item)
        else:
            open_group = [item]
            groups.append(open_group)
    return groups


def _of_model(item: Any) -> bool:
    role = get(item, "role")
    if isinstance(role, str):
        return role == "assistant"
    return not str(get(item, "type")).endswith("_output")


def _starts_anew(item: Any, group: list[Any]) -> bool:
    if get(item, "type") == "reasoning":
        return any(get(other, "type") != "reasoning" for other in group)
    return get(item, "role") == "assistant" and any(get(other, "role") == "assistant" for other in group)


def _given(group: list[Any]) -> Message:
    message = _message([plain(without_metadata(item)) for item in group])
    message.metadata = get(group[0], "metadata") or {}  # checked when stored, so taken as it is
    return message


def _message(items: list[dict[str, Any]]) -> Message:
    first = items[0]
    if str(first.get("type", "")).endswith("_output"):
        output = first.get("output")
        content = output if isinstance(output, str | list) else str(output)
        message = Message(content, "tool", tool_call_id=first.get("call_id"))
        message.extra = {"items": items}
        return message
    if len(items) == 1 and "role" in first and first["role"] != "assistant":
        message = Message(first.get("content"), first["role"])
    else:
        said = [item for item in items if item.get("role") == "assistant"]
        answered = {item.get("call_id") for item in items if str(item.get("type")).endswith("_output")}
        calls = [_call(item) for item in items if "call_id" in item and item["call_id"] not in answered]
        message = Message(_said(said), "assistant", tool_calls=calls or None)
        refusals = [part["refusal"] for item in said for part in _parts(item) if "refusal" in part]
        message.refusal = "\n".join(refusals) or None
    if items != [{"role": message.role, "content": message.content}]:
        message.extra = {"items": items}
    return message


def _call(item: dict[str, Any]) -> dict[str, Any]:
    function = {"name": item.get("name", ""), "arguments": item.get("arguments", item.get("input", ""))}
    return {"id": item["call_id"], "type": "function", "function": function}


def _said(items: list[dict[str, Any]]) -> str | None:
    words = [item["content"] for item in items if isinstance(item.get("content"), str)]
    words += [part["text"] for item in items for part in _parts(item) if isinstance(part.get("text"), str)]
    return "\n".join(words) if words else None


def _parts(item: dict[str, Any]) -> list[dict[str, Any]]:
    content = item.get("content")
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def _sendable(item: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in item.items() if value is not None}


def _is_lost(item: dict[str, Any]) -> bool:
    return item.get("type") == "reasoning" and not item.get("encrypted_content")


def _without_id(item: dict[str, Any]) -> dict[str, Any]:
    if item.get("type", "message") not in ("message", "function_call", "custom_tool_call"):
        return item
    return {key: value for key, value in item.items() if key not in ("id", "status")}
