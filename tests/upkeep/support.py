"""What the upkeep tests do to the stores behind the memory's back."""

from __future__ import annotations

from collections.abc import Sequence

from charactermemory.adapters.embedding import HashingEmbedding
from charactermemory.errors import EmbeddingError
from charactermemory.ids import MemoryObjectRef
from charactermemory.ports.vectors import Surface, VectorRecord, VectorSurface
from tests.support.rig import COLLECTION, Rig

GRAPH = f"<urn:charactermemory:collection:{COLLECTION}>"


class Poisoned(HashingEmbedding):
    """Fails every batch that holds a text with `word`, as a provider does that refuses one text."""

    word = "poison"

    def bulk_generate_embeddings(self, texts: Sequence[str]) -> list[list[float]]:
        if any(self.word in text for text in texts):
            raise EmbeddingError("http_status", "refused")
        return super().bulk_generate_embeddings(texts)


def put_point(rig: Rig, ref: MemoryObjectRef, text: str, surface: VectorSurface, high: int = 0) -> None:
    """Write a point as a process does that knows nothing of the graph as it is now."""
    vector = HashingEmbedding(rig.embedder.inner.vector_size()).generate_embedding(text)
    record = VectorRecord(Surface(ref, surface, "episodic_memory_initial", text, text), vector)
    rig.vectors.inner.write([record], (), high)


def take_point(rig: Rig, ref: MemoryObjectRef) -> None:
    """Lose a point."""
    rig.vectors.inner.write((), [ref], 0)


def rewrite(rig: Rig, ref: MemoryObjectRef, predicate: str, value: str) -> None:
    """Replace what the graph holds under one predicate of an object; `value` is an RDF term."""
    node = f"<urn:charactermemory:{ref.object_type.value}:{ref.id}>"
    cell = f"{node} <urn:charactermemory:vocab:{predicate}>"
    rig.connection.inner.update(
        f"DELETE {{ GRAPH {GRAPH} {{ {cell} ?o }} }} INSERT {{ GRAPH {GRAPH} {{ {cell} {value} }} }} "
        f"WHERE {{ GRAPH {GRAPH} {{ {cell} ?o }} }}"
    )


def add(rig: Rig, ref: MemoryObjectRef, predicate: str, value: str) -> None:
    """Add one more value under a predicate of an object."""
    node = f"<urn:charactermemory:{ref.object_type.value}:{ref.id}>"
    rig.connection.inner.update(
        f"INSERT DATA {{ GRAPH {GRAPH} {{ {node} <urn:charactermemory:vocab:{predicate}> {value} }} }}"
    )
