"""Messages, times and conditions as the database sees them."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.utils import timezone

from charactermemory.errors import ValidationError
from charactermemory.history import Message, Selection
from charactermemory.history.storage.rows import assembled, rest_of
from memory_app.models import ChatMessage, ChatThread

COLUMNS = (
    "seq",
    "message_id",
    "role",
    "created_at",
    "hidden",
    "token_count",
    "content",
    "metadata",
    "wire",
)

KEY_LIMIT = 255
"""Characters of thread and message ids: the width of their columns."""

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
"""What a database text cannot hold; JSON text holds it escaped."""


def to_database(instant: datetime) -> datetime:
    """Return an aware time as this project's database columns hold it."""
    return instant if settings.USE_TZ else timezone.make_naive(instant)


def from_database(value: datetime) -> datetime:
    """Return a column's time in UTC."""
    aware = timezone.make_aware(value) if timezone.is_naive(value) else value
    return aware.astimezone(UTC)


def to_row(thread: ChatThread, seq: int, message: Message) -> ChatMessage:
    """Return the row of one message. Raises `ValidationError` for ids and metadata no column can hold."""
    check_key("id", message.id)
    check_json("metadata", message.metadata)
    rest = rest_of(message)
    content = message.content if isinstance(message.content, str) else ""
    if not storable(content):
        rest["parts"], content = content, ""
    return ChatMessage(
        thread=thread,
        seq=seq,
        message_id=message.id,
        role=message.role,
        created_at=to_database(message.created_at),
        hidden=message.hidden,
        token_count=message.token_count,
        content=content,
        metadata=message.metadata,
        wire=json.dumps(rest) if rest else "",
        folded=folded(message.text),
    )


def from_row(row: tuple[Any, ...]) -> Message:
    """Return the message of one row of `COLUMNS`."""
    seq, message_id, role, created_at, hidden, token_count, content, metadata, wire = row
    return assembled(
        seq,
        message_id,
        role,
        from_database(created_at),
        hidden,
        token_count,
        content,
        metadata,
        json.loads(wire) if wire else None,
    )


def conditions(wanted: Selection) -> dict[str, Any]:
    """Return a selection's conditions as the ORM takes them."""
    found: dict[str, Any] = {}
    if wanted.after is not None:
        found["seq__gt"] = wanted.after
    if wanted.before is not None:
        found["seq__lt"] = wanted.before
    if wanted.roles is not None:
        found["role__in"] = wanted.roles
    if wanted.since is not None:
        found["created_at__gte"] = to_database(wanted.since)
    if wanted.visible:
        found["hidden"] = False
    return found


def check_key(field: str, value: str) -> None:
    """Refuse an id that its column cannot hold.

    Raises:
        ValidationError: it is too long, or holds NUL or a lone surrogate.
    """
    if len(value) > KEY_LIMIT:
        problem = f"expected at most {KEY_LIMIT} characters, got {len(value)}"
        raise ValidationError(field=field, problem=problem)
    if not storable(value):
        raise ValidationError(field=field, problem="holds a character that no database stores")


def check_json(field: str, value: dict[str, Any]) -> None:
    """Refuse metadata with a text that a JSON column cannot hold. Raises `ValidationError`."""
    if not storable(value):
        raise ValidationError(field=field, problem="holds a character that no database stores")


def storable(value: Any) -> bool:
    """Say whether a JSON column can hold every text and key of `value`."""
    if isinstance(value, str):
        return _UNSTORABLE.search(value) is None
    if isinstance(value, dict):
        return all(storable(key) and storable(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return all(map(storable, value))
    return True


def storable_text(text: str) -> str:
    """Return a text with a mark in place of what no database text holds."""
    return _UNSTORABLE.sub("\ufffd", text)


def folded(text: str) -> str:
    """Return a text as searches compare it."""
    return storable_text(text.casefold())
