"""The memories this process has open, and which ones exist.

Nothing is opened on import or when Django starts: a memory opens when it is first asked for.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Mapping
from pathlib import Path

from django.conf import settings

from charactermemory import CharacterMemory, Settings

_lock = threading.Lock()
_open: dict[str, CharacterMemory] = {}


def get_memory(collection: str) -> CharacterMemory:
    """Return the memory called `collection`, opened or created on first use and shared by all threads.

    Configured by `settings.CHARACTER_MEMORY`; closed when the process ends.

    Raises:
        ConfigValidationError, CollectionIncompatible, StoreError: see `CharacterMemory.open`.
    """
    with _lock:
        memory = _open.get(collection)
        if memory is None:
            memory = CharacterMemory.open(settings.CHARACTER_MEMORY, collection)
            _open[collection] = memory
        return memory


def close_memories() -> None:
    """Close every memory that `get_memory` opened; a later call opens anew."""
    with _lock:
        memories = list(_open.values())
        _open.clear()
    for memory in memories:
        memory.close()


atexit.register(close_memories)


def known_collections(mapping: Mapping[str, object]) -> tuple[str, ...] | None:
    """Return the sorted names of the embedded collections, None where the graph store cannot be looked into.

    Only an embedded graph keeps one folder a collection; it is not opened for this.
    """
    configured = Settings.from_mapping(mapping)
    if configured.graph_store_mode != "persistent":
        return None
    folder = Path(configured.oxigraph_path or ".")
    return tuple(sorted(marker.parent.name for marker in folder.glob(f"*/{_MARKER}")))


_MARKER = "character-memory.json"
"""The file by which a store folder says what it is (decisions.md "To R8")."""
