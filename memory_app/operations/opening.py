"""How operations come to a memory: by a name that exists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from charactermemory import CharacterMemory
from memory_app import runtime
from memory_app.conf import given_mapping
from memory_app.models import MemoryCollection


class Refused(Exception):
    """An operation cannot be done as asked; the message says why and what to do. Nothing was changed."""


@contextmanager
def existing(collection: str) -> Iterator[CharacterMemory]:
    """Lend the memory called `collection`, an archived one too; nothing is created for a name that is not there.

    Raises:
        Refused: there is no such collection; lists those that are.
        CharacterMemoryError: it cannot be opened.
    """
    require(collection)
    if MemoryCollection.objects.filter(name=collection, archived=True).exists():
        with runtime.open_memory(collection) as memory:
            yield memory
    else:
        yield runtime.get_memory(collection)


def require(*collections: str) -> None:
    """Check that collections are there; none is opened.

    Raises:
        Refused: one is not; lists those that are.
    """
    _require(collections, names())


def require_stored(collection: str) -> None:
    """Check that a collection's graph is there, as far as can be told without opening it; a row is not enough.

    Raises:
        Refused: it is not; lists those that are.
    """
    stored = runtime.known_collections(given_mapping())
    _require([collection], names() if stored is None else stored)


def _require(collections: Iterable[str], known: Sequence[str]) -> None:
    for collection in collections:
        if collection not in known:
            listed = f"known: {', '.join(known)}" if known else "there is none yet"
            if not known and (folder := runtime.graph_folder(given_mapping())):
                listed += f" in {folder.absolute()}"
            raise Refused(f"no collection is called {collection!r}; {listed}")


def names(*, archived: bool = True) -> tuple[str, ...]:
    """Return the sorted names of all collections: those with a row, and embedded stores without one."""
    rows = MemoryCollection.objects.all()
    recorded = dict(rows.values_list("name", "archived"))
    found = set(recorded) | set(runtime.known_collections(given_mapping()) or ())
    return tuple(sorted(name for name in found if archived or not recorded.get(name, False)))
