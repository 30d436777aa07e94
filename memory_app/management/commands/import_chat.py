"""`manage.py import_chat`: brings a chat from elsewhere into a memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from tqdm import tqdm

from charactermemory.domain.counted import counted
from memory_app.chat_import.formats import ChatSession, read_jsonl, read_locomo
from memory_app.chat_import.importer import ImportReport, import_chat
from memory_app.management.base import MemoryCommand, add_collection
from memory_app.runtime import open_memory


class Command(MemoryCommand):
    """Import a chat file; importing it again, grown or not, adds only what is new."""

    help = (
        "Import a chat: one session an episode, one turn an observation. A file imported before, and appended "
        "to since, brings only its new turns; an interrupted import goes on where it ended."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        parser.add_argument("file", type=Path, help="the chat")
        add_collection(parser, "the memory to import into; created if it is not there")
        parser.add_argument("--format", required=True, choices=("jsonl", "locomo"), help="the file's format")
        parser.add_argument(
            "--conversation", metavar="ID", help="which conversation, if a locomo file holds several"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Read the whole file, then import it."""
        sessions = self._read(options["file"], options["format"], options["conversation"])
        if not sessions:
            raise CommandError(f"{options['file']} holds no turn; nothing was imported")
        with open_memory(options["collection"]) as memory:
            turns = sum(len(session.turns) for session in sessions)
            with tqdm(total=turns, unit=" turns", desc="importing", disable=None, leave=False) as bar:
                report = import_chat(memory, sessions, bar.update)
        self._tell(report, options["collection"])

    @staticmethod
    def _read(path: Path, format: str, conversation: str | None) -> Sequence[ChatSession]:
        if conversation is not None and format != "locomo":
            raise CommandError("--conversation chooses within a locomo file; leave it out for jsonl")
        try:
            return read_locomo(path, conversation) if format == "locomo" else read_jsonl(path)
        except OSError as error:
            raise CommandError(f"{path} cannot be read: {error.strerror or error}") from error

    def _tell(self, report: ImportReport, collection: str) -> None:
        self.stdout.write(
            f"{counted(report.sessions, 'session')}: {report.new_sessions} new, "
            f"{report.sessions - report.new_sessions} already there"
        )
        self.stdout.write(
            f"{counted(report.turns, 'turn')}: {report.new_turns} new, "
            f"{report.turns - report.new_turns} already there"
        )
        if report.owed:
            self.stderr.write(
                f"{counted(report.owed, 'object')} stored but not indexed; import again, or run "
                f"manage.py memory_rebuild_vectors --collection {collection}"
            )
