"""What a conversation is made of: messages and the thread that holds them."""

from __future__ import annotations

import copy
from collections.abc import Mapping, MutableSequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal
from uuid import uuid4

from charactermemory.clock import utc_now

MessageRole = Literal["user", "assistant", "system", "tool", "function", "developer"]
"""The roles of the chat completions API."""

ROLES: tuple[MessageRole, ...] = ("user", "assistant", "system", "tool", "function", "developer")

INSTRUCTION_ROLES: tuple[MessageRole, ...] = ("system", "developer")
"""Roles that tell the model how to behave rather than take part in the talk."""


def _new_id() -> str:
    return str(uuid4())


@dataclass
class Message:
    """One message as it was said or sent.

    `content` is a text or a list of content parts as on the wire; it is never None, so that algorithms may
    take its length: None becomes "" and `null_content` remembers it. `created_at` is aware; a naive time is
    read as UTC. `token_count` is what the message costs in tokens when known. `extra` holds the wire fields
    that have no field here. A `hidden` message is stored and never offered to a window: a partial answer, an
    alternative choice, a failed turn. `seq` is the message's place in its thread, None until it is stored.
    """

    content: Any
    role: str
    id: str = field(default_factory=_new_id)
    created_at: datetime = field(default_factory=utc_now)
    metadata: dict[str, Any] = field(default_factory=dict)
    token_count: int | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | None = None
    function_call: dict[str, Any] | None = None
    name: str | None = None
    refusal: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    null_content: bool = False
    hidden: bool = False
    seq: int | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.content is None:
            self.content = ""
            self.null_content = True
        if self.created_at.tzinfo is None:
            self.created_at = self.created_at.replace(tzinfo=UTC)

    @property
    def text(self) -> str:
        """The words of the content; the texts of its parts joined by spaces."""
        if isinstance(self.content, str):
            return self.content
        words = (part.get("text") for part in self.content if isinstance(part, Mapping))
        return " ".join(word for word in words if isinstance(word, str))

    def copy(self) -> Message:
        """Return a copy that shares no mutable value with this message."""
        twin = copy.copy(self)
        for name in _MUTABLE:
            value = getattr(twin, name)
            if value:
                setattr(twin, name, copy.deepcopy(value))
            elif value is not None:
                setattr(twin, name, type(value)())
        return twin

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable form that `from_dict` reads back; absent optional fields are left out."""
        plain: dict[str, Any] = {
            "id": self.id,
            "role": self.role,
            "content": None if self.null_content else copy.deepcopy(self.content),
            "created_at": self.created_at.isoformat(),
            "metadata": copy.deepcopy(self.metadata),
            "token_count": self.token_count,
        }
        for name in ("tool_calls", "tool_call_id", "function_call", "name", "refusal", "seq"):
            value = getattr(self, name)
            if value is not None:
                plain[name] = copy.deepcopy(value)
        if self.extra:
            plain["extra"] = copy.deepcopy(self.extra)
        if self.hidden:
            plain["hidden"] = True
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Message:
        """Read what `to_dict` wrote. Raises KeyError when content or role is missing."""
        values = {name: copy.deepcopy(plain[name]) for name in _FIELDS if plain.get(name) is not None}
        if "created_at" in values:
            values["created_at"] = datetime.fromisoformat(values["created_at"])
        return cls(**{**values, "content": copy.deepcopy(plain["content"]), "role": plain["role"]})


_MUTABLE = ("metadata", "extra", "tool_calls", "function_call", "content")
_FIELDS = (
    "id",
    "created_at",
    "metadata",
    "token_count",
    "tool_calls",
    "tool_call_id",
    "function_call",
    "name",
    "refusal",
    "extra",
    "hidden",
    "seq",
)


@dataclass
class Thread:
    """One conversation. `messages` is a list, or a lazy sequence when the thread was read from a storage.

    Changing `messages` never changes what is stored; messages are added through the manager. `owner` is
    whose thread it is ("" for none); `token_total` sums the token counts of every message ever added.
    """

    id: str = field(default_factory=_new_id)
    messages: MutableSequence[Message] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    created_at: datetime = field(default_factory=utc_now)
    updated_at: datetime = field(default_factory=utc_now)
    owner: str = ""
    token_total: int = 0

    def add_message(self, message: Message) -> None:
        """Append `message` to this object and note the time; stores nothing."""
        self.messages.append(message)
        self.updated_at = utc_now()

    def get_messages(self) -> MutableSequence[Message]:
        """Return the live message sequence."""
        return self.messages

    @property
    def message_count(self) -> int:
        """How many messages the thread holds; needs no loading."""
        return len(self.messages)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable form, messages included."""
        return {
            "id": self.id,
            "messages": [message.to_dict() for message in self.messages],
            "metadata": copy.deepcopy(self.metadata),
            "created_at": self.created_at.isoformat(),
            "updated_at": self.updated_at.isoformat(),
            "owner": self.owner,
            "token_total": self.token_total,
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Thread:
        """Read what `to_dict` wrote; a missing id becomes a new one."""
        values = {
            name: copy.deepcopy(plain[name])
            for name in ("id", "metadata", "owner", "token_total")
            if name in plain
        }
        for name in ("created_at", "updated_at"):
            if name in plain:
                values[name] = datetime.fromisoformat(plain[name])
        return cls(messages=[Message.from_dict(row) for row in plain.get("messages", ())], **values)
