"""Turns that only ask come after what matches as well (docs/recall-tuning.md).

A question has the words of its matter, so that it is found by them, but what is worth remembering is the answer.
Which turns ask is known once they were read, so this changes the order of what was.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable

from charactermemory.domain.objects import MemoryObject, Observation
from charactermemory.ids import MemoryObjectRef
from charactermemory.recall.ranking import CUE_WEIGHT, Ranked, in_order

ASKING = 0.16
"""What a turn that ends with a question loses, beside what its cues give it."""


def asks(text: str) -> bool:
    """Whether a text ends with a question mark of any script, whatever signs stand beside it.

    Greek asks with a semicolon; its mark of its own is that to every text that was normalised.
    """
    semicolon = False
    for character in reversed(text):
        name = unicodedata.name(character, "")
        if character.isalnum():
            return semicolon and name.startswith("GREEK")
        if "QUESTION" in name or "INTERROBANG" in name:
            return True
        semicolon = semicolon or character == ";"
    return False


def answers_first(
    ranked: Iterable[Ranked], content: Callable[[MemoryObjectRef], MemoryObject | None]
) -> list[Ranked]:
    """Return what was ranked in its order once the turns that ask have lost for it.

    `content` is None of what was not read, which keeps its score: it cannot come out better for being read.
    """
    return in_order(
        item._replace(asking=-ASKING, final=item.final - CUE_WEIGHT * ASKING)
        if isinstance(said := content(item.ref), Observation) and asks(said.text)
        else item
        for item in ranked
    )
