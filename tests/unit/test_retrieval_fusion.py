from __future__ import annotations

from collections.abc import Sequence

import pytest

from core.errors import InvalidInput
from core.ids import ChunkId
from retrieval.fusion import FusionWeights, fuse_rankings, legible_share, weigh_sides
from retrieval.hits import ScoredChunk


def ranking(*pairs: tuple[int, float]) -> list[ScoredChunk]:
    return [ScoredChunk(ChunkId(chunk_id), score) for chunk_id, score in pairs]


class LatinTokenizer:
    """Knows ASCII only, as an English model's tokenizer does."""

    def encode(self, text: str) -> list[int]:
        return [ord(c) if c.isascii() else 0 for c in text]

    def decode(self, token_ids: Sequence[int]) -> str:
        return "".join(chr(i) for i in token_ids if i)

    def count(self, text: str) -> int:
        return len(text)

    def token_starts(self, text: str) -> list[int]:
        return list(range(len(text)))


def test_what_both_sides_find_comes_first() -> None:
    fused = fuse_rankings(ranking((1, 0.9), (2, 0.85), (3, 0.8)), ranking((2, 12.0), (4, 11.0), (5, 3.0)))
    assert fused[0].chunk_id == 2
    assert (fused[0].dense_rank, fused[0].lexical_rank) == (2, 1)
    assert (fused[0].dense_score, fused[0].lexical_score) == (0.85, 12.0)


def test_a_chunk_of_one_side_only_has_no_rank_on_the_other() -> None:
    fused = {chunk.chunk_id: chunk for chunk in fuse_rankings(ranking((1, 0.9)), ranking((2, 5.0)))}
    assert fused[ChunkId(1)].lexical_rank is None
    assert fused[ChunkId(2)].dense_score is None


def test_a_clear_winner_counts_for_more_than_the_first_of_many_alike() -> None:
    alike = ranking((1, 0.800), (2, 0.799), (3, 0.70))
    clear = ranking((2, 20.0), (1, 6.0), (3, 5.0))
    assert fuse_rankings(alike, clear)[0].chunk_id == 2


def test_a_blind_side_cannot_move_the_other() -> None:
    lexical = ranking((1, 9.0), (2, 8.0), (3, 7.0))
    blind = ranking((9, 0.6), (3, 0.59), (2, 0.58))
    fused = fuse_rankings(blind, lexical, weights=FusionWeights(dense=0.02))
    assert [chunk.chunk_id for chunk in fused[:3]] == [1, 2, 3]


def test_ties_break_by_chunk_id_and_empty_sides_are_fine() -> None:
    fused = fuse_rankings([], ranking((7, 1.0), (3, 1.0)))
    assert [chunk.chunk_id for chunk in fused] == [7, 3]
    assert fuse_rankings([], []) == []
    two = fuse_rankings(ranking((8, 1.0)), ranking((4, 1.0)))
    assert [chunk.chunk_id for chunk in two] == [4, 8]


def test_a_negative_constant_is_refused() -> None:
    with pytest.raises(InvalidInput):
        fuse_rankings([], [], k=-1)


def test_a_tokenizer_that_cannot_read_chinese_is_found_out() -> None:
    tokenizer = LatinTokenizer()
    assert legible_share(tokenizer, "How long is it?") == 1.0
    assert legible_share(tokenizer, "这条河有多长？") == 0.0
    assert legible_share(tokenizer, "？！") == 1.0


def test_weights_fall_with_what_a_side_cannot_see() -> None:
    both = weigh_sides(legible_share=1.0, lexical_coverage=0.4)
    assert (both.dense, both.lexical) == (1.0, 1.0)
    assert weigh_sides(legible_share=0.3, lexical_coverage=0.4).dense < 0.05
    assert weigh_sides(legible_share=1.0, lexical_coverage=0.01).lexical < 0.1
