"""`manage.py quickstart`: a sample companion's life, remembered for real, and a few questions to it."""

from __future__ import annotations

import textwrap
from argparse import ArgumentTypeError
from datetime import datetime
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.urls import reverse
from tqdm import tqdm

from charactermemory import CharacterMemory
from charactermemory.domain.counted import counted
from memory_app.conf import given_mapping
from memory_app.management.base import MemoryCommand
from memory_app.presentation import recollect
from memory_app.quickstart.account import Access, give_access, make_tables
from memory_app.quickstart.asking import context_of, essence
from memory_app.quickstart.living import LifeClock, Lived, is_anothers, live
from memory_app.quickstart.serving import PortTaken, Server, address
from memory_app.runtime import close_memories, open_memory
from memory_app.sample.life import SampleLife
from memory_app.sample.loader import load_life
from memory_app.terminal import Layout


class Command(MemoryCommand):
    """Live the sample life, ask its questions, then serve it; a second run finds everything there."""

    help = (
        "Remember a sample companion's life in a memory of its own, ask it questions, show what comes back and "
        "why, and serve it over HTTP on this machine. Needs no key and no network; running it again finds "
        "everything there."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        parser.add_argument("--no-serve", action="store_true", help="end after the answers")
        parser.add_argument(
            "--port",
            type=_port,
            default=8000,
            help="where to serve on 127.0.0.1 (default: 8000; 0: any free one)",
        )
        parser.add_argument(
            "--collection", default="quickstart", metavar="NAME", help="the memory (default: quickstart)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Live, ask, serve."""
        if options["no_serve"]:
            self._show(options["collection"])
            self._go_on(options["collection"])
            return
        if address("memory_app:docs") is None:
            raise CommandError(
                'Nothing to serve: the project\'s URLs lack path("api/v1/", include("memory_app.urls")). Without '
                "serving: --no-serve."
            )
        try:
            server = Server(options["port"])
        except PortTaken as error:
            raise CommandError(
                f"cannot serve on port {options['port']}: {error.strerror}. Choose another by --port, or none by "
                "--no-serve."
            ) from error
        with server:
            self._show(options["collection"])
            self._welcome(server, options["collection"], give_access(options["collection"]))
            server.serve()
        close_memories()
        self.stdout.write("\nStopped; a further run finds everything there.")

    def _show(self, collection: str) -> None:
        life = load_life()
        clock = LifeClock(life.beginning.time)
        # Whatever the environment says, the quickstart needs no key and no network (decisions.md "To R7"), also
        # when it serves.
        offline = {"EMBEDDING_PROVIDER": "wordllama", "EMBEDDING_PROVIDER_FACTORY": None}
        settings.CHARACTER_MEMORY = {**given_mapping(), **offline}
        make_tables()
        with open_memory(collection, clock=clock) as memory:
            if is_anothers(memory, life):
                raise CommandError(
                    f"collection {collection!r} holds a memory already, and the sample life would stay in it for "
                    "good; choose a new name by --collection"
                )
            memory.upkeep.sweep()
            with tqdm(
                total=len(life.sessions), unit=" sessions", desc="remembering", disable=None, leave=False
            ) as bar:
                lived = live(memory, life, clock, bar.update)
            self._tell(life, lived, collection)
            self._ask(memory, life)

    def _tell(self, life: SampleLife, lived: Lived, collection: str) -> None:
        self.stdout.write(
            f"The life of {life.character.name}: {counted(len(life.sessions), 'session')} from "
            f"{_day(life.sessions[0].time)} to {_day(life.sessions[-1].time)}, in collection {collection!r}."
        )
        if lived.nothing:
            self.stdout.write("Everything is there already, nothing was imported.")
        else:
            self.stdout.write(
                f"Remembered: {counted(lived.sessions, 'session')} with {counted(lived.turns, 'turn')}; "
                f"corrections: {lived.corrections}; forgettings: {lived.forgettings}."
            )
        if lived.owed:
            self.stderr.write(
                f"{counted(lived.owed, 'object')} stored but not indexed; run the quickstart again."
            )

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

    def _welcome(self, server: Server, collection: str, access: Access) -> None:
        password = f"password {access.password}"
        if access.password is None:
            password = f"password as the first run showed it, or: manage.py changepassword {access.username}"
        lines = [f"\nServing at {server.url} until Ctrl-C:"]
        if (admin := address("admin:index")) is not None:
            lines.append(f"  admin    {server.url}{admin}  (user {access.username}, {password})")
        asked = f"{reverse('memory_app:retrieve', args=[collection])}?format=prompt&budget=300"
        lines += [
            f"  API      {server.url}{address('memory_app:docs')}",
            f"  API key  {access.key}  (for 30 days; every run gives a new one)",
            "\nAsk it something:",
            f"  curl -s '{server.url}{asked}' \\",
            f"    -H 'Authorization: Bearer {access.key}' -H 'Content-Type: application/json' \\",
            """    -d '{"topic": "What did I promise Hanne?"}'\n""",
        ]
        self.stdout.write("\n".join(lines))
        self.stdout.flush()

    def _go_on(self, collection: str) -> None:
        self.stdout.write(
            "\nGo on:\n"
            f'  python manage.py recall "your question" --collection {collection}\n'
            "  python manage.py import_chat FILE --format jsonl --collection NAME\n"
            "README.md shows the same from Python."
        )


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65_535:
        raise ArgumentTypeError(f"expected a number from 0 to 65535, not {text!r}")
    return int(text)


def _day(time: datetime) -> str:
    return f"{time.day} {time:%B %Y}"
