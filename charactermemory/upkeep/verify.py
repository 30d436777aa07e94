"""Verify: walk the graph against both derived stores, both ways, and repair what differs.

Bounded memory: everything is read in pages. What commits under way have not derived yet counts as a
difference, so numbers are exact only while nobody writes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from pydantic import Field

from charactermemory.domain.digest import digest
from charactermemory.domain.lifecycle import References, Stored
from charactermemory.domain.model import Model
from charactermemory.errors import GraphWentBack, StoredConflict, StoreError
from charactermemory.ids import MemoryObjectRef
from charactermemory.ports.statistics import HubEdge
from charactermemory.ports.stores import Stores
from charactermemory.upkeep.derive import derive
from charactermemory.upkeep.reading import Fault, pages, readable, sliced
from charactermemory.upkeep.rebuild import projected, rebuild_statistics
from charactermemory.upkeep.surfaces import INDEXED_TYPES, surface_of

logger = logging.getLogger(__name__)

PAGE = 500
"""Objects compared at a time."""

DifferenceKind = Literal[
    "stored_conflict",
    "unreadable",
    "digest_mismatch",
    "vector_missing",
    "vector_differs",
    "vector_not_wanted",
    "statistics_state",
    "statistics_edges",
]


class Difference(Model):
    """One object on which a store disagrees with the graph, or the graph with itself.

    Attributes:
        kind: what differs.
        object: the object.
        digests: those of all contents that a `stored_conflict` holds under one id.
    """

    kind: DifferenceKind
    object: MemoryObjectRef
    digests: Annotated[tuple[str, ...], Field(strict=False)] = ()

    def __str__(self) -> str:
        """Name it in one line."""
        return " ".join((self.kind, str(self.object), *self.digests))


class WentBack(Model):
    """A graph that ends at commit `head`, though `seen` was seen of it: a restored copy, a power cut."""

    head: int
    seen: int


class VerifyReport(Model):
    """What was compared and what differed.

    Attributes:
        objects: objects and links of the graph.
        points: points of the index.
        found: the differences before the repair.
        left: objects that the repair did not set right.
        went_back: how far the graph went back behind what was seen of it, if it did.
    """

    objects: int = 0
    points: int = 0
    found: Annotated[tuple[Difference, ...], Field(strict=False)] = ()
    left: References = ()
    went_back: WentBack | None = None

    @property
    def differences(self) -> int:
        """How many differences there were."""
        return len(self.found)


def verify(stores: Stores, repair: bool = False) -> VerifyReport:
    """Compare every stored object with its point and its statistics, and every point and state with the graph.

    With `repair`, derive what differs, and rebuild the statistics if they differ. A graph that went back is
    then accepted as it is, and numbered on above what was seen of it. What the graph itself holds in conflict
    or corrupted cannot be repaired here and is listed.

    Raises:
        StoreError: a store could not be read.
    """
    report = _compared(stores)
    return _repaired(stores, report, accept=True) if repair else report


def ensure_writable(stores: Stores) -> None:
    """Before a commit: a graph that went back is verified and repaired whole (consistency.md R5).

    With several processes the sweep does that, and the commit is refused until then. An embedded graph cannot
    go back while it is open, so it is compared once with each derived store. One that cannot be read holds up
    no commit; it is compared before the first one after it can be.

    Raises:
        GraphWentBack: in service mode; otherwise when the index could not be repaired.
        StoreError: the graph could not be read, or a repair failed.
    """
    derived = ((stores.vectors, stores.vector_ledger), (stores.statistics, stores.statistics_ledger))
    if not stores.shared and all(ledger.compared for _, ledger in derived):
        return
    seen, read = [stores.graph.settled()], []
    for store, ledger in derived:
        try:
            cursor = store.cursor()
        except StoreError as error:
            logger.warning("a derived store's place in the log cannot be read: %s", error)
            continue
        seen += [cursor.applied, cursor.high]
        read.append(ledger)
    head = stores.graph.head()
    if max(seen) > head:
        if not stores.shared:
            recover(stores)
        if stores.shared or went_back(stores) is not None:
            raise GraphWentBack(stores.graph.collection, head, max(seen))
    for ledger in read:
        ledger.compared = True


def went_back(stores: Stores) -> WentBack | None:
    """Return how far the graph went back behind what its writers and derived stores saw of it, if it did.

    Raises:
        StoreError: a store could not be read.
    """
    cursors = (stores.vectors.cursor(), stores.statistics.cursor())
    seen = max(stores.graph.settled(), *(max(cursor.applied, cursor.high) for cursor in cursors))
    head = stores.graph.head()  # read last: what is committed meanwhile is in the graph before it is seen
    return WentBack(head=head, seen=seen) if seen > head else None


def recover(stores: Stores) -> VerifyReport | None:
    """Verify and repair a graph that went back, and number on above what was seen; None if it did not.

    It is numbered on only when the index was repaired whole, for nothing would remember what is missing.

    Raises:
        StoreError: a store could not be read or written.
    """
    with stores.deriving:
        if went_back(stores) is None:
            return None
        return _repaired(stores, _compared(stores), accept=False)


def _compared(stores: Stores) -> VerifyReport:
    gone = went_back(stores)
    found: list[Difference] = []
    objects = points = 0
    for refs in pages(stores.graph, PAGE):
        objects += len(refs)
        with stores.deriving:
            found += _compare(stores, refs)
    for refs in _point_pages(stores):
        points += len(refs)
        found += _strangers(stores, refs, "vector_not_wanted")
    for refs in _state_pages(stores):
        found += _strangers(stores, refs, "statistics_state")
    distinct = tuple(dict.fromkeys(found))  # a link's end may be judged on several pages
    return VerifyReport(objects=objects, points=points, found=distinct, went_back=gone)


def _compare(stores: Stores, refs: list[MemoryObjectRef]) -> Iterator[Difference]:
    stored, faults = readable(stores.graph, refs, anew=True)
    for ref, fault in sorted(faults.items()):
        yield _unreadable(ref, fault)
    present = stores.vectors.present([ref for ref in stored if ref.object_type in INDEXED_TYPES])
    for ref, item in sorted(stored.items()):
        if digest(item.authored or item.object) != item.digest:
            yield Difference(kind="digest_mismatch", object=ref)
        kind = _vector_difference(item, present.get(ref))
        if kind is not None:
            yield Difference(kind=kind, object=ref)
    yield from _statistics_differences(stores, stored)


def _unreadable(ref: MemoryObjectRef, fault: Fault) -> Difference:
    if isinstance(fault, StoredConflict):
        return Difference(kind="stored_conflict", object=ref, digests=fault.digests)
    return Difference(kind="unreadable", object=ref)


def _vector_difference(item: Stored, text: str | None) -> DifferenceKind | None:
    surface = surface_of(item.object) if item.current else None
    if surface is None:
        return "vector_not_wanted" if text is not None else None
    if text is None:
        return "vector_missing"
    return "vector_differs" if text != surface.embedding_text else None


def _statistics_differences(stores: Stores, stored: Mapping[MemoryObjectRef, Stored]) -> Iterator[Difference]:
    projection = projected(stores.graph, stored)
    states = stores.statistics.states([state.ref for state in projection.states])
    for state in projection.states:
        if states.get(state.ref) != state:
            yield Difference(kind="statistics_state", object=state.ref)
    expected: dict[MemoryObjectRef, set[HubEdge]] = {}
    for edge in projection.edges:
        expected.setdefault(edge.object, set()).add(edge)
    recorded = stores.statistics.edges_of(list(expected))
    for ref, edges in sorted(expected.items()):
        if not edges <= recorded.get(ref, frozenset()):
            yield Difference(kind="statistics_edges", object=ref)


def _strangers(stores: Stores, refs: list[MemoryObjectRef], kind: DifferenceKind) -> Iterator[Difference]:
    """Yield what a derived store holds and the graph does not."""
    stored = stores.graph.existing(refs, anew=True)
    for ref in refs:
        if ref not in stored:
            yield Difference(kind=kind, object=ref)


def _point_pages(stores: Stores) -> Iterator[list[MemoryObjectRef]]:
    after: str | None = None
    while True:
        page, after = stores.vectors.scan(after, PAGE)
        if page:
            yield [ref for ref, _ in page]
        if after is None:
            return


def _state_pages(stores: Stores) -> Iterator[list[MemoryObjectRef]]:
    after: MemoryObjectRef | None = None
    while page := stores.statistics.scan(after, PAGE):
        yield [state.ref for state in page]
        after = page[-1].ref


def _repaired(stores: Stores, report: VerifyReport, accept: bool) -> VerifyReport:
    """Repair what the report lists; a graph that went back is accepted if `accept`, or the index is whole."""
    refs = sorted({item.object for item in report.found if item.kind.startswith("vector")})
    unindexed: set[MemoryObjectRef] = set()
    for part in sliced(refs):
        failures = derive(stores, part, statistics=False, isolate=True).failures
        unindexed |= {ref for failure in failures for ref in failure.objects}
    looser = any(item.kind.startswith("statistics") for item in report.found)
    # Lost commits may have left edges between objects that are there, which no comparison finds.
    if looser or report.went_back or stores.statistics.health(0).state == "unhealthy":
        rebuild_statistics(stores)
    if report.went_back and (accept or not unindexed):
        _number_on(stores, report.went_back.seen)
    beyond_repair = {
        item.object for item in report.found if not item.kind.startswith(("vector", "statistics"))
    }
    return report.replace(left=tuple(sorted(unindexed | beyond_repair)))


def _number_on(stores: Stores, seen: int) -> None:
    """Let later commits be numbered above everything that was seen, now that the stores are equal."""
    stores.graph.raise_head(seen)
    stores.vector_ledger.swept(seen)
    stores.statistics_ledger.swept(seen)
