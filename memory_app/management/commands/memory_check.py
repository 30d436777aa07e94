"""`manage.py memory_check`: the app's system checks, then whether every store answers."""

from __future__ import annotations

from typing import Any

from django.core import checks
from django.core.management.base import CommandParser

from charactermemory.composition import probe_endpoint
from memory_app import health
from memory_app.management.operating import OperatorCommand, add_collections, chosen, finish
from memory_app.operations import collections
from memory_app.repairs import queue


class Command(OperatorCommand):
    """Check settings, stores and backlog; exit code 1 if something is wrong."""

    help = "Run the app's system checks, open every collection, and look at backlog and repairs."

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        super().add_arguments(parser)
        add_collections(parser)
        parser.add_argument(
            "--endpoint",
            metavar="URL",
            help="only probe this SPARQL endpoint: whether a memory may be kept there",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Check, and say what is wrong."""
        if options["endpoint"]:
            self._probe(options["endpoint"])
            return
        messages = [
            message
            for message in checks.run_checks(databases=[queue.database()])
            if str(message.id or "").startswith("memory_app.")
        ]
        described = collections.describe_all(chosen(options))
        standing = health.report()
        problems = [str(message) for message in messages if message.is_serious()]
        problems += [f"{item.name} cannot be opened: {item.detail}" for item in described if item.error]
        problems += [
            f"the statistics of {item.name} are unhealthy; run memory_rebuild_statistics"
            for item in described
            if item.statistics == "unhealthy"
        ]
        problems += [
            f"{name}: {value.detail}" if value.detail else name
            for name, value in standing.checks.items()
            if not value.ok
        ]
        self.answer(
            {
                "checks": [{"id": message.id, "message": message.msg} for message in messages],
                "collections": [item.summary() for item in described],
                "health": standing.as_json(),
                "problems": problems,
            }
        )
        for message in messages:
            self.tell(str(message))
        for item in described:
            self.tell(f"{item.name}: {item.detail or 'answers'}")
        for name, value in standing.checks.items():
            self.tell(f"{name}: {'ok' if value.ok else 'WRONG'} {value.detail}".rstrip())
        finish(problems)

    def _probe(self, url: str) -> None:
        findings = probe_endpoint(url)
        self.answer({"findings": [finding.model_dump() for finding in findings]})
        for finding in findings:
            self.tell(f"{finding.experiment}: {'ok' if finding.fit else 'UNFIT'}, {finding.found}")
        finish([f"{finding.experiment}: {finding.found}" for finding in findings if not finding.fit])
