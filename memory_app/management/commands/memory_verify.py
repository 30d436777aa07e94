"""`manage.py memory_verify`: compares the graph with index and statistics, both ways."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from charactermemory.domain.counted import counted
from memory_app import operations
from memory_app.management.operating import OperatorCommand, add_collections, chosen, finish


class Command(OperatorCommand):
    """Verify collections, in bounded memory; exit code 1 if something differs."""

    help = "Walk the graph against vectors and statistics, both ways. --repair sets right what differs."

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        super().add_arguments(parser)
        add_collections(parser)
        parser.add_argument(
            "--repair", action="store_true", help="set right what differs, then compare again"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Verify each collection."""
        with self.progress("verifying", "collections") as bar:

            def check(name: str) -> operations.verify.Verified:
                done = operations.verify.verify(name, repair=options["repair"])
                bar.update()
                return done

            results, problems = self.each(chosen(options), check)
        summaries = [result.summary() for result in results]
        self.answer(
            {
                "differences": sum(summary["differences"] for summary in summaries),
                "collections": summaries,
                "errors": problems,
            }
        )
        for result, summary in zip(results, summaries, strict=True):
            self.tell(
                f"{result.collection}: {counted(summary['objects'], 'object')}, "
                f"{counted(summary['points'], 'point')}, "
                f"{counted(summary['differences'], 'difference')}"
                + (f" ({summary['found']} before the repair)" if result.after else "")
            )
            for line in summary["first"]:
                self.tell(f"  {line}")
            if not result.clean:
                hint = "" if options["repair"] else "; --repair sets right what differs"
                problems.append(f"{result.collection}: {counted(summary['differences'], 'difference')}{hint}")
        finish(problems)
