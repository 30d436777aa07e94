"""What to call people in a prompt, so that two of one name are not taken for one another (DESIGN R12)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import chain, count

from charactermemory.domain.names import normalize_name
from charactermemory.ids import MemoryId


def called(
    spellings: Mapping[MemoryId, Sequence[str]], present: Collection[MemoryId] = ()
) -> dict[MemoryId, str]:
    """Return one name for each notion, distinct from everybody else's.

    By the first of its names that nobody else has. Who has none is told apart by who is present: "Alex (here
    now)" and "another Alex"; among several who are, or are not, by number, in the order of their ids. A
    name made so that somebody bears is passed over.

    Args:
        spellings: the names under which each notion is known, the preferred one first; never empty.
        present: who is there at the time of asking.
    """
    bearers: defaultdict[str, set[MemoryId]] = defaultdict(set)
    for notion, known in spellings.items():
        for name in known:
            bearers[normalize_name(name)].add(notion)
    names = {
        notion: next((name for name in known if len(bearers[normalize_name(name)]) == 1), known[0])
        for notion, known in spellings.items()
    }
    alike: defaultdict[str, list[MemoryId]] = defaultdict(list)
    for notion in sorted(names):
        alike[normalize_name(names[notion])].append(notion)
    taken = set(bearers)
    for group in alike.values():
        if len(group) > 1:
            here = [notion for notion in group if notion in present]
            away = [notion for notion in group if notion not in present]
            names |= _numbered(here, names, "{} (here now)", taken)
            names |= _numbered(away, names, "another {}" if here else "{}", taken)
    return names


def _numbered(
    group: Sequence[MemoryId], names: Mapping[MemoryId, str], form: str, taken: set[str]
) -> dict[MemoryId, str]:
    """Return names of this form that are not taken, with a number where it needs one, and take them."""
    found = {}
    for notion in group:
        plain = form.format(names[notion])
        numbered = (f"{plain} ({number})" for number in count(1))
        candidates = numbered if len(group) > 1 else chain([plain], numbered)
        found[notion] = next(name for name in candidates if normalize_name(name) not in taken)
        taken.add(normalize_name(found[notion]))
    return found
