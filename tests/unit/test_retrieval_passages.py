from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from core.ids import ChunkId, DocumentId
from retrieval.fusion import FusedChunk
from retrieval.passages import Passage, RankedChunk, merge_passages
from storage.chunks import LiveChunk

SOURCE = "刘备、关羽、张飞桃园结义。 One two three four five. Six seven eight nine ten."


def chunk(position: int, start: int, end: int, *, document: str = "doc_a", tokens: int = 10) -> LiveChunk:
    return LiveChunk(
        id=ChunkId(hash((document, position)) % 10**9 + 1),
        document_id=DocumentId(document),
        document_name=f"{document}.txt",
        document_title="Title",
        position=position,
        start=start,
        end=end,
        first_page=position + 1,
        last_page=position + 1,
        headings=("Heading",),
        text=SOURCE[start:end],
        num_generator_tokens=tokens,
    )


def choose(ranked: Sequence[RankedChunk], *, num_passages: int, max_tokens: int) -> list[Passage]:
    return merge_passages(ranked, num_passages=num_passages, max_tokens=max_tokens).passages


def hit(live: LiveChunk, score: float, rank: int) -> tuple[FusedChunk, LiveChunk]:
    return FusedChunk(live.id, score, 0.8 - rank / 100, None, rank, None), live


def test_adjoining_chunks_become_one_passage_in_document_order() -> None:
    first, second, third = chunk(0, 0, 20), chunk(1, 15, 40), chunk(2, 40, 60)
    passages = choose(
        [hit(third, 0.9, 1), hit(first, 0.8, 2), hit(second, 0.7, 3)], num_passages=6, max_tokens=1000
    )
    (passage,) = passages
    assert passage.text == SOURCE[0:60]
    assert (passage.start, passage.end, passage.first_page, passage.last_page) == (0, 60, 1, 3)
    assert passage.chunk_ids == (first.id, second.id, third.id)
    assert (passage.score, passage.dense_rank, passage.lexical_rank) == (0.9, 1, None)
    assert not passage.has_gaps


def test_dropped_white_space_keeps_offsets_right() -> None:
    a, b = chunk(0, 0, 13), chunk(1, 14, 38)
    (passage,) = choose([hit(a, 0.9, 1), hit(b, 0.8, 2)], num_passages=2, max_tokens=100)
    assert passage.has_gaps
    assert len(passage.text) == passage.end - passage.start


def test_a_chunk_inside_another_adds_nothing() -> None:
    a, b = chunk(0, 0, 30), chunk(1, 10, 30)
    (passage,) = choose([hit(a, 0.9, 1), hit(b, 0.8, 2)], num_passages=2, max_tokens=100)
    assert passage.text == SOURCE[0:30]


def test_other_documents_and_distant_chunks_stay_apart() -> None:
    ranked = [
        hit(chunk(0, 0, 20), 0.9, 1),
        hit(chunk(5, 40, 60), 0.8, 2),
        hit(chunk(1, 20, 40, document="doc_b"), 0.7, 3),
    ]
    assert len(choose(ranked, num_passages=6, max_tokens=1000)) == 3


def test_best_first_and_no_more_than_asked_for() -> None:
    ranked = [hit(chunk(2 * i, 14 * i, 14 * i + 14), 1.0 - i / 10, i + 1) for i in range(5)]
    passages = choose(ranked, num_passages=3, max_tokens=1000)
    assert [passage.score for passage in passages] == [1.0, 0.9, 0.8]


def test_what_does_not_fit_is_passed_over_but_the_first_is_always_taken() -> None:
    big, small = chunk(0, 0, 20, tokens=500), chunk(4, 20, 40, tokens=30)
    alone = choose([hit(big, 0.9, 1), hit(small, 0.8, 2)], num_passages=6, max_tokens=100)
    assert [p.num_generator_tokens for p in alone] == [500]
    both = choose([hit(small, 0.9, 1), hit(big, 0.8, 2)], num_passages=6, max_tokens=100)
    assert [p.num_generator_tokens for p in both] == [30]


def test_nothing_found_gives_nothing() -> None:
    assert choose([], num_passages=6, max_tokens=100) == []


LONG = "The committee meets on the first Monday of each month and publishes its minutes within ten days."
LONG_ZH = "委员会每月第一个星期一召开会议，会议纪要在十天之内公布，每位委员都可以书面提出意见。"


def said(text: str, document: str, position: int = 0) -> LiveChunk:
    whole = chunk(position, 0, 20, document=document)
    return replace(whole, start=position * 500, end=position * 500 + len(text), text=text)


def test_repeats_of_other_documents_do_not_fill_the_passages() -> None:
    copies = [
        hit(said(text, f"doc_{i}{text[0]}"), 0.9 - i / 100, i + 1)
        for text in (LONG, LONG_ZH)
        for i in range(9)
    ]
    other = hit(said("Remarks are added in writing.", "doc_z"), 0.1, 60)
    merged = merge_passages([*copies, other], num_passages=6, max_tokens=1000)
    assert [p.text for p in merged.passages] == [LONG, LONG_ZH, "Remarks are added in writing."]
    assert merged.num_duplicates == 16


def test_a_repeat_with_other_numbers_stays() -> None:
    years = [
        hit(said(f"{LONG} Revenue in {year}: {year * 7}.", f"doc_{year}"), 0.9, 1) for year in (2021, 2022)
    ]
    merged = merge_passages(years, num_passages=6, max_tokens=1000)
    assert len(merged.passages) == 2
    assert merged.num_duplicates == 0


def test_what_is_new_comes_before_what_half_repeats() -> None:
    first = hit(said(LONG, "doc_a"), 0.9, 1)
    half = hit(
        said(f"{LONG} Its chair is elected for three years by all members, present or not.", "doc_b"), 0.8, 2
    )
    new = hit(said(LONG_ZH, "doc_c"), 0.3, 3)
    two = merge_passages([first, half, new], num_passages=2, max_tokens=1000)
    assert [p.document_id for p in two.passages] == ["doc_a", "doc_c"]
    three = merge_passages([first, half, new], num_passages=3, max_tokens=1000)
    assert [p.document_id for p in three.passages] == ["doc_a", "doc_b", "doc_c"]
