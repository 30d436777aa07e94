"""Which words of two texts are the same, without a model: for looking up what was said lately."""

from __future__ import annotations

import regex

STEM = 4
"""Letters that a word keeps at least when its ending is ignored."""
ENDING = 3
"""Letters of an ending that may differ: plural, tense, case."""
_WORD = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}]+|[\p{L}\p{N}]+")
_UNSPACED = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}]")

STOP_WORDS = frozenset(
    """
    a about after all also am an and any are as at be been but by can could did do does for from had has have he
    her here him his how i if in into is it its just me more my no not of on one or our out she should so some
    than that the their them then there these they this to up us was we were what when where which who why will
    with would you your tell know remember said say told
    """.split()
)
"""English words that say little about what a question is after; rare words decide in other languages."""


def words(text: str) -> list[str]:
    """Return the words of a casefolded text; scripts without spaces are cut into pairs of characters."""
    found: list[str] = []
    for word in _WORD.findall(text):
        if _UNSPACED.match(word) and len(word) > 1:
            found += [word[place : place + 2] for place in range(len(word) - 1)]
        else:
            found.append(word)
    return found


def keys(word: str) -> set[str]:
    """Return the forms under which a word is found: itself, and without up to `ENDING` last letters."""
    return {word, *(word[:-cut] for cut in range(1, ENDING + 1) if len(word) - cut >= STEM)}
