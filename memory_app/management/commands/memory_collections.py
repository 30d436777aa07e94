"""`manage.py memory_collections`: lists the collections with sizes, fingerprints, endpoints and backlog."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from charactermemory.domain.counted import counted
from memory_app import operations
from memory_app.management.operating import OperatorCommand, add_collections, chosen, finish


class Command(OperatorCommand):
    """List collections; exit code 1 if one cannot be opened."""

    help = "List the collections: commits, indexed points, backlog, repairs, embedding fingerprint, endpoint."

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        super().add_arguments(parser)
        add_collections(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Describe each collection."""
        described = operations.collections.describe_all(chosen(options))
        self.answer({"collections": [item.summary() for item in described]})
        if not described:
            self.tell("There is no collection yet.")
        for item in described:
            state = (
                f"cannot be opened: {item.detail}"
                if item.error
                else (
                    f"{counted(item.head or 0, 'commit')}, {counted(item.points or 0, 'point')}, "
                    f"backlog {counted(item.vector_backlog or 0, 'vector')} "
                    f"{item.statistics_backlog} statistics ({item.statistics})"
                )
            )
            repairs = ", ".join(f"{count} {status}" for status, count in sorted(item.repairs.items()))
            self.tell(f"{item.name}{' (archived)' if item.archived else ''}: {state}")
            self.tell(f"  repairs: {repairs or 'none'}; made with {item.embedding_fingerprint or 'unknown'}")
            if item.endpoint:
                self.tell(f"  graph at {item.endpoint}", verbosity=2)
        finish([f"{item.name}: {item.error}" for item in described if item.error])
