"""`manage.py recall`: asks a memory a question and shows what comes back."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from charactermemory import RetrievalContext
from charactermemory.domain.counted import counted
from charactermemory.domain.model import says_nothing
from charactermemory.errors import VectorDatabaseError
from charactermemory.ports.stores import Stores
from charactermemory.recall.context import SECTION_MAX, SectionLimits
from memory_app.management.base import MemoryCommand, add_collection, open_existing
from memory_app.presentation import recollect
from memory_app.terminal import Layout


class Command(MemoryCommand):
    """Ask one question of one collection."""

    help = "Ask a memory a question; shows what comes back and why, and what was left out and why."

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        parser.add_argument("question", help="the topic, in words")
        add_collection(parser, "the memory to ask")
        parser.add_argument("--json", action="store_true", help="print the whole outcome as JSON")
        parser.add_argument("--trace", action="store_true", help="also tell every step")
        parser.add_argument(
            "--limit",
            type=int,
            default=3,
            metavar="N",
            help="at most N memories in each section of the pack (default 3)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Ask, and print the answer."""
        if not 1 <= options["limit"] <= SECTION_MAX:
            raise CommandError(f"--limit is a number from 1 to {SECTION_MAX}, not {options['limit']}")
        if says_nothing(options["question"]):
            raise CommandError("the question is blank; ask in words")
        context = RetrievalContext(
            topic=options["question"],
            section_limits=SectionLimits(**dict.fromkeys(SectionLimits.model_fields, options["limit"])),
            include_trace=options["trace"],
        )
        with open_existing(options["collection"]) as memory:
            outcome = memory.retrieve(context)
            if options["json"]:
                self.stdout.write(outcome.to_json())
                return
            layout = Layout(self.style, timezone.now())
            self.stdout.write(layout.heading(options["question"], options["collection"]))
            for line in layout.answer(recollect(memory, outcome)):
                self.stdout.write(line)
            self._tell_lag(memory.stores)
            if outcome.trace:
                for line in layout.trace(outcome.trace):
                    self.stdout.write(line)

    def _tell_lag(self, stores: Stores) -> None:
        """Tell of commits that the index lost or never had; on servers it lags a minute behind as a rule."""
        head = stores.graph.head()
        try:
            behind = head - stores.vectors.cursor().applied
        except VectorDatabaseError:
            return  # the answer tells that there is no index
        if behind > 0 and not stores.shared:
            self.stderr.write(
                f"{counted(behind, 'commit')} not known to be indexed, so the answer may lack what is in them; "
                "manage.py memory_repair sees to it"
            )
