"""Months that the topic names: of what matches, what happened then comes first (docs/recall-tuning.md).

"What did we do in May?" is about one month whatever its words are like. Names are those of the collection's
language, the one its words are stemmed in; numbers (2023-05, 2023-05-14, 2023年5月, 5월) are read in every one.
"""

from __future__ import annotations

import re
import time
import unicodedata
from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import NamedTuple

DATED = 0.5
"""What a matching turn or episode gets for having happened in a month the topic names; as for a name in it."""

MONTHS = {
    "danish": "januar februar marts april maj juni juli august september oktober november december",
    "dutch": "januari februari maart april mei juni juli augustus september oktober november december",
    "english": "january february march april may june july august september october november december",
    "french": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "german": "januar februar märz april mai juni juli august september oktober november dezember",
    "italian": "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
    "norwegian": "januar februar mars april mai juni juli august september oktober november desember",
    "portuguese": "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
    "spanish": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "swedish": "januari februari mars april maj juni juli augusti september oktober november december",
}
"""Where a month's name is a word that does not change. Other languages' are not read."""

_ALSO_WORDS = {"english": frozenset({"march", "may", "august"})}
"""Names that are other words too: read with a capital, within a sentence or before a number."""

_NUMBERS = re.compile(r"(?<![\d-])((?:19|20)\d\d)-(0[1-9]|1[0-2])(?:-\d\d)?(?![\d-])")
_COUNTED = re.compile(r"(?:((?:19|20)\d\d)\s?[年년]\s*)?(?<!\d)(1[0-2]|0?[1-9])\s?[月월](?![間间간曜요])")
"""Chinese, Japanese and Korean count their months; before a word for duration or a Monday, it is none."""
_YEAR = r"(?:(?:\W+\w{1,4}){0,2}?\W+((?:19|20)\d\d)\b)?"
"""A year after a month's name, with at most a day and a short word between."""
_WITHIN = re.compile(r"[^\s.!?:;\"“”„«»¿¡](?:\s+|-)\Z")
_BEFORE_NUMBER = re.compile(r"\W*\d")


class Month(NamedTuple):
    """A month; without a year it is that of every year."""

    month: int
    year: int | None = None


def months_in(text: str, language: str) -> frozenset[Month]:
    """Return the months that a text names, however its letters and digits are encoded."""
    text = unicodedata.normalize("NFKC", text)
    return frozenset((*_by_number(text), *_by_name(text, language)))


def happened_in(months: Collection[Month], when: float) -> bool:
    """Whether a time, in seconds since 1970 and 0 where there is none, lies in one of these months (in UTC)."""
    if not when:
        return False
    # Not by a datetime: the last moment that one can hold is, in seconds, rounded to the year 10000.
    day = time.gmtime(when)
    return Month(day.tm_mon, day.tm_year) in months or Month(day.tm_mon) in months


def _by_number(text: str) -> Iterator[Month]:
    for found in _NUMBERS.finditer(text):
        yield Month(int(found[2]), int(found[1]))
    for found in _COUNTED.finditer(text):
        yield Month(int(found[2]), int(found[1]) if found[1] else None)


def _by_name(text: str, language: str) -> Iterator[Month]:
    if language not in MONTHS:
        return
    names = MONTHS[language].split()
    for found in _pattern(language).finditer(text):
        name = found[1].lower()
        if name not in names:
            continue  # with a Turkish i: the same letter to the pattern, another in lower case
        if name in _ALSO_WORDS.get(language, ()) and not _means_month(text, found):
            continue
        yield Month(names.index(name) + 1, int(found[2]) if found[2] else None)


def _means_month(text: str, found: re.Match[str]) -> bool:
    if found[1].islower():
        return False
    return bool(_WITHIN.search(text, 0, found.start()) or _BEFORE_NUMBER.match(text, found.end(1)))


@lru_cache(maxsize=len(MONTHS))
def _pattern(language: str) -> re.Pattern[str]:
    names = "|".join(MONTHS[language].split())
    return re.compile(rf"\b({names})\b(?={_YEAR})", re.IGNORECASE)
