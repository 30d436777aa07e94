"""Lays a recall out for a terminal. Stored text is data: nothing in it can steer the terminal."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from django.core.management.color import Style

from charactermemory.domain.counted import counted
from charactermemory.recall.trace import RetrievalTrace
from memory_app.presentation import Entry, Recollection

_STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Control characters, escape sequences' first ones among them, and those that turn the writing direction."""
_LABEL = 20
"""Columns of the label before a text; the longest kind of memory has as many letters."""
_LINES = 2
"""Lines of a text; more is cut, so that a screen holds an answer."""


def plain(text: str) -> str:
    """Return `text` on one line, with everything replaced that could steer a terminal."""
    return _STEERING.sub("\N{REPLACEMENT CHARACTER}", " ".join(text.split()))


@dataclass(frozen=True)
class Layout:
    """How wide, in which colours, and seen from which moment."""

    style: Style
    now: datetime
    width: int = 0

    @property
    def columns(self) -> int:
        """The width in columns: what was asked for, else the terminal's, within what reads well."""
        return self.width or min(max(shutil.get_terminal_size((100, 24)).columns, 60), 100)

    def heading(self, left: str, right: str = "") -> str:
        """Return a rule with a text at either end."""
        left, right = plain(left), plain(right)
        rule = "─" * max(self.columns - len(left) - len(right) - 4, 2)
        return str(self.style.MIGRATE_HEADING(f"─ {left} {rule} {right}".rstrip()))

    def answer(self, found: Recollection) -> Iterator[str]:
        """Yield the lines of an answer: what came back and why, what was left out and why."""
        count = f"{found.admitted} memories" if found.admitted != 1 else "1 memory"
        if len(found.entries) < found.admitted:
            count += f", the strongest {len(found.entries)}"
        yield str(self.style.MIGRATE_LABEL(f"Came back: {count}"))
        for entry in found.entries:
            yield from self._block(entry.kind, entry.text, self._why(entry))
        if found.superseded or found.forgotten or found.others:
            yield str(self.style.MIGRATE_LABEL("Left out"))
            yield from self._left_out(found)
        for what in found.degraded:
            yield str(self.style.WARNING(f"Went without {plain(what)}"))

    def _why(self, entry: Entry) -> str:
        way = f", by way of {entry.way}" if entry.way else ""
        return f"{entry.when.day} {entry.when:%b %Y}{self._age(entry.when)} · because of {entry.roads}{way}"

    def _age(self, when: datetime) -> str:
        days = (self.now - when).days
        for size, name in ((365, "year"), (30, "month"), (1, "day")):
            if days >= size:
                number = days // size
                return f", {counted(number, name)} before"
        return ""

    def _left_out(self, found: Recollection) -> Iterator[str]:
        for old in found.replaced:
            now = f"now: {old.now}" if old.now else "what took its place was forgotten"
            yield from self._block("superseded", old.text, now, lines=1, warn=True)
        if rest := found.superseded - len(found.replaced):
            yield from self._block("superseded", f"{rest} more", warn=True)
        if found.forgotten:
            kinds = ", ".join(counted(count, kind) for kind, count in found.forgotten)
            yield from self._block("suppressed", f"{kinds}, forgotten and not told here", warn=True)
        for reason, count in found.others:
            yield from self._block(reason, f"{count} more", warn=True)

    def _block(
        self, label: str, text: str, below: str = "", *, lines: int = _LINES, warn: bool = False
    ) -> Iterator[str]:
        """Yield a labelled text, cut to so many lines, and what is said of it below."""
        colour = self.style.WARNING if warn else self.style.SUCCESS
        indent = " " * (_LABEL + 3)
        room = self.columns - len(indent)
        first, *others = textwrap.wrap(plain(text), room, max_lines=lines, placeholder=" …") or [""]
        yield f"{colour(f'  {label:<{_LABEL}}')} {first}"
        others += textwrap.wrap(plain(below), room, max_lines=_LINES, placeholder=" …")
        yield from (indent + line for line in others)

    def trace(self, trace: RetrievalTrace) -> Iterator[str]:
        """Yield the steps of a recall in short; JSON has all of them."""
        yield str(self.style.MIGRATE_LABEL("Steps"))
        legs = Counter((item.road, item.leg) for item in trace.vector_candidates)
        for (road, leg), count in legs.items():
            best = max(c.score for c in trace.vector_candidates if (c.road, c.leg) == (road, leg))
            yield from self._block("searched", f"{road}, {leg}: {counted(count, 'hit')}, the best {best:.3f}")
        for item in trace.graph_expansions:
            bound = item.bounded_failure
            cut = f", cut by {bound.reason}" if bound else ""
            yield from self._block(
                item.outcome,
                f"{item.root}: {counted(item.object_count, 'object')}, "
                f"{counted(item.relation_count, 'relation')}, "
                f"{item.filtered_node_count} filtered{cut}",
            )
        for row in trace.selectivity_decisions:
            yield from self._block(
                "weighed",
                f"{row.root} {row.relation} {row.object_type}: {row.chosen_fanout} of at most {row.max_fanout}, "
                f"{row.decision}",
            )
