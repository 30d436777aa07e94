"""Verify: walk the graph against both derived stores, both ways, and repair what differs.

Bounded memory: everything is read in pages.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Annotated, Literal

from pydantic import Field

from charactermemory.domain.digest import digest
from charactermemory.domain.lifecycle import References, Stored
from charactermemory.domain.model import Model
from charactermemory.errors import GraphWentBack, StoredConflict, StoreError
from charactermemory.ids import MemoryObjectRef
from charactermemory.ports.stores import Stores
from charactermemory.upkeep.derive import derive
from charactermemory.upkeep.rebuild import pages, projections, rebuild_statistics
from charactermemory.upkeep.surfaces import INDEXED_TYPES, surface_of

logger = logging.getLogger(__name__)

PAGE = 500
"""Objects compared at a time."""

DifferenceKind = Literal[
    "stored_conflict",
    "digest_mismatch",
    "vector_missing",
    "vector_differs",
    "vector_not_wanted",
    "statistics_state",
    "statistics_edges",
]


class Difference(Model):
    """One object on which a store disagrees with the graph, or the graph with itself."""

    kind: DifferenceKind
    object: MemoryObjectRef


class VerifyReport(Model):
    """What was compared and what differed; `differences` counts before the repair, `left` after it."""

    objects: int = 0
    points: int = 0
    found: Annotated[tuple[Difference, ...], Field(strict=False)] = ()
    left: References = ()

    @property
    def differences(self) -> int:
        """How many differences there were."""
        return len(self.found)


def verify(stores: Stores, repair: bool = False) -> VerifyReport:
    """Compare every stored object with its point and its statistics, and every point with the graph.

    With `repair`, derive what differs, and rebuild the statistics if they are looser than the graph. A graph
    that went back behind its derived stores is accepted as it is, and numbered on above what they had seen.

    Raises:
        StoreError: a store could not be read.
    """
    found: list[Difference] = []
    objects = 0
    for refs in pages(stores.graph, PAGE):
        objects += len(refs)
        found += _compare(stores, refs)
    points = 0
    for refs in _point_pages(stores):
        points += len(refs)
        stored = stores.graph.existing(refs)
        found += [Difference(kind="vector_not_wanted", object=ref) for ref in refs if ref not in stored]
    left: tuple[MemoryObjectRef, ...] = ()
    if repair:
        left = _repair(stores, found)
        _accept_older_graph(stores)
    return VerifyReport(objects=objects, points=points, found=tuple(found), left=left)


def ensure_writable(stores: Stores) -> None:
    """Before a commit: a graph that went back is verified and repaired whole (consistency.md R5).

    With several processes the sweep does that, and the commit is refused until then. An embedded graph cannot
    go back while it is open, so it is compared once with each derived store. One that cannot be read holds up
    no commit; it is compared before the first one after it can be.

    Raises:
        GraphWentBack: in service mode.
        StoreError: the graph could not be read, or a repair failed.
    """
    derived = ((stores.vectors, stores.vector_ledger), (stores.statistics, stores.statistics_ledger))
    if not stores.shared and all(ledger.compared for _, ledger in derived):
        return
    head = stores.graph.head()
    for store, ledger in derived:
        try:
            high = store.cursor().high
        except StoreError as error:
            logger.warning("a derived store's place in the log cannot be read: %s", error)
            continue
        if high > head and stores.shared:
            raise GraphWentBack(stores.graph.collection, head, high)
        if high > head:
            verify(stores, repair=True)
        ledger.compared = True


def _compare(stores: Stores, refs: list[MemoryObjectRef]) -> Iterator[Difference]:
    try:
        stored = stores.graph.read(refs)
    except StoredConflict:
        if len(refs) > 1:
            for ref in refs:
                yield from _compare(stores, [ref])
        else:
            yield Difference(kind="stored_conflict", object=refs[0])
        return
    present = stores.vectors.present([ref for ref in refs if ref.object_type in INDEXED_TYPES])
    for ref, item in sorted(stored.items()):
        if digest(item.authored or item.object) != item.digest:
            yield Difference(kind="digest_mismatch", object=ref)
        kind = _vector_difference(item, present.get(ref))
        if kind is not None:
            yield Difference(kind=kind, object=ref)
    projection = next(iter(projections(stores.graph, [refs])))
    states = stores.statistics.states([state.ref for state in projection.states])
    for state in projection.states:
        if states.get(state.ref) != state:
            yield Difference(kind="statistics_state", object=state.ref)
    expected: dict[MemoryObjectRef, set[object]] = {}
    for edge in projection.edges:
        expected.setdefault(edge.object, set()).add(edge)
    recorded = stores.statistics.edges_of(list(expected))
    for ref, edges in sorted(expected.items()):
        if not edges <= recorded.get(ref, frozenset()):
            yield Difference(kind="statistics_edges", object=ref)


def _vector_difference(item: Stored, text: str | None) -> DifferenceKind | None:
    surface = surface_of(item.object) if item.current else None
    if surface is None:
        return "vector_not_wanted" if text is not None else None
    if text is None:
        return "vector_missing"
    return "vector_differs" if text != surface.embedding_text else None


def _point_pages(stores: Stores) -> Iterator[list[MemoryObjectRef]]:
    after: str | None = None
    while True:
        page, after = stores.vectors.scan(after, PAGE)
        if page:
            yield [ref for ref, _ in page]
        if after is None:
            return


def _repair(stores: Stores, found: Iterable[Difference]) -> tuple[MemoryObjectRef, ...]:
    kinds = {item.kind for item in found}
    refs = sorted({item.object for item in found if item.kind.startswith("vector")})
    left: set[MemoryObjectRef] = {
        item.object for item in found if item.kind in ("stored_conflict", "digest_mismatch")
    }
    for start in range(0, len(refs), PAGE):
        report = derive(stores, refs[start : start + PAGE], statistics=False, isolate=True)
        left |= {ref for failure in report.failures for ref in failure.objects}
    if kinds & {"statistics_state", "statistics_edges"} or stores.statistics.health(0).state == "unhealthy":
        rebuild_statistics(stores)
    return tuple(sorted(left))


def _accept_older_graph(stores: Stores) -> None:
    """Number on above everything a derived store has seen, once the stores were made equal."""
    high = max(stores.vectors.cursor().high, stores.statistics.cursor().high)
    if high > stores.graph.head():
        stores.graph.raise_head(high)
