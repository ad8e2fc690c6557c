from __future__ import annotations

from collections.abc import Sequence

import pytest

from core.errors import InvalidInput
from core.ids import ChunkId, DocumentId
from retrieval.fusion import (
    FusedChunk,
    FusionWeights,
    fuse_queries,
    fuse_rankings,
    legible_share,
    weigh_sides,
)
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


def alone(*rankings: list[ScoredChunk]) -> dict[ChunkId, DocumentId]:
    """Each chunk in a document of its own."""
    return {hit.chunk_id: DocumentId(f"doc_{hit.chunk_id}") for ranking in rankings for hit in ranking}


def fuse(
    dense: list[ScoredChunk], lexical: list[ScoredChunk], *, weights: FusionWeights | None = None
) -> list[FusedChunk]:
    return fuse_rankings(dense, lexical, num_candidates=50, documents=alone(dense, lexical), weights=weights)


def test_what_both_sides_find_comes_first() -> None:
    fused = fuse(ranking((1, 0.9), (2, 0.89), (3, 0.8)), ranking((2, 12.0), (4, 11.0), (5, 3.0)))
    assert fused[0].chunk_id == 2
    assert (fused[0].dense_rank, fused[0].lexical_rank) == (2, 1)
    assert (fused[0].dense_score, fused[0].lexical_score) == (0.89, 12.0)


def test_a_chunk_of_one_side_only_has_no_rank_on_the_other() -> None:
    fused = {chunk.chunk_id: chunk for chunk in fuse(ranking((1, 0.9)), ranking((2, 5.0)))}
    assert fused[ChunkId(1)].lexical_rank is None
    assert fused[ChunkId(2)].dense_score is None


def test_a_clear_winner_counts_for_more_than_the_first_of_many_alike() -> None:
    alike = ranking((1, 0.800), (2, 0.799), (3, 0.798), (4, 0.797), (5, 0.796))
    clear = ranking((2, 20.0), (3, 6.0), (4, 5.9), (1, 5.8), (5, 5.7))
    assert fuse(alike, clear)[0].chunk_id == 2


def test_a_side_whose_best_stand_out_outweighs_one_that_finds_many_alike() -> None:
    flat = ranking(*((i, 0.9 - i / 1000) for i in range(1, 60)))
    peaked = ranking((59, 30.0), *((i, 5.0 + i / 100) for i in range(58, 0, -1)))
    assert fuse(flat, peaked)[0].chunk_id == 59
    assert fuse(peaked, flat)[0].chunk_id == 59


def test_only_candidates_are_returned_and_a_deeper_score_counts() -> None:
    dense = ranking(*((i, 1.0 - i / 100) for i in range(1, 101)))
    lexical = ranking((60, 9.0), (200, 9.0), *((i, 3.0 - i / 100) for i in range(1, 50)))
    fused = fuse_rankings(dense, lexical, num_candidates=2, documents=alone(dense, lexical))
    assert {chunk.chunk_id for chunk in fused} == {1, 2, 60, 200}
    ranks = {int(chunk.chunk_id): chunk.fused_rank for chunk in fused}
    assert ranks[60] < ranks[200]  # the dense side knows 60, though not among its first two
    assert fused[-1].score == 0.0
    assert [chunk.fused_rank for chunk in fused] == [1, 2, 3, 4]


def test_more_candidates_than_the_statistics_need_are_all_returned() -> None:
    dense = ranking(*((i, 1.0 - i / 1000) for i in range(1, 301)))
    assert len(fuse_rankings(dense, [], num_candidates=300, documents=alone(dense))) == 300


def test_a_document_that_is_near_as_a_whole_lifts_its_chunks() -> None:
    dense = ranking((1, 0.801), (2, 0.8), (3, 0.79), (4, 0.785), *((i, 0.7 - i / 1000) for i in range(5, 40)))
    documents = {**alone(dense), **{ChunkId(i): DocumentId("doc_whole") for i in (2, 3, 4)}}
    fused = fuse_rankings(dense, [], num_candidates=50, documents=documents)
    assert [chunk.chunk_id for chunk in fused[:2]] == [2, 1]
    apart = fuse_rankings(dense, [], num_candidates=50, documents=alone(dense))
    assert [chunk.chunk_id for chunk in apart] == [hit.chunk_id for hit in dense]


def test_a_word_that_a_single_chunk_holds_decides() -> None:
    dense = ranking(*((i, 0.9 - i / 1000) for i in range(1, 30)))
    assert fuse(dense, ranking((20, 4.0)))[0].chunk_id == 20


def test_a_blind_side_cannot_move_the_other() -> None:
    lexical = ranking((1, 9.0), (2, 8.0), (3, 7.0))
    blind = ranking((9, 0.6), (3, 0.59), (2, 0.58))
    fused = fuse(blind, lexical, weights=FusionWeights(dense=0.02))
    assert [chunk.chunk_id for chunk in fused[:3]] == [1, 2, 3]


def test_ties_break_by_chunk_id_and_empty_sides_are_fine() -> None:
    fused = fuse([], ranking((7, 1.0), (3, 1.0)))
    assert [chunk.chunk_id for chunk in fused] == [3, 7]
    assert fuse([], []) == []
    two = fuse(ranking((8, 1.0)), ranking((4, 1.0)))
    assert {chunk.chunk_id for chunk in two} == {4, 8}


def test_no_candidates_are_refused() -> None:
    with pytest.raises(InvalidInput):
        fuse_rankings([], [], num_candidates=0, documents={})


def test_rankings_of_several_queries_fuse_by_rank_and_one_stays_as_it_is() -> None:
    first = fuse(ranking((1, 0.9), (2, 0.8), (3, 0.1)), [])
    second = fuse([], ranking((2, 30.0), (4, 8.0), (5, 1.0)))
    assert fuse_queries([first]) == first
    fused = fuse_queries([first, second])
    assert [chunk.chunk_id for chunk in fused[:2]] == [2, 1]
    assert fused[0].lexical_score == 30.0  # what the query says that ranks it best
    assert fused[0].score > fused[1].score > 0


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
