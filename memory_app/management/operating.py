"""What the operators' commands share: JSON, progress, and an exit code that tells a partial failure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.core.management.base import CommandError, CommandParser
from tqdm import tqdm

from charactermemory.errors import CharacterMemoryError
from memory_app.management.base import MemoryCommand
from memory_app.operations import opening


class OperatorCommand(MemoryCommand):
    """A command for operators: `--json` prints one JSON document and nothing else on stdout.

    Exit code 1 tells that something was refused or left undone; what was done is printed all the same.
    """

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare `--json`."""
        parser.add_argument("--json", action="store_true", help="print one JSON document")

    def execute(self, *args: Any, **options: Any) -> str | None:
        """Run the command.

        Raises:
            CommandError: with the message of whatever was refused.
        """
        self.verbosity = int(options.get("verbosity", 1))
        self.as_json = bool(options.get("json"))
        try:
            return super().execute(*args, **options)
        except opening.Refused as refused:
            raise CommandError(str(refused)) from refused

    def tell(self, text: str, verbosity: int = 1) -> None:
        """Print a line for people; nothing with `--json`, or below its verbosity."""
        if not self.as_json and self.verbosity >= verbosity:
            self.stdout.write(text)

    def answer(self, value: Any) -> None:
        """Print the JSON document, if asked for."""
        if self.as_json:
            self.stdout.write(json.dumps(value, indent=2, sort_keys=True, default=str))

    @contextmanager
    def progress(self, what: str, unit: str) -> Iterator[tqdm]:
        """Show a bar on stderr while something goes on, if a person looks on."""
        quiet = True if self.verbosity == 0 or self.as_json else None
        with tqdm(unit=f" {unit}", desc=what, disable=quiet, leave=False) as bar:
            yield bar

    def each(self, names: tuple[str, ...], deed: Any) -> tuple[list[Any], list[str]]:
        """Do `deed` for each collection; one that fails holds up no other. Return results and messages."""
        results, problems = [], []
        for name in names:
            try:
                results.append(deed(name))
            except (CharacterMemoryError, opening.Refused) as error:
                problems.append(f"{name}: {error}")
        return results, problems


def add_collections(parser: CommandParser) -> None:
    """Add `--collection`, which may be repeated, and stands for all where it is not given."""
    parser.add_argument(
        "--collection",
        action="append",
        dest="collections",
        metavar="NAME",
        help="only this collection; may be repeated; all if not given",
    )


def chosen(options: dict[str, Any]) -> tuple[str, ...]:
    """Return the collections asked for.

    Raises:
        Refused: one of them is not there.
    """
    wanted = tuple(dict.fromkeys(options["collections"] or opening.names()))
    opening.require(*wanted)
    return wanted


def finish(problems: list[str]) -> None:
    """End with exit code 1 if anything was left undone."""
    if problems:
        raise CommandError("\n".join(problems))
