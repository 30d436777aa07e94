"""A vector index and an embedder that say what a test tells them: exact scores for named objects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from charactermemory.domain.objects import MemoryObject
from charactermemory.errors import StoreError
from charactermemory.ids import MemoryObjectRef, ObjectType
from charactermemory.ports.embedding import Vector
from charactermemory.ports.vectors import Completeness, HybridHits, LegHits, VectorCandidate, VectorSurface
from charactermemory.testing.vectors import InMemoryVectorIndex

SIZE = 4
"""Components of every scripted vector."""

_SURFACES = {
    ObjectType.EPISODE: VectorSurface.SUMMARY,
    ObjectType.OBSERVATION: VectorSurface.TEXT,
    ObjectType.MEMORY_THREAD: VectorSurface.SUMMARY,
    ObjectType.DERIVED_MEMORY: VectorSurface.DERIVED_TEXT,
}

_NOT_REQUESTED = LegHits((), Completeness(kind="not_requested"))

Found = MemoryObject | MemoryObjectRef
"""What a script names: an object, or the reference to one that need not exist."""

Scripted = tuple[Found, float] | tuple[Found, float, VectorSurface]
"""What is found, with which score, and under which surface if not its usual one."""


@dataclass
class ScriptedEmbedder:
    """Embeds everything as the same vector, unless told to fail. `queries` holds the single-text calls."""

    error: Exception | None = None
    queries: list[str] = field(default_factory=list)

    def fingerprint(self) -> str:
        """See `EmbeddingProvider`."""
        return f"scripted:constant:{SIZE}"

    def vector_size(self) -> int:
        """See `EmbeddingProvider`."""
        return SIZE

    def generate_embedding(self, text: str) -> Vector:
        """See `EmbeddingProvider`; records the text."""
        self.queries.append(text)
        return self._vector()

    def bulk_generate_embeddings(self, texts: Sequence[str]) -> list[Vector]:
        """See `EmbeddingProvider`."""
        return [self._vector() for _ in texts]

    def _vector(self) -> Vector:
        if self.error is not None:
            raise self.error
        return [1.0] + [0.0] * (SIZE - 1)


class ScriptedVectorIndex(InMemoryVectorIndex):
    """An index whose searches answer with the scripted scores, whatever is asked; the rest is the fake's.

    Attributes:
        searches: the arguments of every search.
        error: raised by every search, if set.
    """

    def __init__(self, collection: str = "test") -> None:
        super().__init__(collection, SIZE)
        self.searches: list[tuple[Vector | None, str | None, int, tuple[ObjectType, ...]]] = []
        self.error: StoreError | None = None
        self._by_meaning: list[VectorCandidate] = []
        self._by_words: list[VectorCandidate] = []

    def script(self, dense: Iterable[Scripted] = (), lexical: Iterable[Scripted] = ()) -> None:
        """Set what the next searches find; with a surface where one object is found under several."""
        self._by_meaning, self._by_words = _hits(dense), _hits(lexical)

    def search(
        self, embedding: Vector | None, text: str | None, limit: int, scope: Sequence[ObjectType]
    ) -> HybridHits:
        """Return the scripted hits in scope, in canonical order; a leg without a query is not requested."""
        self.searches.append((embedding, text, limit, tuple(scope)))
        if self.error is not None:
            raise self.error
        return HybridHits(
            dense=_NOT_REQUESTED if embedding is None else _leg(self._by_meaning, limit, scope),
            lexical=_NOT_REQUESTED if text is None else _leg(self._by_words, limit, scope),
        )


def _hits(scripted: Iterable[Scripted]) -> list[VectorCandidate]:
    hits = []
    for item, score, *surface in scripted:
        ref = _ref(item)
        hits.append(VectorCandidate(ref, surface[0] if surface else _SURFACES[ref.object_type], score))
    return hits


def _ref(item: Found) -> MemoryObjectRef:
    return item if isinstance(item, MemoryObjectRef) else item.ref


def _leg(hits: Sequence[VectorCandidate], limit: int, scope: Sequence[ObjectType]) -> LegHits:
    if limit <= 0 or not scope:
        return _NOT_REQUESTED
    inside = sorted((hit for hit in hits if hit.ref.object_type in scope), key=lambda hit: hit.order)
    return LegHits(tuple(inside[:limit]), Completeness(kind="exhaustive", scanned=len(inside)))
