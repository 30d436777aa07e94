"""Rebuild: fill a derived store anew from the graph, beside the one that serves (consistency.md R10a)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack

from charactermemory.domain.lifecycle import References, Stored
from charactermemory.domain.model import Model
from charactermemory.ids import MemoryObjectRef
from charactermemory.ports.graph import GraphStore
from charactermemory.ports.statistics import Projection
from charactermemory.ports.stores import Stores
from charactermemory.ports.vectors import VectorRebuild
from charactermemory.upkeep.derive import read_ends
from charactermemory.upkeep.indexing import index, synced_head
from charactermemory.upkeep.projection import MissingEnds, project
from charactermemory.upkeep.reading import PAGE, pages, readable, sliced

LAST_STRETCH = 100
"""Objects left to catch up when the switch is made with commits or derives held up (consistency.md R10a)."""

Progress = Callable[[int], None]
"""Called with the number of objects done since the last call."""


class RebuildReport(Model):
    """What a rebuild came to.

    Attributes:
        objects: objects and links that were looked at.
        kept: objects that an interrupted rebuild had already written.
        failed: objects that are missing from the new index until a sweep, which walks anew.
    """

    objects: int = 0
    kept: int = 0
    failed: References = ()


def projections(graph: GraphStore, refs_by_page: Iterable[list[MemoryObjectRef]]) -> Iterator[Projection]:
    """Yield the projection of each page of references; left out is what cannot be read (verify reports it)."""
    for refs in refs_by_page:
        yield projected(graph, readable(graph, refs)[0])


def projected(graph: GraphStore, stored: Mapping[MemoryObjectRef, Stored]) -> Projection:
    """Return the projection of stored objects; left out is what rests on objects that the graph lacks."""

    def read(refs: Collection[MemoryObjectRef]) -> dict[MemoryObjectRef, Stored]:
        others = [ref for ref in refs if ref not in stored]
        found = readable(graph, others)[0] if others else {}
        return found | {ref: stored[ref] for ref in refs if ref in stored}

    try:
        return project(stored.values(), read_ends(read, stored))
    except MissingEnds as missing:
        return missing.projection


def rebuild_statistics(stores: Stores) -> int:
    """Fill the statistics from the graph and make them healthy; return the commit they now reflect.

    Commits go on meanwhile; the store writes what they project into the old rows and the new ones.

    Raises:
        StoreError: a store could not be read or written; the old rows stay.
    """
    started = stores.graph.head()
    stores.statistics.rebuild(_everything(stores), started)
    stores.statistics_ledger.swept(started)
    if not stores.shared:
        stores.statistics.advance(stores.statistics_ledger.applied())
    return stores.statistics.cursor().applied


def _everything(stores: Stores) -> Iterator[Projection]:
    """Yield the projections of all that is stored; in the end, say how much of the graph was seen.

    Commits land while it is read. What was seen of them is made durable before the rows take over that rest on it,
    and the store's `high` covers it, as in every derive.
    """
    yield from projections(stores.graph, pages(stores.graph))
    stores.statistics.apply(Projection((), ()), synced_head(stores))


def rebuild_vectors(
    stores: Stores, progress: Progress = lambda done: None, anew: bool = False
) -> RebuildReport:
    """Fill a new index generation from the graph, catch up with commits made meanwhile, and switch to it.

    The old generation serves, and goes on being derived, until the switch. With several processes that is
    made while no one may write the graph. A rebuild that was interrupted is gone on with: what it embedded
    need not be embedded again, unless `anew`.

    Raises:
        StoreError: the graph could not be read or the switch failed; the old generation stays.
    """
    rebuild = stores.vectors.begin_rebuild(anew)
    failed: set[MemoryObjectRef] = set()
    done = kept = 0

    def fill(refs: list[MemoryObjectRef], late: bool = False) -> None:
        nonlocal done, kept
        report = index(stores, rebuild, refs)
        left = {ref for failure in report.failures for ref in failure.objects}
        if len(left) > 1:  # one poison text must not hold up the rest of its page (decisions "To R5")
            left = {ref for ref in sorted(left) if index(stores, rebuild, [ref]).failures}
        failed.difference_update(refs)
        failed.update(left)
        done += len(refs)
        kept += 0 if late else len(set(report.indexed) - set(report.changed))
        progress(len(refs))

    try:
        reflected = stores.graph.head()
        for refs in pages(stores.graph):
            fill(refs)
        _remove_strangers(stores, rebuild)
        while True:
            upto = stores.graph.head()
            late = _touched(stores.graph, reflected, upto)
            if len(late) < LAST_STRETCH:
                break
            for refs in sliced(late):
                fill(refs, late=True)
            reflected = upto
        with ExitStack() as last:
            if stores.shared:
                last.enter_context(stores.graph.writing())
            last.enter_context(stores.deriving)
            upto = stores.graph.head()
            for refs in sliced(_touched(stores.graph, reflected, upto)):
                fill(refs, late=True)
            rebuild.switch(0 if failed else upto)
            if failed:
                stores.vector_ledger.restart()
            else:
                stores.vector_ledger.swept(upto)
    except BaseException:
        rebuild.leave()
        raise
    return RebuildReport(objects=done, kept=kept, failed=tuple(sorted(failed)))


def _remove_strangers(stores: Stores, rebuild: VectorRebuild) -> None:
    """Delete the points of objects that the graph has not: it may have gone back since they were written."""
    after: str | None = None
    while True:
        page, after = rebuild.scan(after, PAGE)
        refs = [ref for ref, _ in page]
        high = synced_head(stores)
        stored = stores.graph.existing(refs, anew=True)
        rebuild.write((), [ref for ref in refs if ref not in stored], high)
        if after is None:
            return


def _touched(graph: GraphStore, after: int, upto: int) -> list[MemoryObjectRef]:
    return sorted({ref for receipt in graph.receipts(after, upto) for ref in receipt.objects})
