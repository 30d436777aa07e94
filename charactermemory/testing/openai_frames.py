"""The bodies and stream events of the stub's answers, shaped as OpenAI's API shapes them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from charactermemory.testing.openai_stub import Reply

CREATED = 1_700_000_000
PIECES = 4
"""Into how many fragments a streamed text or argument string is cut."""


def completion(reply: Reply, body: dict[str, Any]) -> dict[str, Any]:
    """Return a chat completion."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.text, "refusal": None, **reply.message}
    if reply.tool_calls:
        message["tool_calls"] = reply.tool_calls
    choices = [{"index": 0, "message": message, "finish_reason": _finish(reply), "logprobs": None}]
    for index, text in enumerate(reply.more, start=1):
        other = {"role": "assistant", "content": text, "refusal": None}
        choices.append({"index": index, "message": other, "finish_reason": "stop", "logprobs": None})
    return {
        "id": "chatcmpl-stub",
        "object": "chat.completion",
        "created": CREATED,
        "model": body.get("model"),
        "choices": choices,
        "usage": _usage(reply),
    }


def chat_chunks(reply: Reply, body: dict[str, Any]) -> Iterator[str]:
    """Yield the server-sent events of a streamed chat completion."""

    def chunk(delta: dict[str, Any], index: int = 0, finish: str | None = None) -> str:
        choice = {"index": index, "delta": delta, "finish_reason": finish, "logprobs": None}
        return _chunk(body, [choice])

    yield chunk({"role": "assistant", "content": "", **reply.message})
    for piece in _pieces(reply.text or ""):
        yield chunk({"content": piece})
    for position, call in enumerate(reply.tool_calls):
        function = {"name": call["function"]["name"], "arguments": ""}
        yield chunk({"tool_calls": [{"index": position, **call, "function": function}]})
    # Fragments of parallel calls arrive interleaved.
    fragments = [_pieces(call["function"]["arguments"]) for call in reply.tool_calls]
    for row in range(PIECES):
        for position, pieces in enumerate(fragments):
            if row < len(pieces):
                yield chunk({"tool_calls": [{"index": position, "function": {"arguments": pieces[row]}}]})
    yield chunk({}, finish=_finish(reply))
    for index, text in enumerate(reply.more, start=1):
        yield chunk({"role": "assistant", "content": text}, index=index)
        yield chunk({}, index=index, finish="stop")
    if (body.get("stream_options") or {}).get("include_usage"):
        yield _chunk(body, [], usage=_usage(reply))
    yield "data: [DONE]\n\n"


def response(reply: Reply, body: dict[str, Any], status: str = "completed") -> dict[str, Any]:
    """Return a response object of the responses API."""
    usage = _usage(reply)
    return {
        "id": "resp_stub",
        "object": "response",
        "created_at": CREATED,
        "status": status,
        "model": body.get("model"),
        "output": _output(reply) if status == "completed" else [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": body.get("tools") or [],
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "metadata": {},
        "temperature": 1.0,
        "top_p": 1.0,
        "usage": {
            "input_tokens": usage["prompt_tokens"],
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": usage["completion_tokens"],
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage["total_tokens"],
        },
    }


def response_events(reply: Reply, body: dict[str, Any]) -> Iterator[str]:
    """Yield the server-sent events of a streamed response."""
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": response(reply, body, "in_progress")}
    ]
    for place, item in enumerate(_output(reply)):
        events.extend(_item_events(place, item))
    events.append({"type": "response.completed", "response": response(reply, body)})
    for number, event in enumerate(events):
        yield f"event: {event['type']}\ndata: {json.dumps({**event, 'sequence_number': number})}\n\n"


def _item_events(place: int, item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    where = {"output_index": place, "item_id": item.get("id")}
    empty = {**item, "content": []} if item["type"] == "message" else {**item}
    if item["type"] == "function_call":
        empty["arguments"] = ""
    yield {"type": "response.output_item.added", "output_index": place, "item": empty}
    if item["type"] == "message":
        spot = {**where, "content_index": 0}
        text = item["content"][0]["text"]
        part = {"type": "output_text", "text": "", "annotations": []}
        yield {"type": "response.content_part.added", **spot, "part": part}
        for piece in _pieces(text):
            yield {"type": "response.output_text.delta", **spot, "delta": piece, "logprobs": []}
        yield {"type": "response.output_text.done", **spot, "text": text, "logprobs": []}
        yield {"type": "response.content_part.done", **spot, "part": {**part, "text": text}}
    elif item["type"] == "function_call":
        for piece in _pieces(item["arguments"]):
            yield {"type": "response.function_call_arguments.delta", **where, "delta": piece}
        done = {**where, "arguments": item["arguments"], "name": item["name"]}
        yield {"type": "response.function_call_arguments.done", **done}
    yield {"type": "response.output_item.done", "output_index": place, "item": item}


def _output(reply: Reply) -> list[dict[str, Any]]:
    if reply.output is not None:
        return reply.output
    items: list[dict[str, Any]] = []
    for number, call in enumerate(reply.tool_calls):
        function = {"name": call["function"]["name"], "arguments": call["function"]["arguments"]}
        item = {"type": "function_call", "id": f"fc_{number}", "call_id": call["id"], "status": "completed"}
        items.append({**item, **function})
    if reply.text is not None:
        part = {"type": "output_text", "text": reply.text, "annotations": []}
        message = {"type": "message", "id": "msg_stub", "role": "assistant", "status": "completed"}
        items.append({**message, "content": [part]})
    return items


def _chunk(body: dict[str, Any], choices: list[dict[str, Any]], usage: dict[str, int] | None = None) -> str:
    event = {
        "id": "chatcmpl-stub",
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": body.get("model"),
        "choices": choices,
    }
    if usage is not None:
        event["usage"] = usage
    return f"data: {json.dumps(event)}\n\n"


def _finish(reply: Reply) -> str:
    return "tool_calls" if reply.tool_calls else "stop"


def _usage(reply: Reply) -> dict[str, int]:
    spent = len((reply.text or "").split()) + 5 * len(reply.tool_calls)
    return {"prompt_tokens": 7, "completion_tokens": spent, "total_tokens": 7 + spent}


def _pieces(text: str) -> list[str]:
    size = max(1, -(-len(text) // PIECES))
    return [text[start : start + size] for start in range(0, len(text), size)]
