"""Names in the topic: cues, not content (DESIGN R10, R12).

Every word run of the topic that may be a name is looked up, exactly, among the names that current beliefs
give; nothing is guessed. Whoever bears a name that is found becomes a cue, and the name leaves the text that
is embedded: with it, everything near that person looks alike (WordLlama finds .39 of LoCoMo's evidence with
the names and .57 without them).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from charactermemory.domain.model import Model
from charactermemory.domain.names import normalize_name
from charactermemory.ids import MemoryId
from charactermemory.ports.graph import GraphStore

MAX_WORDS = 4
"""Words of a name that is recognised in a topic."""
MAX_CHARACTERS = 6
"""Characters of a name in a script that writes no spaces."""
MAX_LOOKUPS = 200
"""Runs that are looked up, shorter ones first: a sentence has about thirty, and each costs some 10 µs."""

_WORD = re.compile(r"\w+")
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]+")
"""Kana, Han and Hangul: words are not set apart there, or carry their particles with them."""
_POSSESSIVE = re.compile(r"['’]s?(?!\w)")


@dataclass(frozen=True, slots=True)
class Named:
    """One name found in a topic: where it stands, and the sorted notions that bear it."""

    start: int
    end: int
    bearers: tuple[MemoryId, ...]


class NameReference(Model):
    """What became of one name in the topic; the name itself is not repeated.

    Attributes:
        position: which of the names found, from 0.
        resolution: `ambiguous` if several bear it; then all of them are cues.
        candidates: its bearers, sorted.
    """

    position: int
    resolution: Literal["resolved", "ambiguous"]
    candidates: tuple[MemoryId, ...]


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic and the names in it."""

    text: str
    names: tuple[Named, ...] = ()

    @property
    def bearers(self) -> tuple[MemoryId, ...]:
        """Everyone the topic may name, distinct, in order."""
        return tuple(dict.fromkeys(notion for name in self.names for notion in name.bearers))

    @property
    def content(self) -> str | None:
        """The topic without its names; None if nothing else is in it."""
        kept, start = [], 0
        for name in self.names:
            kept.append(self.text[start : name.start])
            start = name.end
        text = " ".join(" ".join((*kept, self.text[start:])).split()) if self.names else self.text
        return text if _WORD.search(text) or not self.names else None

    def references(self) -> tuple[NameReference, ...]:
        """Return the published form of the names."""
        return tuple(
            NameReference(
                position=position,
                resolution="resolved" if len(name.bearers) == 1 else "ambiguous",
                candidates=name.bearers,
            )
            for position, name in enumerate(self.names)
        )


def read_topic(graph: GraphStore, text: str) -> Topic:
    """Find the names in a topic, in one round trip; where names overlap, the first and longest counts.

    Raises:
        StoreError: the graph failed.
    """
    runs: dict[str, list[tuple[int, int]]] = {}
    for start, end in _runs(text):
        name = normalize_name(text[start:end])
        if name not in runs and len(runs) >= MAX_LOOKUPS:
            break
        runs.setdefault(name, []).append((start, end))
    known = graph.notions_known_as(runs.keys()) if runs else {}
    found = sorted(
        ((start, -end, bearers) for name, bearers in known.items() for start, end in runs[name]),
        key=lambda item: item[:2],
    )
    names: list[Named] = []
    for start, negative_end, bearers in found:
        if names and start < names[-1].end:
            continue
        owned = _POSSESSIVE.match(text, -negative_end)
        names.append(Named(start, owned.end() if owned else -negative_end, bearers))
    return Topic(text, tuple(names))


def _runs(text: str) -> Iterator[tuple[int, int]]:
    """Yield the runs that may be names: by words, short ones first, then by characters where none are spaced."""
    words = [match.span() for match in _WORD.finditer(text)]
    for length in range(1, MAX_WORDS + 1):
        for first in range(len(words) - length + 1):
            start, end = words[first][0], words[first + length - 1][1]
            yield start, end
            if text[end : end + 1] == ".":
                yield start, end + 1
    unspaced = [match.span() for match in _UNSPACED.finditer(text)]
    for length in range(2, MAX_CHARACTERS + 1):
        for first, last in unspaced:
            for start in range(first, last - length + 1):
                yield start, start + length
