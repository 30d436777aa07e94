"""Store folders: the marker that says what a folder holds, and writes that survive a power cut.

A folder carries `character-memory.json`, written before an engine creates anything in it; an existing folder
with other contents is refused by name, since both engines would build inside it without a word
(decisions.md "To R8").
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from charactermemory.adapters.handles import OWNER_LOCK_NAME
from charactermemory.errors import NotAStore

MARKER_NAME = "character-memory.json"
"""Name of the marker file inside a store folder."""

_TEMPORARY_SUFFIX = ".new"


def sync_folder(path: Path) -> None:
    """Make the entries of folder `path` durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomically(path: Path, text: str) -> None:
    """Replace `path` by `text`: whole or not at all, and durable on return."""
    temporary = path.with_name(path.name + _TEMPORARY_SUFFIX)
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    sync_folder(path.parent)


def read_marker(path: Path, kind: str) -> dict[str, object] | None:
    """Return the marker of store folder `path`, None where the folder is absent or empty.

    Reads nothing but the marker: no file of an engine is opened (consistency.md §4).

    Raises:
        NotAStore: the path is no folder, holds other things, or a store of another kind than `kind`.
    """
    if not path.exists():
        return None
    if not path.is_dir():
        raise NotAStore(path=str(path), expected=kind, found="not a folder")
    marker = path / MARKER_NAME
    if not marker.exists():
        # What a crash between our first steps can leave behind counts as empty.
        ours = {OWNER_LOCK_NAME, MARKER_NAME + _TEMPORARY_SUFFIX}
        others = sorted(entry.name for entry in path.iterdir() if entry.name not in ours)
        if others:
            raise NotAStore(path=str(path), expected=kind, found=f"no {MARKER_NAME}, but {others[0]}")
        return None
    try:
        values = json.loads(marker.read_text(encoding="utf-8"))
    except ValueError as error:
        raise NotAStore(path=str(path), expected=kind, found=f"{MARKER_NAME} cannot be read") from error
    if not isinstance(values, dict) or values.get("kind") != kind:
        found = values.get("kind") if isinstance(values, dict) else values
        raise NotAStore(path=str(path), expected=kind, found=f"kind {found!r}")
    return values


def write_marker(path: Path, values: Mapping[str, object]) -> None:
    """Write the marker of store folder `path`; `values` must name its `kind` and `format`."""
    write_atomically(path / MARKER_NAME, json.dumps(dict(values), indent=2, sort_keys=True) + "\n")
