"""`manage.py memory_rebuild_vectors`: fills a collection's vector index anew from its graph."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from charactermemory.domain.counted import counted
from memory_app import operations
from memory_app.management.base import add_collection
from memory_app.management.operating import OperatorCommand


class Command(OperatorCommand):
    """Rebuild the vector index of one collection."""

    help = (
        "Fill a new vector index from the graph and switch to it; needed after the embedding model, its "
        "dimension or LANGUAGE changed. The old index serves until the switch. A rebuild that was interrupted "
        "is gone on with when it is run again."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        super().add_arguments(parser)
        add_collection(parser, "the memory whose index is rebuilt")
        parser.add_argument("--dry-run", action="store_true", help="only count what would be read")
        parser.add_argument(
            "--anew", action="store_true", help="keep nothing of a rebuild that was interrupted"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Rebuild, and fail if an object could not be indexed."""
        collection = options["collection"]
        if options["dry_run"]:
            counts = operations.rebuild.count_objects(collection)
            self.answer({"collection": collection, "dry_run": True, "objects": counts})
            self.tell(f"{counted(sum(counts.values()), 'object')} of {collection} would be read")
            return
        with self.progress("rebuilding", "objects") as bar:
            report = operations.rebuild.rebuild_vectors(collection, bar.update, options["anew"])
        self.answer(report.summary())
        if report.failed:
            shown = ", ".join(map(str, report.failed[:5])) + (" …" if len(report.failed) > 5 else "")
            raise CommandError(
                f"{len(report.failed)} of {counted(report.objects, 'object')} could not be indexed ({shown}); the "
                "new index serves without them and the next sweep tries them again"
            )
        kept = f", {report.kept} of them embedded by the interrupted rebuild" if report.kept else ""
        self.tell(f"{counted(report.objects, 'object')} read{kept}; the new index of {collection} serves")
