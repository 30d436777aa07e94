"""Keeps remembered text and API keys out of error details, which are stored as repair evidence."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

DETAIL_LIMIT = 500
"""Characters kept of a foreign message or response body; enough for a provider's own explanation."""

WITHHELD = "(left out: it repeats the text or the key)"

_PROBE = 16
"""Characters of a private value that are looked for: providers often quote only its beginning."""

_WORD_LIKE = 8
"""Below this length a private value counts as repeated only where it stands as a word of its own."""


def disclosable(message: str, private: Iterable[str]) -> str:
    """Return the first `DETAIL_LIMIT` characters of `message`, or `WITHHELD` if it repeats private text.

    A value counts as repeated when its beginning occurs as written, JSON-escaped or Python-escaped.
    """
    if any(_repeats(message, value) for value in private):
        return WITHHELD
    return message[:DETAIL_LIMIT]


def failure_text(error: BaseException, private: Iterable[str]) -> str:
    """Return the type name of a foreign error with its message, as far as that may be shown."""
    name = type(error).__name__
    try:
        message = str(error)
    except Exception:  # a foreign class may fail even at naming its failure
        return name
    return f"{name}: {disclosable(message, private)}"[:DETAIL_LIMIT] if message else name


def _repeats(message: str, value: str) -> bool:
    probe = value.strip()[:_PROBE]
    if not probe:
        return False
    forms = {probe, json.dumps(probe)[1:-1], json.dumps(probe, ensure_ascii=False)[1:-1], repr(probe)[1:-1]}
    if len(probe) >= _WORD_LIKE:
        return any(form in message for form in forms)
    return any(re.search(rf"(?<!\w){re.escape(form)}(?!\w)", message) for form in forms)
