"""What threads can be searched by, and when a thread's metadata matches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from charactermemory.errors import ValidationError
from charactermemory.history import validation


@dataclass(frozen=True)
class SearchQuery:
    """`content`: a text that some message holds, whatever the case. `metadata`: values the thread must have.

    Keys are taken literally; an object inside `metadata` asks for its own keys, any other value must be
    equal and of the same type (1 is not True, nor "1"). Both conditions must hold.
    """

    content: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, query: Mapping[str, Any]) -> SearchQuery:
        """Read a plain query. Raises `ValidationError` for an empty one and for unknown keys."""
        unknown = set(query) - {"content", "metadata"}
        if unknown:
            raise ValidationError(
                field="query", problem=f"expected content and metadata, got {', '.join(sorted(unknown))}"
            )
        content = query.get("content")
        metadata = query.get("metadata") or {}
        if content is not None and not isinstance(content, str):
            raise ValidationError(field="query.content", problem=f"expected a text, got {content!r}")
        validation.json_object("query.metadata", metadata)
        if not content and not metadata:
            raise ValidationError(field="query", problem="name a content or metadata to search for")
        return cls(content=content.casefold() if content else None, metadata=metadata)


def matches(stored: Any, wanted: Any) -> bool:
    """Say whether stored metadata holds what is wanted."""
    if isinstance(wanted, dict):
        return isinstance(stored, dict) and all(
            key in stored and matches(stored[key], value) for key, value in wanted.items()
        )
    return same(stored, wanted)


def same(left: Any, right: Any) -> bool:
    """Say whether two JSON values are equal, types included."""
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return type(left) is type(right) and bool(left == right)
