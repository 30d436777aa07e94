"""Which text of an object is embedded and indexed (recall.md §11.1, decisions R1 and R6).

Bare natural language: no label, id, time or token. Measured on LoCoMo, labels before the text only make all
vectors more alike.
"""

from __future__ import annotations

import regex

from charactermemory.domain.names import fold_white_space
from charactermemory.domain.objects import DerivedMemory, Episode, MemoryObject, MemoryThread, Observation
from charactermemory.ids import ObjectType
from charactermemory.ports.vectors import Surface, VectorSurface

SURFACE_VERSION = "1"
"""Version of the rules in this module; part of the index's fingerprint."""
DENSE_CHARACTERS = 4_000
"""Characters that the dense vector covers, cut at a grapheme boundary (decisions R1). BM25 covers all."""
INDEXED_TYPES = (
    ObjectType.EPISODE,
    ObjectType.OBSERVATION,
    ObjectType.MEMORY_THREAD,
    ObjectType.DERIVED_MEMORY,
)
"""Object types that may have a point in the index."""


def surface_of(item: MemoryObject) -> Surface | None:
    """Return the one surface of `item`; None for notions, links and blank texts."""
    match item:
        case Episode():
            surface, text = VectorSurface.SUMMARY, item.summary or ""
        case Observation():
            surface, text = VectorSurface.TEXT, item.text
        case MemoryThread():
            surface, text = VectorSurface.SUMMARY, f"{item.title} {item.summary}"
        case DerivedMemory():
            surface, text = VectorSurface.DERIVED_TEXT, item.text
        case _:
            return None
    cleaned = fold_white_space(text)
    if not cleaned.strip():  # what an embedder takes as blank, U+001F alone for one, has no surface
        return None
    return Surface(item.ref, surface, item.schema_version, dense_part(cleaned), cleaned)


def dense_part(text: str) -> str:
    """Return the part of `text` that is embedded: at most `DENSE_CHARACTERS`, whole graphemes."""
    if len(text) <= DENSE_CHARACTERS:
        return text
    end = 0
    for match in regex.finditer(r"\X", text):
        if match.end() > DENSE_CHARACTERS:
            break
        end = match.end()
    return text[: end or DENSE_CHARACTERS]
