"""What one index says about one chunk."""

from __future__ import annotations

from dataclasses import dataclass

from core.ids import ChunkId


@dataclass(frozen=True, slots=True)
class ScoredChunk:
    """A chunk and its score; scores compare within one index and one query only."""

    chunk_id: ChunkId
    score: float


def best_first(scores: dict[ChunkId, float], limit: int) -> list[ScoredChunk]:
    """The `limit` best, ties by chunk id so that the order is always the same."""
    ordered = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    return [ScoredChunk(chunk_id, score) for chunk_id, score in ordered[:limit]]
