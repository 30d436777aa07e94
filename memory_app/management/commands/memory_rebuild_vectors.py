"""`manage.py memory_rebuild_vectors`: fills a collection's vector index anew from its graph."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser
from tqdm import tqdm

from memory_app.management.base import MemoryCommand, add_collection, open_existing


class Command(MemoryCommand):
    """Rebuild the vector index of one collection."""

    help = (
        "Fill a new vector index from the graph and switch to it; needed after the embedding model, its "
        "dimension or LANGUAGE changed. The old index serves until the switch."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        add_collection(parser, "the memory whose index is rebuilt")

    def handle(self, *args: Any, **options: Any) -> None:
        """Rebuild, and fail if an object could not be indexed."""
        collection = options["collection"]
        with open_existing(collection, for_rebuild=True) as memory:
            with tqdm(unit=" objects", desc="rebuilding", disable=None, leave=False) as bar:
                report = memory.upkeep.rebuild_vectors(bar.update)
        if report.failed:
            shown = ", ".join(map(str, report.failed[:5])) + (" …" if len(report.failed) > 5 else "")
            raise CommandError(
                f"{len(report.failed)} of {report.objects} objects could not be indexed ({shown}); the new "
                "index serves without them and the next sweep tries them again"
            )
        self.stdout.write(f"{report.objects} objects read, the new index of {collection} serves")
