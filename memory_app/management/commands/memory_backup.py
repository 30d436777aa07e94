"""`manage.py memory_backup`: copies the stores while they serve."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from memory_app import operations
from memory_app.management.operating import OperatorCommand, add_collections, chosen, finish


class Command(OperatorCommand):
    """Back collections up: index first, graph last, so that what is restored only has to catch up."""

    help = (
        "Copy the stores of each collection into <folder>/<name>/. Statistics and repairs are rows of the "
        "host's database: back that up first. Embedded stores can be copied only by the process that has them "
        "open, or while none has."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        super().add_arguments(parser)
        parser.add_argument(
            "folder",
            type=Path,
            help="where the copies go, outside of the stores' folders; created if need be",
        )
        add_collections(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Back each collection up."""
        with self.progress("copying", "collections") as bar:

            def copy(name: str) -> operations.backup.BackedUp:
                done = operations.backup.backup(name, options["folder"])
                bar.update()
                return done

            results, problems = self.each(chosen(options), copy)
        self.answer({"backups": [result.summary() for result in results], "errors": problems})
        for result in results:
            summary = result.summary()
            self.tell(f"{result.collection}: graph {summary['graph']}, vectors {summary['vectors']}")
        finish(problems)
