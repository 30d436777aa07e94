"""Import: an export becomes a collection again, which then derives its index and statistics by a sweep."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from charactermemory.domain.counted import counted
from charactermemory.upkeep.sweep import SweepReport
from memory_app import runtime
from memory_app.operations import repair
from memory_app.operations.exporting import FORMAT, Manifest
from memory_app.operations.opening import Refused


@dataclass(frozen=True)
class Imported:
    """An import; `swept` is None if the sweep has to wait for a later one."""

    collection: str
    triples: int
    head: int
    swept: SweepReport | None

    @property
    def complete(self) -> bool:
        """Whether index and statistics are there too."""
        return self.swept is not None and self.swept.complete

    def summary(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "collection": self.collection,
            "triples": self.triples,
            "head": self.head,
            "complete": self.complete,
            "repairs": len(self.swept.repair_needed) if self.swept else None,
        }


def read_manifest(path: Path) -> Manifest:
    """Read a manifest and check its file against it.

    Raises:
        Refused: it cannot be read, is of another version, or the file is not the one it speaks of.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        manifest = Manifest(**{field.name: values[field.name] for field in fields(Manifest)})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Refused(
            f"{path} is no manifest of an export ({error}); name the NAME.manifest.json that memory_export wrote"
        ) from error
    if manifest.format != FORMAT:
        raise Refused(f"{path}: format {manifest.format} is not {FORMAT}, which this version reads")
    digest = hashlib.sha256()
    try:
        with (path.parent / manifest.file).open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError as error:
        raise Refused(f"{path.parent / manifest.file} cannot be read: {error.strerror}") from error
    if digest.hexdigest() != manifest.sha256:
        raise Refused(f"{manifest.file} is not the file that {path.name} speaks of: its SHA-256 differs")
    return manifest


def import_export(path: Path, collection: str | None = None) -> Imported:
    """Load the export with the manifest at `path` into an empty collection, by default of the same name.

    Index and statistics are derived from the receipts, by the sweep made here or a later one: a new index
    reflects no commit yet, so it owes them all.

    Raises:
        Refused: the manifest or its file is not sound, or the collection is not empty.
        CharacterMemoryError: a store failed; repeat the import.
    """
    manifest = read_manifest(path)
    name = collection or manifest.collection
    memory = runtime.get_memory(name)
    graph = memory.stores.graph
    if graph.head():
        raise Refused(
            f"collection {name} is not empty (it has {counted(graph.head(), 'commit')}); import into another "
            "name, or erase it first (docs/deployment.md says how)"
        )
    with (path.parent / manifest.file).open("rb") as file:
        triples = memory.upkeep.load(file)
    if graph.head() != manifest.head:
        raise Refused(
            f"collection {name} ends at commit {graph.head()} after the import, the export at {manifest.head}: "
            "it held something else before; erase it and import again"
        )
    return Imported(name, triples, manifest.head, repair.sweep([name])[name])
