"""The topic road: what is being talked about, found by meaning and by words in one search (DESIGN R10)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from charactermemory.errors import (
    CollectionIncompatible,
    EmbeddingError,
    StoreClosedError,
    StoreError,
    StoreForkedError,
)
from charactermemory.ids import MemoryObjectRef
from charactermemory.ports.embedding import Vector
from charactermemory.ports.stores import Stores
from charactermemory.ports.vectors import HybridHits
from charactermemory.recall.fusion import Leg
from charactermemory.recall.roads.road import CueKind, Degradation, Proposal, RoadAnswer, Search
from charactermemory.recall.situation import Situation


@dataclass(frozen=True, slots=True)
class TopicRoad:
    """Searches both legs of the index for the topic; no topic, no candidates."""

    name: str = "topic"
    cue: CueKind = CueKind.TOPIC

    def propose(self, stores: Stores, situation: Situation) -> RoadAnswer:
        """Return every candidate of either leg with its raw scores, the names left out of the dense one.

        Without an embedding the lexical leg answers alone; without an index nothing does. Both are reported.
        """
        topic = situation.topic
        limit = situation.context.candidate_limits.max_vector_candidates
        if topic is None or limit == 0:
            return RoadAnswer()
        degraded: list[Degradation] = []
        embedding = self._embed(stores, topic.content, degraded) if topic.content else None
        hits = self._search(stores, situation, topic.text, embedding, degraded)
        if hits is None:
            return RoadAnswer(degraded=tuple(degraded))
        dense = Search("dense", hits.dense, Leg.of(hits.dense.candidates, limit, absolute=True))
        lexical = Search("lexical", hits.lexical, Leg.of(hits.lexical.candidates, limit))
        similarity, words = dense.best.scores, lexical.best.scores
        found = sorted(similarity.keys() | words.keys())
        floor = situation.floors.get(stores.embedder.fingerprint()) if embedding is not None else None
        near = found if floor is None else _above(floor, found, similarity, words)
        return RoadAnswer(
            proposals=tuple(
                Proposal(ref, similarity=similarity.get(ref), lexical=words.get(ref)) for ref in near
            ),
            searches=(dense, lexical),
            below_floor=len(found) - len(near),
            embedding_dimension=None if embedding is None else len(embedding),
            degraded=tuple(degraded),
        )

    def _embed(self, stores: Stores, query: str, degraded: list[Degradation]) -> Vector | None:
        try:
            return stores.embedder.generate_embedding(query)
        except (EmbeddingError, StoreError) as error:
            degraded.append(self._degradation("dense", error))
        except Exception:
            # A foreign provider may raise anything; the port makes that an unrecognized embedding error.
            degraded.append(self._degradation("dense", EmbeddingError("unrecognized")))
        return None

    def _search(
        self,
        stores: Stores,
        situation: Situation,
        query: str,
        embedding: Vector | None,
        degraded: list[Degradation],
    ) -> HybridHits | None:
        context = situation.context
        limit, scope = context.candidate_limits.max_vector_candidates, context.object_type_defaults
        try:
            return stores.vectors.search(embedding, query, limit, scope)
        except (StoreForkedError, StoreClosedError):
            raise
        except CollectionIncompatible as error:
            # The index was made with another model: its dense vectors mean nothing to ours, its words still do.
            degraded.append(self._degradation("dense", error))
            if embedding is None:
                return None
            return self._search(stores, situation, query, None, degraded)
        except StoreError as error:
            degraded.append(self._degradation("index", error))
            return None

    def _degradation(self, part: str, error: StoreError) -> Degradation:
        return Degradation(road=self.name, part=part, cause=error.code, kind=getattr(error, "kind", None))


def _above(
    floor: float,
    found: Sequence[MemoryObjectRef],
    similarity: Mapping[MemoryObjectRef, float],
    words: Mapping[MemoryObjectRef, float],
) -> list[MemoryObjectRef]:
    """Return what is like the topic, or shares words with it where anything is like it at all."""
    if max(similarity.values(), default=-1.0) < floor:
        return []
    return [ref for ref in found if ref in words or similarity[ref] >= floor]
