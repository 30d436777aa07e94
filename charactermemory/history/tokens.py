"""What a message costs in tokens, estimated without a tokenizer."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from charactermemory.history.models import Message

TokenCounter = Callable[[Message], int]
"""Returns what one message costs in tokens, its framing included."""

CHARACTERS_PER_TOKEN = 4
TOKENS_PER_MESSAGE = 3
TOKENS_PER_IMAGE = 85
"""The usual rule of thumb of four characters a token, the framing of one message, and the price of a
low-detail image (spec/history.md §11 and §12)."""


def approximate_tokens(message: Message) -> int:
    """Estimate the cost of `message`: its text, name and tool-call JSON, images at a flat rate."""
    characters = len(message.text) + len(message.name or "") + len(message.refusal or "")
    for calls in (message.tool_calls, message.function_call):
        if calls:
            characters += len(json.dumps(calls, ensure_ascii=False))
    images = 0
    if not isinstance(message.content, str):
        images = sum(1 for part in message.content if _is_image(part))
    return -(-characters // CHARACTERS_PER_TOKEN) + TOKENS_PER_MESSAGE + images * TOKENS_PER_IMAGE


def _is_image(part: Any) -> bool:
    return isinstance(part, Mapping) and part.get("type") in ("image_url", "input_image", "image")
