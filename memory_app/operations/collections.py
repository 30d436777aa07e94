"""What collections there are, how large they are, where they lie, and what they owe."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from django.db.models import Count

from charactermemory import CharacterMemoryError
from memory_app.models import MemoryCollection, RepairMarker
from memory_app.operations import opening


@dataclass(frozen=True)
class Described:
    """One collection. `error` is the code of why its stores could not be asked, `detail` the words; the
    sizes are None then.
    """

    name: str
    archived: bool = False
    owner: str = ""
    endpoint: str = ""
    language: str = ""
    embedding_fingerprint: str = ""
    head: int | None = None
    points: int | None = None
    vector_backlog: int | None = None
    statistics_backlog: int | None = None
    statistics: str | None = None
    repairs: dict[str, int] = field(default_factory=dict)
    error: str | None = None
    detail: str | None = None

    def summary(self) -> dict[str, Any]:
        """Return it for JSON."""
        return asdict(self)


def describe_all(names: Iterable[str] | None = None) -> list[Described]:
    """Describe collections, by default all; embedded ones are opened for it."""
    rows = {row.name: row for row in MemoryCollection.objects.select_related("owner")}
    repairs: dict[str, Counter[str]] = {}
    for row in RepairMarker.objects.values("collection", "status").annotate(number=Count("id")).order_by():
        repairs.setdefault(row["collection"], Counter())[row["status"]] = row["number"]
    wanted = opening.names() if names is None else names
    return [_describe(name, rows.get(name), dict(repairs.get(name, {}))) for name in wanted]


def _describe(name: str, row: MemoryCollection | None, repairs: dict[str, int]) -> Described:
    known: dict[str, Any] = {"name": name, "repairs": repairs}
    if row is not None:
        known |= {
            "archived": row.archived,
            "owner": str(row.owner or ""),
            "endpoint": row.endpoint,
            "language": row.language,
            "embedding_fingerprint": row.embedding_fingerprint,
        }
    try:
        with opening.existing(name) as memory:
            stores = memory.stores
            head = stores.graph.head()
            return Described(
                **known | {"embedding_fingerprint": stores.embedder.fingerprint()},
                head=head,
                points=stores.vectors.count(),
                vector_backlog=max(head - stores.vectors.cursor().applied, 0),
                statistics_backlog=max(head - stores.statistics.cursor().applied, 0),
                statistics=stores.statistics.health(head).state,
            )
    except CharacterMemoryError as error:
        return Described(**known, error=error.code, detail=str(error))
