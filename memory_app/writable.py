"""Whether a process could make and write a folder, told without making anything."""

from __future__ import annotations

import os
from pathlib import Path


def in_the_way(folder: Path) -> Path | None:
    """Return what stands where `folder`, or one above it, would have to be and is no folder; None if nothing."""
    found = nearest(folder)
    return None if found.is_dir() else found


def closed(folder: Path) -> Path | None:
    """Return what this process may not write and has to: `folder`, one in it or the next above it; None if all.

    Folders in it are one a collection, and another user may have made one of them.
    """
    found = nearest(folder)
    if not may_write(found):
        return found
    if found != folder:
        return None
    return next(
        (inner for inner in sorted(folder.iterdir()) if inner.is_dir() and not may_write(inner)), None
    )


def may_write(path: Path) -> bool:
    """Whether this process may list, enter and write a folder; where nobody may write it is closed too."""
    return os.access(path, os.R_OK | os.W_OK | os.X_OK)


def nearest(path: Path) -> Path:
    """Return `path`, or the next above it that is there; a link to nowhere is there."""
    return next(above for above in (path, *path.parents) if os.path.lexists(above))
