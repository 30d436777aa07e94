"""Turns what is wrong with a mapping of settings into our errors, without showing a secret."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

from pydantic_core import ErrorDetails

from charactermemory.errors import ConfigParseError, ConfigValidationError, OutOfDomain

FANOUT_PREFIX = "RETRIEVAL_FANOUT_"
_EXPECTED = {
    "greater_than": "a number above 0",
    "finite_number": "a number above 0",
    "greater_than_equal": "a whole number from 0",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number",
    "int_type": "a whole number",
    "float_parsing": "a number",
    "float_type": "a number",
    "path_type": "a path",
    "string_type": "a text",
}
"""What pydantic's problems ask for, said in the words of the reference page."""

_SHOWN = 80
"""Characters of a wrong value that a message repeats."""


def unknown_key(key: object, known: Collection[str]) -> ConfigParseError | ConfigValidationError | None:
    """Return what is wrong with a key, None if it is known. The value is never looked at.

    A fan-out key of another pair is said to be none that is implemented; any other with the nearest known key.
    """
    if not isinstance(key, str):
        return ConfigParseError(detail=f"a setting's name is a text, got {type(key).__name__}")
    if key in known:
        return None
    if key.startswith(FANOUT_PREFIX):
        return OutOfDomain(
            keys=(key,),
            expected="an implemented retrieval fanout target",
            actual=key.removeprefix(FANOUT_PREFIX).removesuffix("_MIN").removesuffix("_MAX").lower(),
        )
    nearest = get_close_matches(key.upper(), known, n=1)
    hint = f", perhaps {nearest[0]}" if nearest else ""
    return OutOfDomain(keys=(key,), expected=f"a known setting{hint}", actual="an unknown name")


def wrong_value(problem: ErrorDetails, secret: Collection[str]) -> ConfigParseError | OutOfDomain:
    """Return our error for one of pydantic's.

    A value that cannot be read as the setting's type is a `ConfigParseError`, one that can but is not
    allowed an `OutOfDomain`. Of a key in `secret` only the value's type is named.
    """
    key = str(problem["loc"][0]).upper()
    value = problem["input"]
    expected = _EXPECTED.get(problem["type"]) or problem["msg"].removeprefix("Input should be ")
    actual = type(value).__name__ if key in secret else repr(value)[:_SHOWN]
    if problem["type"].endswith(("_type", "_parsing", "_size", "_from_float")):
        return ConfigParseError(detail=f"{key}: expected {expected}, got {actual}")
    return OutOfDomain(keys=(key,), expected=expected, actual=actual)


def scheme_of(value: str) -> str:
    """Return how a message may name a URL: by its scheme alone, since the rest can hold a password."""
    scheme, separator, _ = value.partition("://")
    return f"{scheme}://..." if separator and scheme.isalnum() else "a text without a scheme"
