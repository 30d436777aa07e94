"""The jsonl chat format: one turn a line, as a JSON object."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from charactermemory.domain.model import KEY_LIMIT, NAME_LIMIT, TEXT_LIMIT
from memory_app.chat_import.chat import ChatFormatError, ChatSession, ChatTurn, kind_name, text_problem

KEYS = ("session", "time", "speaker", "text", "id", "summary")
"""Every key a line may have; `session`, `time` and `text` are required."""

_RFC3339 = re.compile(
    r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(\.\d+)?(?P<offset>[Zz]|[+-]\d{2}:\d{2})?", re.ASCII
)
_TIME_ADVICE = "write RFC 3339 with an offset, as in 2026-03-01T09:30:00+01:00"


def read_jsonl(path: str | Path) -> tuple[ChatSession, ...]:
    """Read a chat of one JSON object a line: `{session, time, text, speaker?, id?, summary?}`.

    Lines are grouped by `session`, sessions in the order of their first lines, so that conversations may
    interleave and a line appended later may continue an old session. A session's time is that of its first
    line. A turn's key is its `id`, else its 0-based position in its session. A summary may stand on any
    line of its session; where several lines have one they must agree. `time` is RFC 3339 with an offset,
    which is kept (digits beyond microseconds are cut). An optional key may be null. Empty lines are passed
    over; all other content is kept verbatim.

    Raises `ChatFormatError` for the first line that breaks these rules, `OSError` for an unreadable file.
    """
    sessions: dict[str, _OpenSession] = {}
    with Path(path).open("rb") as file:
        for number, raw in enumerate(file, start=1):
            line = _Line(number, raw)
            if line.blank:
                continue
            values = line.values()
            name, time = line.required(values, "session", KEY_LIMIT), line.time(values)
            sessions.setdefault(name, _OpenSession(name, time)).add(line, values, time)
    return tuple(ChatSession(s.name, s.time, s.summary, tuple(s.turns)) for s in sessions.values())


class _OpenSession:
    """A session while its lines are still being collected."""

    def __init__(self, name: str, time: datetime) -> None:
        self.name = name
        self.time = time
        self.summary: str | None = None
        self.turns: list[ChatTurn] = []
        self._line_of: dict[str, int] = {}

    def add(self, line: _Line, values: Mapping[str, Any], time: datetime) -> None:
        """Append the line's turn, refusing what contradicts an earlier line."""
        summary = line.text(values, "summary", TEXT_LIMIT)
        if summary is not None and self.summary not in (None, summary):
            line.fail("summary", f"session {self.name!r} already has another summary; keep one of them")
        self.summary = self.summary or summary
        key = line.text(values, "id", KEY_LIMIT) or str(len(self.turns))
        if key in self._line_of:
            line.fail(
                "id",
                f"turn {key!r} of session {self.name!r} already stands on line {self._line_of[key]} (a turn "
                "without an id is named by its position); give every turn of the session its own id",
            )
        self._line_of[key] = line.number
        text = line.required(values, "text", TEXT_LIMIT)
        self.turns.append(ChatTurn(key, line.text(values, "speaker", NAME_LIMIT), time, text))


class _Line:
    """One line of the file: decodes it, hands out checked values, and names itself in every refusal."""

    def __init__(self, number: int, raw: bytes) -> None:
        self.number = number
        try:
            self._text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            self.fail(None, f"byte {error.start + 1} is not UTF-8; save the file as UTF-8")

    @property
    def blank(self) -> bool:
        return not self._text.strip()

    def fail(self, field: str | None, problem: str) -> NoReturn:
        raise ChatFormatError(line=self.number, field=field, problem=problem)

    def values(self) -> Mapping[str, Any]:
        """The line's object, its keys checked."""
        advice = "write one JSON object a line"
        try:
            value = json.loads(self._text, object_pairs_hook=self._unique)
        except json.JSONDecodeError as error:
            self.fail(None, f"is not JSON at column {error.colno} ({error.msg}); {advice}")
        except (RecursionError, ValueError) as error:
            self.fail(None, f"cannot be read as JSON ({error}); {advice}")
        if not isinstance(value, dict):
            self.fail(None, f"is {kind_name(type(value))}; {advice}")
        for key in value:
            if key not in KEYS:
                self.fail(key, f"is not a key of this format; use only {', '.join(KEYS)}")
        return value

    def _unique(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value: dict[str, Any] = {}
        for key, item in pairs:
            if key in value:
                self.fail(key, "stands twice on the line; keep one")
            value[key] = item
        return value

    def required(self, values: Mapping[str, Any], key: str, limit: int) -> str:
        """The checked text under `key`."""
        if (text := self.text(values, key, limit)) is None:
            self.fail(key, "is missing; every line needs session, time and text")
        return text

    def text(self, values: Mapping[str, Any], key: str, limit: int) -> str | None:
        """The checked text under `key`, or None where it is absent or null."""
        if values.get(key) is None:
            return None
        if problem := text_problem(values[key], limit):
            self.fail(key, problem)
        return str(values[key])

    def time(self, values: Mapping[str, Any]) -> datetime:
        """The line's time, aware, at the offset it was written with."""
        written = self.required(values, "time", NAME_LIMIT)
        shape = _RFC3339.fullmatch(written)
        if shape is None:
            self.fail("time", f"{written!r} is not a date and time; {_TIME_ADVICE}")
        if shape["offset"] is None:
            self.fail("time", f"{written!r} has no UTC offset; {_TIME_ADVICE}")
        try:
            time = datetime.fromisoformat(written.upper())
            time.astimezone(UTC)
        except (ValueError, OverflowError) as error:
            self.fail("time", f"{written!r} does not exist ({error}); {_TIME_ADVICE}")
        return time
