"""For operators: how the derived stores stand, and what waits to be repaired."""

from __future__ import annotations

from django.db.models import Count, Min, QuerySet

from memory_app.api.actions import Action
from memory_app.api.answers import DerivedStore, RepairAnswer, RepairPage, RepairSummary, StatisticsAnswer
from memory_app.api.base import MemoryView
from memory_app.api.cursors import seal, unseal
from memory_app.api.operation import Answer, Call, operation
from memory_app.api.problems import Conflict, NotFound
from memory_app.api.queries import RepairsQuery
from memory_app.models import RepairMarker
from memory_app.operations import repair as operations

TAG = "Operate"


class StatisticsView(MemoryView):
    """Where everything stands."""

    @operation(id="get_statistics", tag=TAG, action=Action.READ, answers={200: StatisticsAnswer})
    def get(self, call: Call) -> StatisticsAnswer:
        """Tell where the memory and what is derived from it stand."""
        stores = call.memory.stores
        head = stores.graph.head()
        vectors, statistics = stores.vectors.cursor(), stores.statistics.cursor()
        return StatisticsAnswer(
            head=head,
            vectors=DerivedStore(applied=vectors.applied, lag=max(0, head - vectors.applied)),
            indexed=stores.vectors.count(),
            statistics=DerivedStore(applied=statistics.applied, lag=max(0, head - statistics.applied)),
            statistics_state=stores.statistics.health(head).state,
        )


class RepairsView(MemoryView):
    """The queue."""

    @operation(
        id="list_repairs", tag=TAG, action=Action.OPERATE, query=RepairsQuery, answers={200: RepairPage}
    )
    def get(self, call: Call) -> RepairPage:
        """List the repairs, the newest first."""
        query: RepairsQuery = call.query
        place, filters = f"repairs:{call.collection.name}", [query.status, query.store]
        rows = _rows(call)
        for name in ("status", "store"):
            if getattr(query, name) is not None:
                rows = rows.filter(**{name: getattr(query, name)})
        last = unseal(place, filters, query.cursor)
        if last is not None:
            rows = rows.filter(id__lt=last)
        found = list(rows.order_by("-id")[: query.limit + 1])
        shown = found[: query.limit]
        return RepairPage(
            results=tuple(RepairAnswer.of(row) for row in shown),
            next=seal(place, filters, shown[-1].pk) if len(found) > len(shown) else None,
        )


class RepairSummaryView(MemoryView):
    """The queue in numbers."""

    @operation(id="get_repair_summary", tag=TAG, action=Action.OPERATE, answers={200: RepairSummary})
    def get(self, call: Call) -> RepairSummary:
        """Tell how many repairs are in each state, and since when the longest waiting one waits."""
        counts = _rows(call).order_by().values_list("status").annotate(Count("id"))
        waiting = _rows(call).filter(status__in=RepairMarker.OPEN).aggregate(since=Min("due_since"))
        return RepairSummary(**dict(counts), waiting_since=waiting["since"])


class ReplayView(MemoryView):
    """Asking for a repair again."""

    @operation(
        id="replay_repair", tag=TAG, action=Action.OPERATE, answers={202: RepairAnswer}, errors=(404, 409)
    )
    def post(self, call: Call, repair: str) -> Answer:
        """Have a dead or cancelled repair done again, and a waiting one now.

        A repair makes the derived store equal to the graph, so that doing it twice does no harm.
        """
        row = _row(call, repair)
        if row.status == RepairMarker.Status.SUCCEEDED:
            raise Conflict("This repair succeeded.", "repair_succeeded")
        operations.replay(_rows(call).filter(pk=row.pk))
        return Answer(RepairAnswer.of(_row(call, repair)), 202)


class CancelView(MemoryView):
    """Giving a repair up."""

    @operation(
        id="cancel_repair", tag=TAG, action=Action.OPERATE, answers={200: RepairAnswer}, errors=(404, 409)
    )
    def post(self, call: Call, repair: str) -> RepairAnswer:
        """Give up a waiting or dead repair; a sweep asks again if the object is still not as it should be."""
        row = _row(call, repair)
        operations.cancel(_rows(call).filter(pk=row.pk))
        row = _row(call, repair)
        if row.status != RepairMarker.Status.CANCELLED:
            raise Conflict(f"This repair is {row.status}.", "repair_not_waiting")
        return RepairAnswer.of(row)


def _rows(call: Call) -> QuerySet[RepairMarker]:
    return RepairMarker.objects.filter(collection=call.collection.name)


def _row(call: Call, repair: str) -> RepairMarker:
    number = int(repair) if repair.isascii() and repair.isdigit() and len(repair) < 19 else 0
    row = _rows(call).filter(pk=number).first()
    if row is None:
        raise NotFound("There is no such repair in this collection.", "repair_not_found")
    return row
