"""`manage.py memory_rebuild_statistics`: counts a collection's statistics anew from its graph."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from charactermemory.domain.counted import counted
from memory_app import operations
from memory_app.management.operating import OperatorCommand, add_collections, chosen, finish


class Command(OperatorCommand):
    """Rebuild the retrieval statistics, which makes unhealthy ones healthy."""

    help = "Fill the retrieval statistics anew from the graph. The old ones serve until the new are complete."

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        super().add_arguments(parser)
        add_collections(parser)
        parser.add_argument("--dry-run", action="store_true", help="only count what would be read")

    def handle(self, *args: Any, **options: Any) -> None:
        """Rebuild each collection."""
        names = chosen(options)
        if options["dry_run"]:
            results, problems = self.each(
                names, lambda name: {"collection": name, "objects": operations.rebuild.count_objects(name)}
            )
            for result in results:
                self.tell(
                    f"{result['collection']}: {counted(sum(result['objects'].values()), 'object')} would be read"
                )
        else:
            with self.progress("rebuilding", "collections") as bar:

                def rebuild(name: str) -> dict[str, Any]:
                    applied = operations.rebuild.rebuild_statistics(name)
                    bar.update()
                    return {"collection": name, "applied": applied}

                results, problems = self.each(names, rebuild)
            for result in results:
                self.tell(f"{result['collection']}: reflects commit {result['applied']}")
        self.answer({"collections": results, "errors": problems})
        finish(problems)
