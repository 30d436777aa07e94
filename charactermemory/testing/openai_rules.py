"""The order rules for tool calls that OpenAI's API answers with 400 when broken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def chat_problem(messages: Any) -> str | None:
    """Return what is wrong with the messages of a chat completions request, or None.

    Every tool call of an assistant message must be answered, once, by the tool messages that directly
    follow it; a tool message may stand nowhere else.
    """
    if not isinstance(messages, list) or not messages:
        return "messages: expected a non-empty array"
    open_calls: set[str] = set()
    asked: set[str] = set()
    for index, message in enumerate(messages):
        role = message.get("role")
        if role == "tool":
            call = message.get("tool_call_id")
            if call not in open_calls:
                return (
                    f"messages[{index}]: a message with role 'tool' must be a response to a preceding message "
                    f"with 'tool_calls' (tool_call_id {call!r})"
                )
            open_calls.discard(call)
            continue
        if open_calls:
            return _unanswered("messages", index, open_calls)
        if role not in ("user", "assistant", "system", "developer", "function"):
            return f"messages[{index}].role: {role!r} is not supported"
        if message.get("content") is None and not message.get("tool_calls") and role != "assistant":
            return f"messages[{index}].content: expected a string or an array"
        if "metadata" in message:
            return f"messages[{index}]: unknown parameter 'metadata'"
        calls = [call.get("id") for call in message.get("tool_calls") or ()]
        if asked.intersection(calls) or len(set(calls)) < len(calls):
            return f"messages[{index}]: duplicate tool_call ids"
        asked.update(calls)
        open_calls = set(calls)
    if open_calls:
        return _unanswered("messages", len(messages), open_calls)
    return None


def responses_problem(items: Any) -> str | None:
    """Return what is wrong with the input of a responses request, or None.

    Every call item needs its output item later in the input, every output item its call before it, and a
    reasoning item must be followed by the item it led to.
    """
    if isinstance(items, str):
        return None
    if not isinstance(items, list) or not items:
        return "input: expected a string or a non-empty array"
    asked: set[str] = set()
    answered: set[str] = set()
    for index, item in enumerate(items):
        kind = str(item.get("type", "message"))
        if "metadata" in item:
            return f"input[{index}]: unknown parameter 'metadata'"
        if kind == "message" and item.get("role") not in ("user", "assistant", "system", "developer"):
            return f"input[{index}].role: {item.get('role')!r} is not supported"
        if kind == "reasoning" and (index + 1 == len(items) or items[index + 1].get("role") == "user"):
            return f"input[{index}]: a 'reasoning' item was provided without its required following item"
        if kind.endswith("_output"):
            if item.get("call_id") not in asked:
                return f"input[{index}]: no tool call found for {kind} with call_id {item.get('call_id')!r}"
            if item["call_id"] in answered:
                return f"input[{index}]: duplicate output for call_id {item['call_id']!r}"
            answered.add(item["call_id"])
        elif kind.endswith("_call") and "call_id" in item:
            if item["call_id"] in asked:
                return f"input[{index}]: duplicate call_id {item['call_id']!r}"
            asked.add(item["call_id"])
    if asked - answered:
        return f"no tool output found for function call {sorted(asked - answered)[0]}"
    return None


def _unanswered(where: str, index: int, calls: Sequence[str] | set[str]) -> str:
    return (
        f"{where}[{index}]: an assistant message with 'tool_calls' must be followed by tool messages responding "
        f"to each 'tool_call_id'; without response: {', '.join(sorted(calls))}"
    )
