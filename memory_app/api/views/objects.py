"""Stored objects: by id, their history, and the operators' list."""

from __future__ import annotations

from uuid import UUID

from charactermemory import MemoryObjectRef, ObjectType, Stored
from memory_app.api.actions import Action
from memory_app.api.answers import History, ObjectPage, StoredObject
from memory_app.api.base import MemoryView
from memory_app.api.cursors import seal, unseal
from memory_app.api.operation import Call, operation
from memory_app.api.problems import NotFound
from memory_app.api.queries import PAGE, ObjectsQuery

TAG = "Objects"
READS = 10
"""Pages of the graph that are read for one page of the list; a rare filter gives pages with little in them."""


class ObjectView(MemoryView):
    """One object."""

    @operation(id="get_object", tag=TAG, action=Action.READ, answers={200: StoredObject})
    def get(self, call: Call, object_type: str, object_id: str) -> StoredObject:
        """Return one stored object with its lifecycle, also if it was forgotten or superseded."""
        ref = ref_of(object_type, object_id)
        found = call.memory.browse.get(ref).get(ref) if ref else None
        if found is None:
            raise nothing_there()
        return StoredObject.of(found)


class HistoryView(MemoryView):
    """The chain an object is part of."""

    @operation(id="get_history", tag=TAG, action=Action.READ, answers={200: History})
    def get(self, call: Call, object_type: str, object_id: str) -> History:
        """Return the chain of memories that superseded one another around this one, oldest first."""
        ref = ref_of(object_type, object_id)
        chain = call.memory.browse.history(ref) if ref else []
        if not chain:
            raise nothing_there()
        return History(results=tuple(StoredObject.of(item) for item in chain))


class ObjectsView(MemoryView):
    """The list of everything, for operators."""

    @operation(
        id="list_objects",
        tag="Operate",
        action=Action.OPERATE,
        query=ObjectsQuery,
        answers={200: ObjectPage},
    )
    def get(self, call: Call) -> ObjectPage:
        """List the stored objects; applications recall instead.

        A page may hold fewer than `limit`, even none, and still have a `next`.
        """
        query: ObjectsQuery = call.query
        place = f"objects:{call.collection.name}"
        filters = [query.type, query.state]
        after = unseal(place, filters, query.cursor)
        found: list[Stored] = []
        for _read in range(READS):
            # Never more than is still wanted, so that the last item read is the last one shown.
            page, after = call.memory.browse.list(after, min(PAGE, query.limit - len(found)))
            found += [item for item in page if _fits(item, query)]
            if after is None or len(found) == query.limit:
                break
        return ObjectPage(
            results=tuple(StoredObject.of(item) for item in found),
            next=None if after is None else seal(place, filters, after),
        )


def ref_of(object_type: str, object_id: str) -> MemoryObjectRef | None:
    """Return what an address names; None if it cannot name anything."""
    try:
        return MemoryObjectRef.of(ObjectType(object_type), UUID(object_id))
    except ValueError:
        return None


def nothing_there() -> NotFound:
    """Return the answer to an address that names nothing, whatever is wrong with it."""
    return NotFound("There is no such object in this collection.", "object_not_found")


def _fits(item: Stored, query: ObjectsQuery) -> bool:
    if query.type is not None and item.ref.object_type is not query.type:
        return False
    return query.state is None or bool(getattr(item, query.state))
