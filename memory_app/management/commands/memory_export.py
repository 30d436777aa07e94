"""`manage.py memory_export`: writes collections as TriG files with manifests."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from charactermemory.domain.counted import counted
from memory_app import operations
from memory_app.management.operating import OperatorCommand, add_collections, chosen, finish


class Command(OperatorCommand):
    """Export collections whole: every object, link, event and receipt."""

    help = (
        "Write each collection's graph as <name>.trig and <name>.manifest.json. Two exports are byte-equal."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        super().add_arguments(parser)
        parser.add_argument("folder", type=Path, help="where the files go; created if need be")
        add_collections(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Export each collection."""
        with self.progress("exporting", "triples") as bar:
            results, problems = self.each(
                chosen(options),
                lambda name: operations.exporting.export(name, options["folder"], bar.update),
            )
        self.answer({"exports": [asdict(result) for result in results], "errors": problems})
        for result in results:
            self.tell(f"{result.collection}: {counted(result.triples, 'triple')}, SHA-256 {result.sha256}")
        finish(problems)
