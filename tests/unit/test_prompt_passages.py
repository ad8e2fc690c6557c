"""Which passages stay whole so that prompts share them."""

from __future__ import annotations

from core.ids import ChunkId, DocumentId
from generation.prompt_passages import PassagePlan, passage_id, plan_passages
from retrieval.passages import Passage


def passage(name: str, *, num_tokens: int = 100, start: int = 0) -> Passage:
    return Passage(
        document_id=DocumentId(name),
        document_name=name,
        document_title="",
        start=start,
        end=start + 10,
        first_page=1,
        last_page=1,
        headings=(),
        text="0123456789",
        score=1.0,
        chunk_ids=(ChunkId(1),),
        dense_score=None,
        lexical_score=None,
        dense_rank=None,
        lexical_rank=None,
        num_generator_tokens=num_tokens,
        has_gaps=False,
    )


A, B, C, D = (passage(name) for name in "abcd")
IDS = {name: passage_id(p) for name, p in zip("abcd", (A, B, C, D), strict=True)}


def names(passages: tuple[Passage, ...]) -> str:
    return "".join(p.document_id for p in passages)


def plan(
    passages: list[Passage],
    *,
    sent: tuple[str, ...] = (),
    found: tuple[str, ...] = (),
    hot: int = 3,
    room: int = 1000,
) -> PassagePlan:
    return plan_passages(
        passages,
        sent_whole=[[IDS[name] for name in prompt] for prompt in sent],
        found_before=[[IDS[name] for name in ids] for ids in found],
        hot_questions=hot,
        max_whole_tokens=room,
    )


def test_nothing_is_whole_that_no_prompt_shares() -> None:
    result = plan([B, A])
    assert (names(result.whole), names(result.tail)) == ("", "ba")


def test_what_an_earlier_prompt_began_with_stays_in_its_place() -> None:
    result = plan([C, B, A], sent=("abd",))
    assert (names(result.whole), names(result.tail)) == ("ab", "c")


def test_a_prompt_is_shared_only_up_to_the_first_passage_that_is_not_wanted() -> None:
    assert names(plan([B, A], sent=("dab",)).whole) == ""


def test_the_longest_shared_beginning_wins_and_the_first_of_equals() -> None:
    assert names(plan([A, B, C], sent=("a", "bc")).whole) == "bc"
    assert names(plan([A, B, C], sent=("ba", "bc")).whole) == "ba"


def test_a_passage_found_again_and_again_is_sent_whole_in_an_order_that_does_not_change() -> None:
    found = ("ab", "ab")
    assert names(plan([B, C, A], found=found).whole) == names(plan([A, B], found=found).whole) == "ab"
    assert names(plan([A, B], found=("ab",)).whole) == ""
    assert names(plan([A, B], found=("ab", "ab"), hot=0).whole) == ""


def test_whole_passages_end_where_their_room_does_and_the_rest_is_shortened() -> None:
    result = plan([A, B, C], sent=("abc",), room=250)
    assert (names(result.whole), names(result.tail)) == ("ab", "c")
