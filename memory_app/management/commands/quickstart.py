"""`manage.py quickstart`: a sample companion's life, remembered for real, and a few questions to it."""

from __future__ import annotations

import textwrap
from datetime import datetime
from typing import Any

from django.core.management import call_command
from django.core.management.base import CommandParser
from tqdm import tqdm

from charactermemory import CharacterMemory
from memory_app.management.base import MemoryCommand
from memory_app.presentation import recollect
from memory_app.quickstart.asking import context_of, essence
from memory_app.quickstart.living import LifeClock, Lived, live
from memory_app.runtime import open_memory
from memory_app.sample.life import SampleLife
from memory_app.sample.loader import load_life
from memory_app.terminal import Layout


class Command(MemoryCommand):
    """Live the sample life, then ask its questions; a second run finds everything there."""

    help = (
        "Remember a sample companion's life in a memory of its own, then ask it questions and show what comes "
        "back and why. Needs no key, no server and no network; running it again finds everything there."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        parser.add_argument("--no-serve", action="store_true", help="end after the answers")
        parser.add_argument(
            "--collection", default="quickstart", metavar="NAME", help="the memory (default: quickstart)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Live, ask, and say how to go on."""
        life, collection = load_life(), options["collection"]
        clock = LifeClock(life.beginning.time)
        # Whatever the environment says, the quickstart needs no key and no network (decisions.md "To R7").
        overrides = {"EMBEDDING_PROVIDER": "wordllama", "EMBEDDING_PROVIDER_FACTORY": None}
        call_command("migrate", "memory_app", verbosity=0, interactive=False)
        with open_memory(collection, overrides=overrides, clock=clock) as memory:
            memory.upkeep.sweep()
            with tqdm(
                total=len(life.sessions), unit=" sessions", desc="remembering", disable=None, leave=False
            ) as bar:
                lived = live(memory, life, clock, bar.update)
            self._tell(life, lived, collection)
            self._ask(memory, life)
        if not options["no_serve"]:
            self._go_on(collection)

    def _tell(self, life: SampleLife, lived: Lived, collection: str) -> None:
        self.stdout.write(
            f"The life of {life.character.name}: {len(life.sessions)} sessions from "
            f"{_day(life.sessions[0].time)} to {_day(life.sessions[-1].time)}, in collection {collection!r}."
        )
        if lived.nothing:
            self.stdout.write("Everything is there already, nothing was imported.")
        else:
            self.stdout.write(
                f"Remembered: {lived.sessions} sessions with {lived.turns} turns; "
                f"corrections: {lived.corrections}; forgettings: {lived.forgettings}."
            )
        if lived.owed:
            self.stderr.write(f"{lived.owed} objects could not be indexed; run the quickstart again.")

    def _ask(self, memory: CharacterMemory, life: SampleLife) -> None:
        for number, question in enumerate(life.questions, start=1):
            layout = Layout(self.style, question.time)
            found = recollect(memory, memory.retrieve(context_of(question)))
            self.stdout.write("")
            self.stdout.write(layout.heading(question.topic, f"{number}/{len(life.questions)}"))
            shows = f"Asked on {_day(question.time)} at {question.time:%H:%M}; shows {question.shows}."
            self.stdout.write(textwrap.fill(shows, layout.columns))
            for line in layout.answer(essence(found)):
                self.stdout.write(line)

    def _go_on(self, collection: str) -> None:
        self.stdout.write(
            "\nGo on:\n"
            f'  python manage.py recall "your question" --collection {collection}\n'
            "  python manage.py import_chat FILE --format jsonl --collection NAME\n"
            "README.md shows the same from Python."
        )


def _day(time: datetime) -> str:
    return f"{time.day} {time:%B %Y}"
