"""What stands in one place of an answer, read as what the query asked for.

What cannot be is a `GraphQueryError` of kind selection.
"""

from __future__ import annotations

from pyoxigraph import NamedNode

from charactermemory.adapters.oxigraph.connection import Term
from charactermemory.adapters.oxigraph.terms import ref_of
from charactermemory.errors import GraphQueryError
from charactermemory.ids import MemoryObjectRef


def found_ref(term: Term | None) -> MemoryObjectRef:
    """Return the reference an answer names."""
    try:
        return ref_of(term)
    except ValueError:
        raise GraphQueryError(kind="selection", detail=f"not a memory object: {label(term)}") from None


def found_number(term: Term | None) -> int:
    """Return the number an answer holds."""
    try:
        return int(term.value)  # type: ignore[union-attr]
    except (AttributeError, ValueError):
        raise GraphQueryError(kind="selection", detail="a number was expected") from None


def label(term: Term | None) -> str:
    """Return what an error calls the term; literals may be memory text and are not shown."""
    return term.value if isinstance(term, NamedNode) else "no node"
