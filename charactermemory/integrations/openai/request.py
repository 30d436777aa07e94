"""What is sent and what is stored of one call: the window, the caller's messages and the rules between them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from charactermemory.errors import ThreadNotFoundError
from charactermemory.history import HistoryManager, Message, Selection
from charactermemory.history.models import INSTRUCTION_ROLES, ROLES
from charactermemory.integrations.openai.repair import call_ids, repaired

TALK_ROLES = tuple(role for role in ROLES if role not in INSTRUCTION_ROLES)


@dataclass
class Given:
    """One message and, when it is the caller's own, exactly what the caller gave for the wire."""

    message: Message
    wire: list[Any] = field(default_factory=list)


@dataclass
class Prepared:
    """One call made ready: what to send, and the caller's new messages, to be stored after it."""

    thread_id: str
    request: list[Given]
    inputs: list[Message]


def prepare(manager: HistoryManager, thread_id: str, given: list[Given], create_missing: bool) -> Prepared:
    """Join the thread's window and the caller's messages.

    Of a list that repeats what is stored only the rest is new. Instructions given replace stored ones of
    their role; otherwise the latest stored ones lead. Raises `ThreadNotFoundError` for an unknown thread
    unless `create_missing`, and `AlgorithmError`.
    """
    try:
        window = list(manager.get_thread(thread_id).messages)
    except ThreadNotFoundError:
        if not create_missing:
            raise
        return _joined(manager, thread_id, [], given, given)
    new = _unseen(manager, thread_id, given)
    to_store = [item for item in new if not _unchanged_instruction(manager, thread_id, item, given)]
    return _joined(manager, thread_id, window, new, to_store)


def _joined(
    manager: HistoryManager, thread_id: str, window: list[Message], new: list[Given], to_store: list[Given]
) -> Prepared:
    lead = next((place for place, item in enumerate(new) if not _instructs(item.message)), len(new))
    leading = [item.message for item in new[:lead]] + _latest_instructions(window, new)
    talk = [message for message in window if not (_instructs(message) and message.seq is not None)]
    rest = [item.message for item in new[lead:]]
    messages = [*leading, *repaired(talk, rest, lambda call: _find_call(manager, thread_id, call))]
    wires = {item.message.id: item.wire for item in new}
    return Prepared(
        thread_id=thread_id,
        request=[Given(message, wires.get(message.id, [])) for message in messages],
        inputs=[item.message for item in to_store],
    )


# --- instructions --------------------------------------------------------------------------------


def _instructs(message: Message) -> bool:
    return message.role in INSTRUCTION_ROLES


def _latest_instructions(window: list[Message], new: list[Given]) -> list[Message]:
    """Return the window's latest stored instructions of the roles that the caller gives none for."""
    given_roles = {item.message.role for item in new}
    latest: list[Message] = []
    for role in INSTRUCTION_ROLES:
        if role not in given_roles:
            stored = [message for message in window if message.role == role and message.seq is not None]
            latest.extend(_last_block(sorted(stored, key=lambda message: message.seq or 0)))
    return latest


def _last_block(messages: list[Message]) -> list[Message]:
    """Return the last messages that were stored one directly after the other: given in one call."""
    start = len(messages) - 1
    while start > 0 and (messages[start - 1].seq or 0) + 1 == messages[start].seq:
        start -= 1
    return messages[max(start, 0) :]


def _unchanged_instruction(manager: HistoryManager, thread_id: str, item: Given, given: list[Given]) -> bool:
    """Say whether an instruction given is stored already as part of the latest ones of its role."""
    if not _instructs(item.message):
        return False
    role = item.message.role
    wanted = [signature(other.message) for other in given if other.message.role == role]
    stored = manager.storage.read(
        thread_id, Selection(roles=(role,), newest=True, limit=len(wanted) + 1, visible=True)
    )
    return [signature(message) for message in _last_block(stored)] == wanted


# --- repeated history ----------------------------------------------------------------------------


def _unseen(manager: HistoryManager, thread_id: str, given: list[Given]) -> list[Given]:
    """Return what of `given` is not stored yet: all of it unless it repeats the end of the thread.

    A repetition must hold an answer of the model: a user may well say the same thing twice.
    """
    talk = [item for item in given if not _instructs(item.message)]
    if not any(item.message.role == "assistant" for item in talk):
        return given
    stored = manager.storage.read(
        thread_id, Selection(roles=TALK_ROLES, newest=True, limit=len(talk), visible=True)
    )
    known = [signature(message) for message in stored]
    told = [signature(item.message) for item in talk]
    capped = manager.storage.max_messages is not None
    for end in range(len(talk), 0, -1):
        overlap = min(end, len(known))
        if overlap < end and not capped:
            continue
        same = overlap > 0 and known[-overlap:] == told[end - overlap : end]
        if same and any(item.message.role == "assistant" for item in talk[end - overlap : end]):
            repeated = {item.message.id for item in talk[:end]}
            return [item for item in given if item.message.id not in repeated]
    return given


def signature(message: Message) -> tuple[Any, ...]:
    """Return what makes two messages the same to the model."""
    content = message.content
    said = content if isinstance(content, str) else json.dumps(content, sort_keys=True)
    return (message.role, said, tuple(call_ids(message)), message.tool_call_id)


def _find_call(manager: HistoryManager, thread_id: str, call: str) -> list[Message]:
    thread = manager.storage.get_thread(thread_id)
    results: list[Message] = []
    for message in reversed(thread.messages) if thread is not None else ():
        if call in call_ids(message) and not message.hidden:
            calls = call_ids(message)
            return [message, *(result for result in reversed(results) if result.tool_call_id in calls)]
        if message.role == "tool":
            results.append(message)
    return []
