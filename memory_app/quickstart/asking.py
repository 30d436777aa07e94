"""Asking what the sample life's questions ask, and choosing what of an answer is shown."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from charactermemory import RetrievalContext
from memory_app.presentation import Entry, Recollection
from memory_app.quickstart.plans import scene_of
from memory_app.sample.life import Question

SHOWN = 5
"""Memories shown of an answer; with what was left out they fit one screen."""
SHOWN_OF_SECTION = 2
"""Of them at most so many of one section, so that a screen shows of how many kinds an answer is."""
SHOWN_SUPERSEDED = 2
"""Superseded memories shown; the first are those whose place was taken by what came back first."""


def context_of(question: Question) -> RetrievalContext:
    """Return the situation in which a question is asked."""
    return RetrievalContext(topic=question.topic, scene=scene_of(question.time, question.participants))


def essence(found: Recollection) -> Recollection:
    """Return an answer cut to what fits a screen: the best matches of all sections, best first.

    Ranks compare within a section; a turn gathers more from what stands around it than a belief can.
    """
    taken: Counter[str] = Counter()
    entries: list[Entry] = []
    for entry in sorted(found.entries, key=lambda entry: -entry.match):
        if len(entries) < SHOWN and taken[entry.section] < SHOWN_OF_SECTION:
            taken[entry.section] += 1
            entries.append(entry)
    return replace(found, entries=tuple(entries), replaced=found.replaced[:SHOWN_SUPERSEDED])
