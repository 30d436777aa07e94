"""Counting tokens without a network: the default counter of the renderer."""

from __future__ import annotations

import math
from collections.abc import Callable

TokenCounter = Callable[[str], int]
"""Returns how many tokens a text costs; a host passes its model's own counter."""

CHARACTERS_PER_TOKEN = 3.5
"""English prose has about 4.2 characters a token with the usual BPE vocabularies; a smaller number errs on the
safe side."""


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of `text` from above: 3.5 ASCII characters, or one other character, cost one."""
    ascii_characters = sum(1 for character in text if character.isascii())
    return math.ceil(ascii_characters / CHARACTERS_PER_TOKEN) + (len(text) - ascii_characters)
