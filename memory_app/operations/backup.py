"""Backup: a consistent copy of the stores, taken while they serve."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from charactermemory import SCHEMA_VERSION
from charactermemory.upkeep.backup import BackupReport, require_outside_stores
from memory_app.conf import app_settings
from memory_app.operations import exporting, opening
from memory_app.operations.opening import Refused

MANIFEST = "backup.json"


@dataclass(frozen=True)
class BackedUp:
    """One collection's backup; `exported` where the graph is a service and was exported instead of copied."""

    collection: str
    folder: Path
    report: BackupReport
    exported: bool

    def summary(self) -> dict[str, Any]:
        """Return it for JSON, and for the manifest beside the copy."""
        return {
            "collection": self.collection,
            "graph": "export" if self.exported else "copy",
            "vectors": "copy" if self.report.vectors else "rebuild",
            "statistics": "database",
            "vectors_applied": self.report.vectors_applied,
            "head": self.report.head,
            "schema_version": SCHEMA_VERSION,
        }


def backup(collection: str, folder: Path) -> BackedUp:
    """Copy one collection's stores into `folder`, whole or not at all: the index first, the graph last.

    The statistics are rows of the host's database: back that up before this. Restoring is putting the folders
    in the places of OXIGRAPH_PATH and VECTOR_STORE_PATH; a sweep catches up what lags behind. A graph that is a
    service is exported instead, and a vector server's index is rebuilt.

    Raises:
        Refused: no such collection, or a backup is there already.
        InvalidInput: `folder` lies in the folder of a store; nothing was written.
        CharacterMemoryError, OSError: a store cannot be copied.
    """
    opening.require(collection)
    target = folder / collection
    require_outside_stores(app_settings().core, target)
    if target.exists():
        raise Refused(f"{target} is there already; back up into a folder of its own")
    target.mkdir(parents=True)
    try:
        with opening.existing(collection) as memory:
            report = memory.upkeep.backup(target)
        if not report.graph:
            exporting.export(collection, target / "graph")
        done = BackedUp(collection, target, report, exported=not report.graph)
        (target / MANIFEST).write_text(json.dumps(done.summary(), indent=2, sort_keys=True) + "\n", "utf-8")
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)  # half a backup would stand in the way of the next
        raise
    return done
