"""What a call to an encoder consumed, as the ledger wants to know it."""

from __future__ import annotations

from core.usage import ModelUse
from inference.protocols import Embedder, Embeddings, Reranker, RerankScores


def embedding_use(embedder: Embedder, embedded: Embeddings) -> ModelUse:
    return ModelUse(
        embedder.name, embedder.revision, num_tokens=sum(embedded.num_tokens), seconds=embedded.seconds
    )


def reranking_use(reranker: Reranker, scores: RerankScores) -> ModelUse:
    return ModelUse(reranker.name, reranker.revision, num_tokens=scores.num_tokens, seconds=scores.seconds)
