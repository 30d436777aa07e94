"""What to call people in a prompt, so that two of one name are not taken for one another (DESIGN R12)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from charactermemory.domain.names import normalize_name
from charactermemory.ids import MemoryId


def called(
    spellings: Mapping[MemoryId, Sequence[str]], present: Collection[MemoryId] = ()
) -> dict[MemoryId, str]:
    """Return one name for each notion, distinct from everybody else's.

    By the first of its names that nobody else has. Who has none is told apart by who is present: "Alex (here
    now)" and "another Alex"; among several who are, or are not, by number, in the order of their ids.

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
    for group in alike.values():
        if len(group) > 1:
            names |= _apart(group, names, present)
    return names


def _apart(
    group: Sequence[MemoryId], names: Mapping[MemoryId, str], present: Collection[MemoryId]
) -> dict[MemoryId, str]:
    here = [notion for notion in group if notion in present]
    away = [notion for notion in group if notion not in present]
    if not here:
        return _numbered(group, names, "{}")
    return _numbered(here, names, "{} (here now)") | _numbered(away, names, "another {}")


def _numbered(group: Sequence[MemoryId], names: Mapping[MemoryId, str], form: str) -> dict[MemoryId, str]:
    if len(group) == 1:
        return {group[0]: form.format(names[group[0]])}
    return {
        notion: f"{form.format(names[notion])} ({number})" for number, notion in enumerate(group, start=1)
    }
