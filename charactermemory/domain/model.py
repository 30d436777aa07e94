"""The base of every public data type and the scalar types they share.

Shape is refused at construction (wrong types, unknown fields, naive times, NaN, NUL, lone surrogates,
over-long text); meaning is judged later, by plan validation and commit (decisions R1).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Self, TypeVar

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    ValidationInfo,
)

from charactermemory.errors import InvalidInput

_T = TypeVar("_T")
TEXT_LIMIT = 50_000
"""Characters of a memory text (decisions R1)."""
NAME_LIMIT = 1_000
"""Characters of names, titles, descriptions and setting words (decisions R1)."""
KEY_LIMIT = 1_024
"""Characters of keys, raw refs and canonical keys (decisions R1)."""

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def storable(value: str) -> str:
    """Return `value`, refusing what no store keeps unchanged.

    Raises:
        ValueError: NUL or a lone surrogate, naming its position.
    """
    found = _UNSTORABLE.search(value)
    if found:
        what = "NUL" if found.group() == "\x00" else "a lone surrogate"
        raise ValueError(f"{what} at character {found.start()} cannot be stored")
    return value


_SEEN = re.compile(
    r"[^\u0009-\u000d\u001c-\u0020\u0085\u00a0\u00ad\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff]"
)
"""Anything but white space, as `str.strip` knows it, and characters without width: joiners, marks of direction
and the like. Written out, for no two dialects of patterns mean the same by `\\s`."""


def says_nothing(text: str) -> bool:
    """Whether a text is empty, or all of it white space or characters without width."""
    return _SEEN.search(text) is None


def _saying(value: str) -> str:
    if says_nothing(value):
        raise ValueError("the text is blank; give it words, or leave out what says nothing")
    return value


def _storable_text(value: Any) -> Any:
    """Check a text before pydantic does, whose own error for a lone surrogate names no place."""
    return storable(value) if isinstance(value, str) else value


_RFC3339 = re.compile(
    r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?([Zz]|[+-]\d{2}:\d{2})?", re.ASCII
)


def _read_time(value: Any, info: ValidationInfo) -> Any:
    """Read a written time; pydantic's own reader also takes bare numbers as seconds since 1970."""
    if info.mode != "json" or not isinstance(value, str):
        return value
    if not _RFC3339.fullmatch(value):
        raise ValueError("expected a time as RFC 3339 writes it, such as 2026-01-31T18:30:00+01:00")
    return datetime.fromisoformat(value.upper())


def _without_negative_zero(value: float) -> float:
    """Return equal numbers as one, for their digests must not differ."""
    return value + 0.0


def to_utc(value: datetime) -> datetime:
    """Return the same instant in UTC.

    Raises:
        ValueError: UTC has no such instant: it lies before the year 1 or after 9999.
    """
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise ValueError("the instant lies outside the years 1 to 9999 of UTC") from None


def utc_text(value: datetime) -> str:
    """Write an instant as RFC 3339 in UTC with exactly six fraction digits and `Z`."""
    return value.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


_Storable = BeforeValidator(_storable_text)
Text = Annotated[str, Field(max_length=TEXT_LIMIT), _Storable]
Saying = Annotated[Text, AfterValidator(_saying), Field(json_schema_extra={"pattern": _SEEN.pattern})]
"""The text of what is to be remembered, and so no blank one; what is stored already may be."""
Name = Annotated[str, Field(max_length=NAME_LIMIT), _Storable]
Key = Annotated[str, Field(max_length=KEY_LIMIT), _Storable]
Time = Annotated[AwareDatetime, BeforeValidator(_read_time)]
"""An aware datetime; written, it is RFC 3339."""
Instant = Annotated[Time, AfterValidator(to_utc), PlainSerializer(utc_text, when_used="json")]
"""An aware datetime, kept in UTC with microseconds."""
Score = Annotated[float, Field(allow_inf_nan=False), AfterValidator(_without_negative_zero)]
"""A finite number, never −0.0; its range 0.0..1.0 is judged with the object that carries it."""
Listed = Field(strict=False)
"""Marks a tuple field that also accepts a list; its items stay strict."""


class Model(BaseModel):
    """A frozen value with strict scalars and no unknown fields."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        ser_json_inf_nan="constants",
        validate_default=False,
    )

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read the wire form.

        Raises:
            InvalidInput: with a JSON pointer for every problem.
        """
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise invalid_input(error) from None

    def to_json(self) -> str:
        """Write the wire form, None left out; `from_json` reads it back equal."""
        return self.model_dump_json(exclude_none=True)

    def replace(self, **changes: Any) -> Self:
        """Return a copy with `changes`, validated like any construction."""
        values: dict[str, Any] = {name: getattr(self, name) for name in type(self).model_fields}
        return type(self)(**(values | changes))


def invalid_input(error: ValidationError, at: str = "") -> InvalidInput:
    """Turn pydantic's error into ours, with JSON pointers below `at`."""
    problems = []
    for item in error.errors(include_url=False, include_context=False, include_input=False):
        pointer = "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in item["loc"])
        problems.append((at + pointer, item["msg"].removeprefix("Value error, ")))
    return InvalidInput(tuple(problems))


def of_text(make: Callable[[str], _T], text: str) -> _T:
    """Make the model of a bare text; its problems are ours, for no model was constructed by the caller.

    Raises:
        InvalidInput: the text is none that a memory keeps.
    """
    try:
        return make(text)
    except ValidationError as error:
        raise invalid_input(error) from None
