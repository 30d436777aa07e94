"""Any of the shapes in which messages and answers come, as plain JSON values."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

RESPONSE_ONLY = frozenset({"parsed", "parsed_arguments"})
"""What the SDK's `parse` adds to answers; the API knows nothing of it."""

_ATTRIBUTES = (
    "role",
    "content",
    "refusal",
    "tool_calls",
    "tool_call_id",
    "function_call",
    "name",
    "id",
    "type",
    "function",
    "arguments",
    "call_id",
    "output",
    "text",
)


def plain(value: Any) -> Any:
    """Return `value` as JSON values: copies of mappings and lists, the SDK's models dumped, others by attribute.

    Objects that only resemble the SDK's keep the attributes of a message that hold JSON values.
    """
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items() if key not in RESPONSE_ONLY}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        dumped = dump(mode="json", exclude_unset=True, warnings=False)
        if isinstance(dumped, dict):
            return plain(dumped)
    found = {name: getattr(value, name, None) for name in _ATTRIBUTES}
    return {
        name: plain(item) for name, item in found.items() if isinstance(item, str | list | tuple | Mapping)
    }


def get(value: Any, name: str, default: Any = None) -> Any:
    """Return a key of a mapping or an attribute of anything else."""
    if isinstance(value, Mapping):
        return value.get(name, default)
    return getattr(value, name, default)


def number(value: Any) -> int | None:
    """Return `value` when it is a whole number."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def text(value: Any) -> str | None:
    """Return `value` when it is a text."""
    return value if isinstance(value, str) else None


def without_metadata(given: Any) -> Any:
    """Return the caller's own message as it goes on the wire: untouched, but for our `metadata` key."""
    if isinstance(given, Mapping) and "metadata" in given:
        return {key: copy.copy(value) for key, value in given.items() if key != "metadata"}
    return given
