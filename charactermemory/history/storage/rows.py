"""Messages, times and search conditions as SQLite sees them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from charactermemory.history.models import INSTRUCTION_ROLES, Message
from charactermemory.history.sequence import Selection

COLUMNS = "seq, id, role, created_at, hidden, token_count, content, metadata, rest"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_REST = ("tool_calls", "tool_call_id", "function_call", "name", "refusal", "extra")


def dump(value: Any) -> str:
    """Return the one JSON spelling used in the database."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def to_micros(instant: datetime) -> int:
    """Return microseconds since 1970 in UTC, exactly."""
    return (instant - _EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    """Return the instant of `to_micros`."""
    return _EPOCH + timedelta(microseconds=micros)


def rest_of(message: Message) -> dict[str, Any]:
    """Return what of a message has no column of its own; empty for plain text messages."""
    rest: dict[str, Any] = {
        name: value for name in _REST if (value := getattr(message, name)) is not None and value != {}
    }
    if not isinstance(message.content, str):
        rest["parts"] = message.content
    if message.null_content:
        rest["null"] = True
    return rest


def assembled(
    seq: int,
    message_id: str,
    role: str,
    created_at: datetime,
    hidden: bool,
    token_count: int | None,
    content: str,
    metadata: dict[str, Any],
    rest: dict[str, Any] | None,
) -> Message:
    """Return the message of one stored row.

    The fields are set directly: what is stored was checked, and a long thread makes thousands of messages.
    """
    message = Message.__new__(Message)
    message.__dict__ = {
        "content": content,
        "role": role,
        "id": message_id,
        "created_at": created_at,
        "metadata": metadata,
        "token_count": token_count,
        "tool_calls": None,
        "tool_call_id": None,
        "function_call": None,
        "name": None,
        "refusal": None,
        "extra": {},
        "null_content": False,
        "hidden": hidden,
        "seq": seq,
    }
    if rest:
        message.content = rest.pop("parts", content)
        message.null_content = rest.pop("null", False)
        message.__dict__.update(rest)
    return message


def to_row(thread: int, seq: int, message: Message) -> tuple[Any, ...]:
    """Return the values of one stored message; plain text messages need no JSON but their metadata."""
    rest = rest_of(message)
    return (
        thread,
        seq,
        message.id,
        message.role,
        to_micros(message.created_at),
        int(message.hidden),
        message.token_count,
        message.content if isinstance(message.content, str) else "",
        dump(message.metadata) if message.metadata else None,
        dump(rest) if rest else None,
        message.text.casefold(),
    )


def from_row(row: tuple[Any, ...]) -> Message:
    """Return the message of one row of `COLUMNS`."""
    seq, message_id, role, created_at, hidden, token_count, content, metadata, rest = row
    return assembled(
        seq,
        message_id,
        role,
        _EPOCH + timedelta(0, 0, created_at),
        hidden == 1,
        token_count,
        content,
        json.loads(metadata) if metadata else {},
        json.loads(rest) if rest else None,
    )


def source(wanted: Selection) -> str:
    """Return the table, with the index that keeps the selection's cost to the rows it returns.

    Named outright: without statistics the planner walks the whole thread for a handful of rows.
    """
    if wanted.roles is not None and set(wanted.roles) <= set(INSTRUCTION_ROLES):
        return "messages INDEXED BY instructions"
    if wanted.since is not None:
        return "messages INDEXED BY messages_by_time"
    return "messages"


def where(thread_sql: str, wanted: Selection) -> tuple[str, list[Any]]:
    """Return the conditions of a selection and their values; `thread_sql` names the thread's key."""
    conditions: list[str] = [f"thread = {thread_sql}"]
    values: list[Any] = []
    if wanted.after is not None:
        conditions.append("seq > ?")
        values.append(wanted.after)
    if wanted.before is not None:
        conditions.append("seq < ?")
        values.append(wanted.before)
    if wanted.roles is not None:
        conditions.append(f"role IN ({', '.join('?' * len(wanted.roles))})")
        values.extend(wanted.roles)
        if set(wanted.roles) <= set(INSTRUCTION_ROLES):
            conditions.append("role IN ('system', 'developer')")  # the partial index's own condition
    if wanted.since is not None:
        conditions.append("created_at >= ?")
        values.append(to_micros(wanted.since))
    if wanted.visible:
        conditions.append("hidden = 0")
    return " AND ".join(conditions), values


def metadata_condition(
    wanted: dict[str, Any], column: str = "metadata", depth: int = 0
) -> tuple[str, list[Any]]:
    """Return SQL that is true when the JSON object in `column` holds `wanted`; keys and values are bound."""
    conditions: list[str] = []
    values: list[Any] = []
    for key, value in wanted.items():
        alias = f"item{depth}"
        if isinstance(value, dict):
            inner, inner_values = metadata_condition(value, f"{alias}.value", depth + 1)
            test, test_values = f"{alias}.type = 'object'" + (f" AND {inner}" if inner else ""), inner_values
        elif isinstance(value, list | tuple):
            test, test_values = f"{alias}.type = 'array' AND {alias}.value = ?", [dump(value)]
        elif value is None or isinstance(value, bool):
            test, test_values = f"{alias}.type = ?", [dump(value)]
        else:
            kind = {int: "integer", float: "real"}.get(type(value), "text")
            test, test_values = f"{alias}.type = ? AND {alias}.value = ?", [kind, value]
        conditions.append(
            f"EXISTS (SELECT 1 FROM json_each({column}) AS {alias} WHERE {alias}.key = ? AND {test})"  # noqa: S608
        )
        values.extend([key, *test_values])
    return " AND ".join(conditions), values
