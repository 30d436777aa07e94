"""How names are compared (memory-core §3.7): exact after NFKC, lower case and white-space folding."""

from __future__ import annotations

import re
import unicodedata

# The Unicode White_Space property. str.split() would also fold U+001C..U+001F, which are no white space.
_WHITE_SPACE = re.compile(
    "[\u0009-\u000d\u0020\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+"
)


def normalize_name(name: str) -> str:
    """Return the form under which `name` is looked up; empty for a name of white space only."""
    return fold_white_space(fold_letters(name))


def fold_letters(text: str) -> str:
    """Return NFKC in lower case."""
    return unicodedata.normalize("NFKC", text).lower()


def fold_white_space(text: str) -> str:
    """Collapse white-space runs to single spaces and trim."""
    return " ".join(part for part in _WHITE_SPACE.split(text) if part)
