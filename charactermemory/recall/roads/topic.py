"""The topic road: what is being talked about, found by meaning and by words in one search (DESIGN R10)."""

from __future__ import annotations

from dataclasses import dataclass

from charactermemory.errors import (
    CollectionIncompatible,
    EmbeddingError,
    StoreClosedError,
    StoreError,
    StoreForkedError,
)
from charactermemory.ports.embedding import Vector
from charactermemory.ports.stores import Stores
from charactermemory.ports.vectors import HybridHits
from charactermemory.recall.context import RetrievalContext
from charactermemory.recall.fusion import fuse
from charactermemory.recall.roads.road import CueKind, Degradation, Proposal, RoadAnswer, Search


@dataclass(frozen=True, slots=True)
class TopicRoad:
    """Searches both legs of the index for the topic; no topic, no candidates."""

    name: str = "topic"
    cue: CueKind = CueKind.TOPIC

    def propose(self, stores: Stores, context: RetrievalContext) -> RoadAnswer:
        """Return every candidate of either leg, scored by `fuse`.

        Without an embedding the lexical leg answers alone; without an index nothing does. Both are reported.
        """
        query = context.query
        limit = context.candidate_limits.max_vector_candidates
        if query is None or limit == 0:
            return RoadAnswer()
        degraded: list[Degradation] = []
        embedding = self._embed(stores, query, degraded)
        hits = self._search(stores, context, query, embedding, degraded)
        if hits is None:
            return RoadAnswer(degraded=tuple(degraded))
        return RoadAnswer(
            proposals=tuple(
                Proposal(found.ref, found.score, found.similarity, found.lexical)
                for found in fuse(hits.dense, hits.lexical, limit)
            ),
            searches=(Search("dense", hits.dense), Search("lexical", hits.lexical)),
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
        context: RetrievalContext,
        query: str,
        embedding: Vector | None,
        degraded: list[Degradation],
    ) -> HybridHits | None:
        limit = context.candidate_limits.max_vector_candidates
        scope = context.object_type_defaults
        try:
            return stores.vectors.search(embedding, query, limit, scope)
        except (StoreForkedError, StoreClosedError):
            raise
        except CollectionIncompatible as error:
            # The index was made with another model: its dense vectors mean nothing to ours, its words still do.
            degraded.append(self._degradation("dense", error))
            if embedding is None:
                return None
            return self._search(stores, context, query, None, degraded)
        except StoreError as error:
            degraded.append(self._degradation("index", error))
            return None

    def _degradation(self, part: str, error: StoreError) -> Degradation:
        return Degradation(road=self.name, part=part, cause=error.code, kind=getattr(error, "kind", None))
