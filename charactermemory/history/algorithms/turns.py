"""Keeping the user's request in sight while a model works on it with tools."""

from __future__ import annotations

from collections.abc import Sequence

from charactermemory.history.models import INSTRUCTION_ROLES, Message


def is_instruction(message: Message) -> bool:
    """Say whether the message instructs the model rather than taking part in the talk."""
    return message.role in INSTRUCTION_ROLES


def last_user(messages: Sequence[Message]) -> Message | None:
    """Return the newest message of the user, reading backwards in chunks."""
    return next((message for message in reversed(messages) if message.role == "user"), None)


def in_tool_loop(newest: Sequence[Message]) -> bool:
    """Say whether the last of `newest` is a tool's result or a call that waits for one."""
    return bool(newest) and (newest[-1].role in ("tool", "function") or bool(newest[-1].tool_calls))


def with_request(
    messages: Sequence[Message],
    window: Sequence[Message],
    newest: Sequence[Message],
    limit: int | None = None,
) -> list[Message]:
    """Return `window` with the user's last message, should a tool loop have pushed it out (history.md §11).

    `newest` ends with the thread's newest message. With a `limit` the oldest of the window make room, but
    never its newest message.
    """
    kept = list(window)
    if not in_tool_loop(newest):
        return kept
    user = last_user(messages)
    if user is None or any(message.id == user.id for message in kept):
        return kept
    if limit is not None and len(kept) >= limit:
        kept = kept[-max(1, limit - 1) :]
    place = next((index for index, message in enumerate(kept) if _later(message, user)), len(kept))
    return [*kept[:place], user, *kept[place:]]


def _later(message: Message, other: Message) -> bool:
    if message.seq is None or other.seq is None:
        return message.created_at > other.created_at
    return message.seq > other.seq
