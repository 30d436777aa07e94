"""Checks of what comes in, made before the first write."""

from __future__ import annotations

import json
from typing import Any

from charactermemory.errors import ValidationError
from charactermemory.history.models import ROLES, Message


def thread_id(value: Any) -> str:
    """Return `value` when it is a non-empty text."""
    if not isinstance(value, str) or not value:
        raise ValidationError(field="thread_id", problem=f"expected a non-empty text, got {value!r}")
    return value


def positive(field: str, value: Any) -> int:
    """Return `value` when it is a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValidationError(field=field, problem=f"expected a whole number of at least 1, got {value!r}")
    return value


def not_negative(field: str, value: Any) -> int:
    """Return `value` when it is a whole number of at least 0."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValidationError(field=field, problem=f"expected a whole number of at least 0, got {value!r}")
    return value


def role(value: Any) -> str:
    """Return `value` when it is one of the six roles."""
    if value not in ROLES:
        raise ValidationError(field="role", problem=f"expected one of {', '.join(ROLES)}, got {value!r}")
    return str(value)


def json_object(field: str, value: Any) -> dict[str, Any]:
    """Return `value` when it is an object that JSON can hold without loss of keys or numbers."""
    if not isinstance(value, dict):
        raise ValidationError(field=field, problem=f"expected an object, got {type(value).__name__}")
    _json_value(field, value)
    return value


def message(value: Message) -> Message:
    """Return `value` when every field can be stored."""
    role(value.role)
    if not isinstance(value.id, str) or not value.id:
        raise ValidationError(field="id", problem=f"expected a non-empty text, got {value.id!r}")
    if not isinstance(value.content, str | list):
        raise ValidationError(
            field="content",
            problem=f"expected a text, a list of parts or None, got {type(value.content).__name__}",
        )
    json_object("metadata", value.metadata)
    json_object("extra", value.extra)
    if not isinstance(value.content, str):
        _json_value("content", value.content)
    if value.tool_calls is not None:
        _json_value("tool_calls", value.tool_calls)
    if value.function_call is not None:
        _json_value("function_call", value.function_call)
    return value


def _json_value(field: str, value: Any) -> None:
    if not value:
        return
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValidationError(field=field, problem=f"cannot be stored as JSON: {error}") from error
    if not _text_keys(value):
        raise ValidationError(field=field, problem="every key of an object must be a text")


def _text_keys(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and _text_keys(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return all(_text_keys(item) for item in value)
    return True
