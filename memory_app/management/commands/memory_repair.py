"""`manage.py memory_repair`: sweeps, repairs what is due, requeues, cancels, prunes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError, CommandParser

from charactermemory.domain.counted import counted
from memory_app import operations
from memory_app.management.operating import OperatorCommand, add_collections, chosen, finish
from memory_app.models import RepairMarker


class Command(OperatorCommand):
    """Catch the derived stores up with the graph and work off the queue of repairs, once."""

    help = (
        "Sweep the collections that are not archived and repair what is due, then end; for cron where neither "
        "Celery nor a thread repairs. With --requeue, --cancel or --prune only that is done."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        super().add_arguments(parser)
        add_collections(parser)
        parser.add_argument("--limit", type=int, metavar="N", help="repair at most so many rows")
        deeds = parser.add_mutually_exclusive_group()
        deeds.add_argument("--dry-run", action="store_true", help="only count what waits")
        deeds.add_argument("--requeue", action="store_true", help="ask for dead and cancelled rows again")
        deeds.add_argument("--cancel", action="store_true", help="give up waiting and dead rows")
        deeds.add_argument(
            "--prune",
            action="store_true",
            help="delete settled repairs, old retrieval events and expired idempotency keys",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Do what was asked, and fail if dead rows are left."""
        if options["limit"] is not None and options["limit"] < 1:
            raise CommandError("--limit: expected a number of rows from 1")
        if options["prune"]:
            removed = operations.repair.prune()
            self.answer({"pruned": removed})
            self.tell(f"{counted(removed, 'row')} deleted")
            return
        names = chosen(options)
        rows = RepairMarker.objects.filter(collection__in=names)
        if options["requeue"] or options["cancel"]:
            deed = operations.repair.requeue if options["requeue"] else operations.repair.cancel
            word = "requeued" if options["requeue"] else "cancelled"
            count = deed(rows)
            self.answer({word: count})
            self.tell(f"{counted(count, 'repair')} {word}")
        elif options["dry_run"]:
            self._tell_standing(names, {})
        else:
            self._work(names, options["limit"])

    def _work(self, names: tuple[str, ...], limit: int | None) -> None:
        in_use = operations.opening.names(archived=False)
        swept = operations.repair.sweep(name for name in names if name in in_use)
        left, total = (
            limit,
            dict.fromkeys(("claimed", "succeeded", "retried", "dead", "deferred", "cancelled"), 0),
        )
        for name in names:
            report = operations.repair.run_due(collection=name, limit=left)
            for key, value in asdict(report).items():
                total[key] += value
            if left is not None:
                left -= report.claimed
                if left <= 0:
                    break
        unswept = [name for name, report in swept.items() if report is None]
        standing = self._tell_standing(names, total | {"unswept": unswept})
        problems = [f"{name}: not swept now; see the log" for name in unswept]
        if standing["dead"]:
            problems.append(f"dead repairs: {standing['dead']}; see them in the admin, or --requeue them")
        if standing["pending"] and limit is None:
            problems.append(f"repairs that still wait: {standing['pending']}")
        finish(problems)

    def _tell_standing(self, names: tuple[str, ...], done: dict[str, Any]) -> dict[str, int]:
        rows = RepairMarker.objects.filter(collection__in=names)
        standing = {status: rows.filter(status=status).count() for status in RepairMarker.Status.values}
        self.answer({**done, "standing": standing})
        if done:
            self.tell(f"{counted(done['claimed'], 'repair')} tried, {done['succeeded']} succeeded")
        self.tell(", ".join(f"{count} {status}" for status, count in standing.items()))
        return standing
