"""How common hubs are, with the statistics' health, by one statement."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from charactermemory.ids import MemoryObjectRef
from charactermemory.ports.statistics import Count, Counts, Health, Pair
from memory_app.models import EntityRelationCount, GlobalRelationCount
from memory_app.statistics.rows import parts
from memory_app.statistics.selects import OBJECTS_AT_ONCE, Selects, among

_COUNTER = "relation, object_type, total, active, current"
_AT_HUB = f"{_COUNTER}, hub_type, hub_id, NULL AS cause"
_OVERALL = f"{_COUNTER}, NULL AS hub_type, NULL AS hub_id, NULL AS cause"
_HEALTH = "NULL, NULL, NULL, NULL, NULL, NULL, NULL, cause"


def counts_of(
    using: str, collection: str, hubs: Collection[MemoryObjectRef], pairs: Sequence[Pair]
) -> Counts:
    """Return the counts over all hubs and those at `hubs`, of the pairs asked for.

    Every pair is read, for there are few: no more than relations times types.
    """
    wanted = {(relation.value, object_type.value): (relation, object_type) for relation, object_type in pairs}
    overall: dict[Pair, Count] = {}
    at: dict[tuple[MemoryObjectRef, Pair], Count] = {}
    cause = ""
    for some in list(parts(hubs, OBJECTS_AT_ONCE)) or [[]]:
        selects = Selects(using, collection)
        asked = {(hub.object_type.value, selects.stored(hub.id)): hub for hub in some}
        if asked:
            ids = [stored for _, stored in asked]
            selects.add(_AT_HUB, EntityRelationCount, f"AND hub_id {among(ids)}", *ids)
        selects.add(_OVERALL, GlobalRelationCount, "")
        selects.add_health(_HEALTH)
        for relation, object_type, total, active, current, hub_type, hub_id, found in selects.rows():
            if found is not None:
                cause = found
            elif pair := wanted.get((relation, object_type)):
                count = Count(total, active, current)
                if hub_id is None:
                    overall[pair] = count
                elif hub := asked.get((hub_type, hub_id)):
                    at[hub, pair] = count
    return Counts(Health("unhealthy", cause) if cause else Health("healthy"), overall, at)
