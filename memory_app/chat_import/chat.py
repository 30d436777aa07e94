"""What every reader of a chat file gives and refuses: sessions, turns, one error, the checks of text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from charactermemory.domain.model import says_nothing, storable
from charactermemory.errors import CharacterMemoryError


@dataclass(eq=False)
class ChatFormatError(CharacterMemoryError):
    """A chat file does not say what its format demands.

    `problem` says what is wrong and what to do; `line` is the 1-based line at fault and `field` the key
    (jsonl) or the JSON Pointer (LoCoMo) at fault, where there is one.
    """

    code: ClassVar[str] = "chat_format"
    problem: str
    line: int | None = None
    field: str | None = None

    def describe(self) -> str:
        """Name line and field where known, then the problem."""
        place = [f"line {self.line}"] if self.line is not None else []
        place += [f"field {self.field!r}"] if self.field is not None else []
        return ": ".join([", ".join(place), self.problem] if place else [self.problem])


@dataclass(frozen=True, slots=True)
class ChatTurn:
    """One thing said. `key` is unique in its session; `time` is None where the format times sessions only."""

    key: str
    speaker: str | None
    time: datetime | None
    text: str


@dataclass(frozen=True, slots=True)
class ChatSession:
    """One sitting: at least one turn, in order. `key` is unique in its file; `time` is aware.

    `conversation` names the conversation that the session is part of, in formats whose files hold several; a
    speaker's name stands for one and the same speaker within it, not beyond.
    """

    key: str
    time: datetime
    summary: str | None
    turns: tuple[ChatTurn, ...]
    conversation: str | None = None


_KIND_NAMES: Mapping[type, str] = {
    str: "text",
    bool: "true or false",
    int: "a number",
    float: "a number",
    list: "a list",
    dict: "an object",
    type(None): "null",
}


def kind_name(kind: type) -> str:
    """The plain name of the type of a value that JSON can hold."""
    return _KIND_NAMES[kind]


def text_problem(value: Any, limit: int) -> str | None:
    """What keeps a value from being a storable text of 1 to `limit` characters, and what to do; or None."""
    if not isinstance(value, str):
        return f"is {kind_name(type(value))}; write it as text, in quotes"
    if says_nothing(value):
        return "is blank; give it content or leave it out"
    if len(value) > limit:
        return f"has {len(value):,} characters; shorten it to at most {limit:,}"
    try:
        storable(value)
    except ValueError as error:
        return f"{error}; remove it"
    return None
