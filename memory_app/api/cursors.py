"""Cursors of pages: opaque, signed, bound to the list and the filters they continue."""

from __future__ import annotations

from typing import Any

from django.core import signing

from memory_app.api.problems import BadRequest, ProblemItem


def seal(place: str, filters: list[Any], last: str | int | tuple[str, int]) -> str:
    """Return the cursor that continues a list behind `last`.

    Args:
        place: which list of which collection.
        filters: what narrows it; a cursor serves no other filters.
        last: the sort key of the last item shown.
    """
    return signing.dumps([filters, last], salt=f"memory_app.cursor:{place}", compress=True)


def unseal(place: str, filters: list[Any], cursor: str | None) -> Any:
    """Return the sort key in a cursor; None without one.

    Raises:
        BadRequest: it is not one of this list with these filters.
    """
    if cursor is None:
        return None
    try:
        made_for, last = signing.loads(cursor, salt=f"memory_app.cursor:{place}")
    except signing.BadSignature:
        made_for = last = None
    if made_for != filters:
        item = ProblemItem(parameter="cursor", detail="it is not a cursor of this list with these filters")
        raise BadRequest("The cursor cannot be used.", "invalid_cursor", [item])
    return last
