"""`manage.py memory_import`: makes a collection of an export again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from charactermemory.domain.counted import counted
from memory_app import operations
from memory_app.management.operating import OperatorCommand, finish


class Command(OperatorCommand):
    """Import one export into an empty collection, and derive its index and statistics."""

    help = "Load an export, named by its manifest, into an empty collection, then sweep it."

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        super().add_arguments(parser)
        parser.add_argument("manifest", type=Path, help="the export's <name>.manifest.json")
        parser.add_argument("--collection", metavar="NAME", help="another name than the export's")
        parser.add_argument("--dry-run", action="store_true", help="only check manifest and file")

    def handle(self, *args: Any, **options: Any) -> None:
        """Import, and fail if index or statistics are not complete."""
        if options["dry_run"]:
            manifest = operations.importing.read_manifest(options["manifest"])
            self.answer({"collection": manifest.collection, "triples": manifest.triples, "dry_run": True})
            self.tell(
                f"{counted(manifest.triples, 'triple')} of {manifest.collection} would be loaded; "
                "the file is sound"
            )
            return
        with self.progress("importing", "collections"):
            done = operations.importing.import_export(options["manifest"], options["collection"])
        self.answer(done.summary())
        self.tell(
            f"{counted(done.triples, 'triple')} loaded into {done.collection}, which ends at commit {done.head}"
        )
        if not done.complete:
            finish([f"{done.collection}: the graph is imported; index or statistics still wait for repairs"])
