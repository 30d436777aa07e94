"""LoCoMo's format: long conversations of two people, in dated sessions, some turns sharing a picture."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from charactermemory.domain.model import KEY_LIMIT, NAME_LIMIT, TEXT_LIMIT
from memory_app.chat_import.chat import ChatFormatError, ChatSession, ChatTurn, kind_name, text_problem

_TIME = re.compile(
    r"(?P<hour>\d{1,2}):(?P<minute>\d{2}) (?P<half>am|pm)"
    r" on (?P<day>\d{1,2}) (?P<month>[a-z]+), (?P<year>\d{4})",
    re.ASCII | re.IGNORECASE,
)
# Spelled out because strptime would read the month names of whatever locale the process runs under.
_MONTHS = "january february march april may june july august september october november december".split()


def read_locomo(path: str | Path, conversation: str | None = None) -> tuple[ChatSession, ...]:
    """Read one conversation of a file in LoCoMo's format (a list of samples, or one sample).

    `conversation` is a `sample_id`; it may be left out where the file holds one sample. Of a sample only
    its id and its conversation are looked at: the data set's questions, summaries, events and observations
    never are. A turn's text is its `text`, followed by ` [caption]` where it shares a picture that has a
    caption; its key is its `dia_id`. Times are read as UTC and belong to sessions; sessions without turns
    are left out. A session's key is `<sample_id>/session_<n>`, so that several conversations may go into
    one memory.

    Raises `ChatFormatError` at the first fault found, `OSError` for a file that cannot be read.
    """
    sample_id, at, source = _choose(_load(path), conversation)
    numbers = sorted(int(key[8:]) for key in source if re.fullmatch(r"session_(0|[1-9]\d*)", key, re.ASCII))
    place_of: dict[str, str] = {}
    sessions = []
    for number in numbers:
        name = f"session_{number}"
        rows = _expect(source[name], list, f"{at}/{name}")
        if not rows:
            continue
        turns = tuple(_turn(row, f"{at}/{name}/{i}", place_of) for i, row in enumerate(rows))
        time = _time(source.get(f"{name}_date_time"), f"{at}/{name}_date_time")
        sessions.append(ChatSession(f"{sample_id}/{name}", time, None, turns, sample_id))
    return tuple(sessions)


def _load(path: str | Path) -> Any:
    try:
        return json.loads(Path(path).read_bytes().decode("utf-8-sig"))
    except json.JSONDecodeError as error:
        problem = f"is not JSON at column {error.colno} ({error.msg}); for one object a line use format jsonl"
        raise ChatFormatError(line=error.lineno, problem=problem) from None
    except UnicodeDecodeError as error:
        problem = f"byte {error.start + 1} is not UTF-8; save the file as UTF-8"
        raise ChatFormatError(problem=problem) from None
    except (RecursionError, ValueError) as error:
        raise ChatFormatError(problem=f"cannot be read as JSON ({error})") from None


def _choose(value: Any, wanted: str | None) -> tuple[str, str, Mapping[str, Any]]:
    """The chosen sample's id, the JSON Pointer of its conversation, and the conversation."""
    listed = isinstance(value, list)
    samples: dict[str, tuple[str, Any]] = {}
    for i, sample in enumerate(value if listed else [value]):
        at = f"/{i}" if listed else ""
        content = _expect(sample, dict, at or "/")
        sample_id = _text(content, "sample_id", at, NAME_LIMIT)
        if sample_id in samples:
            problem = f"{sample_id!r} names two samples; rename one"
            raise ChatFormatError(field=f"{at}/sample_id", problem=problem)
        samples[sample_id] = f"{at}/conversation", content.get("conversation")
    known = ", ".join(samples) or "none"
    if wanted is not None and wanted not in samples:
        raise ChatFormatError(problem=f"the file holds no conversation {wanted!r}; choose from: {known}")
    if wanted is None and len(samples) != 1:
        raise ChatFormatError(problem=f"the file holds {len(samples)} conversations; choose one of: {known}")
    chosen = wanted if wanted is not None else next(iter(samples))
    at, source = samples[chosen]
    return chosen, at, _expect(source, dict, at)


def _turn(row: Any, at: str, place_of: dict[str, str]) -> ChatTurn:
    turn = _expect(row, dict, at)
    key = _text(turn, "dia_id", at, KEY_LIMIT)
    if key in place_of:
        raise ChatFormatError(field=f"{at}/dia_id", problem=f"{key!r} is already that of {place_of[key]}")
    place_of[key] = at
    speaker = _text(turn, "speaker", at, NAME_LIMIT)
    caption = f" [{_text(turn, 'blip_caption', at, TEXT_LIMIT)}]" if turn.get("blip_caption") else ""
    text = str(_expect(turn.get("text"), str, f"{at}/text")) + caption
    if problem := text_problem(text, TEXT_LIMIT):
        raise ChatFormatError(field=f"{at}/text", problem=problem)
    return ChatTurn(key, speaker, None, text)


def _time(value: Any, at: str) -> datetime:
    written: str = _expect(value, str, at)
    advice = "write it as in 1:56 pm on 8 May, 2023"
    parts = _TIME.fullmatch(written.strip())
    if parts is None or parts["month"].lower() not in _MONTHS or not 1 <= int(parts["hour"]) <= 12:
        raise ChatFormatError(field=at, problem=f"{written!r} is not a date and time; {advice}")
    hour = int(parts["hour"]) % 12 + (12 if parts["half"].lower() == "pm" else 0)
    month = _MONTHS.index(parts["month"].lower()) + 1
    try:
        return datetime(int(parts["year"]), month, int(parts["day"]), hour, int(parts["minute"]), tzinfo=UTC)
    except ValueError as error:
        raise ChatFormatError(field=at, problem=f"{written!r} does not exist ({error}); {advice}") from None


def _text(source: Mapping[str, Any], key: str, at: str, limit: int) -> str:
    value: str = _expect(source.get(key), str, f"{at}/{key}")
    if problem := text_problem(value, limit):
        raise ChatFormatError(field=f"{at}/{key}", problem=problem)
    return value


def _expect(value: Any, kind: type, at: str) -> Any:
    if not isinstance(value, kind):
        found = "is missing" if value is None else f"is {kind_name(type(value))}"
        raise ChatFormatError(field=at, problem=f"{found}; it must be {kind_name(kind)}")
    return value
