"""What the app's commands share: how a memory is opened and how its errors are told."""

from __future__ import annotations

import io
import os
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError
from pydantic import ValidationError

from charactermemory import CharacterMemory, CharacterMemoryError
from charactermemory.domain.model import invalid_input
from memory_app.operations import opening
from memory_app.runtime import open_memory, why_not

INTERRUPTED = 130
"""Exit code of what SIGINT has ended, as shells have it: 128 + 2."""


class MemoryCommand(BaseCommand):
    """A command on one collection. What goes wrong in the memory becomes one line, without a traceback."""

    def __init__(self, *args: Any, **options: Any) -> None:
        for name in ("stdout", "stderr"):
            if getattr(sys, name) is None:
                # Started with the stream closed (`>&-`). What is opened next gets its descriptor: let that be
                # nothing, and no store's file that something then prints into.
                setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - open as long as the process
        super().__init__(*args, **options)

    def execute(self, *args: Any, **options: Any) -> str | None:
        """Run the command.

        Raises:
            CommandError: with the message of whatever the memory, the database or the disk refused, or that
                somebody stopped it.
        """
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")  # memories may hold what a terminal cannot show
        try:
            return super().execute(*args, **options)
        except CharacterMemoryError as error:
            raise CommandError(str(error)) from error
        except ValidationError as error:
            raise CommandError(str(invalid_input(error))) from error
        except DatabaseError as error:
            raise CommandError(f"the database: {why_not(error)}") from error
        except KeyboardInterrupt:
            raise CommandError(
                "stopped; what was done stays, and the same command goes on from there or begins again",
                returncode=INTERRUPTED,
            ) from None
        except BrokenPipeError:
            # Whoever read has seen enough; what is still buffered must not be written at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(1) from None
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            raise CommandError(f"{where}{error.strerror or error}") from error


def add_collection(parser: CommandParser, purpose: str) -> None:
    """Add the required `--collection`."""
    parser.add_argument("--collection", required=True, metavar="NAME", help=purpose)


def open_existing(collection: str) -> CharacterMemory:
    """Open a collection that is there already; nothing is created for a name that is not.

    Raises:
        CommandError: there is no such collection; lists those that are.
        CharacterMemoryError: see `CharacterMemory.open`.
    """
    try:
        opening.require_stored(collection)
    except opening.Refused as refused:
        raise CommandError(str(refused)) from None
    return open_memory(collection)
