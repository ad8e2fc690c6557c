"""What is worth computing before it is asked for, and what that was good for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from core.ids import ConversationId, DocumentId
from generation.prefix.pieces import PieceKey
from generation.prewarm.heads import BuiltHead, Head, fit_heads, propose_heads
from generation.prewarm.report import PrewarmedHead, heads_of, report_prewarm
from storage.prewarm_jobs import SentPrompt

NOW = datetime(2026, 12, 1, tzinfo=UTC)


def sent(
    *order: str,
    mode: str = "abstractive",
    num_static: int = 0,
    conversation: str | None = None,
    cached_tokens: int = 0,
    minutes: int = 0,
) -> SentPrompt:
    return SentPrompt(
        ConversationId(conversation) if conversation else None,
        mode,
        {"order": list(order), "num_static": num_static},
        cached_tokens,
        NOW + timedelta(minutes=minutes),
    )


def proposed(
    prompts: Sequence[SentPrompt], static: Sequence[str] = (), *, default_mode: str = "abstractive"
) -> list[tuple[str, tuple[str, ...], int]]:
    heads = propose_heads(prompts, [DocumentId(name) for name in static], default_mode=default_mode)
    return [(head.kind, tuple(head.keys), head.uses) for head in heads]


def test_what_several_prompts_began_with_is_proposed_as_far_as_they_agree() -> None:
    heads = proposed([sent("a", "b", "c"), sent("a", "b", "d"), sent("a", "x"), sent("y")])
    assert heads == [("instructions", (), 5), ("shared", ("a",), 3), ("shared", ("a", "b"), 2)]


def test_a_prompt_that_came_once_is_not_proposed() -> None:
    assert proposed([sent("a", "b")]) == [("instructions", (), 2)]


def test_what_was_bought_for_a_document_is_proposed_after_one_use() -> None:
    assert ("static", ("whole:doc",), 1) in proposed([sent("whole:doc", "b", num_static=1)])


def test_marked_documents_are_proposed_unasked_and_by_how_often_they_stood_in_front() -> None:
    heads = propose_heads(
        [sent("whole:hot"), sent("whole:hot")],
        [DocumentId("cold"), DocumentId("hot")],
        default_mode="abstractive",
    )
    static = [(head.keys, head.uses, head.is_marked) for head in heads if head.keys]
    assert static == [(("whole:hot",), 3, True), (("whole:cold",), 1, True)]


def test_of_a_conversation_its_last_prompt_is_proposed() -> None:
    heads = proposed([sent("a", "b", "c", conversation="c1"), sent("a", "b", conversation="c1")])
    assert ("conversation", ("a", "b", "c"), 1) in heads
    assert ("shared", ("a", "b"), 2) in heads


def test_nothing_is_written_nothing_is_proposed() -> None:
    assert proposed([], ["doc"], default_mode="extractive") == []


def test_modes_have_heads_of_their_own() -> None:
    heads = propose_heads([sent("a", mode="quoted")] * 2, [], default_mode="abstractive")
    assert {(head.mode, head.keys) for head in heads} == {
        ("quoted", ()),
        ("quoted", ("a",)),
        ("abstractive", ()),
    }


def built(*token_ids: int) -> BuiltHead:
    return BuiltHead(Head("shared", "abstractive", (PieceKey("a"),), 1), token_ids)


def test_heads_fit_their_room_and_what_they_share_counts_once() -> None:
    first, longer, other, last = (
        built(*range(100)),
        built(*range(150)),
        built(*range(900, 1000)),
        built(*range(200, 230)),
    )
    assert list(fit_heads([first, longer, other, last], budget_tokens=180)) == [first, longer, last]


def test_a_head_within_another_is_computed_with_it() -> None:
    assert list(fit_heads([built(*range(100)), built(*range(40))], budget_tokens=1000)) == [
        built(*range(100))
    ]


def head(*order: str, computed: int = 500, num_tokens: int = 600) -> PrewarmedHead:
    return PrewarmedHead("abstractive", order, num_tokens, computed, NOW)


def test_a_head_is_found_when_a_later_prompt_begins_with_it_and_its_tokens_were_cached() -> None:
    report = report_prewarm(
        [head("a"), head("b"), head("c"), head("d")],
        [
            sent("a", "x", cached_tokens=576, minutes=1),
            sent("a", "y", cached_tokens=576, minutes=2),
            sent("b", cached_tokens=200, minutes=1),
            sent("c", cached_tokens=600, minutes=-1),
            sent("d", cached_tokens=600, minutes=1, mode="quoted"),
        ],
    )
    assert (report.num_heads, report.num_found) == (4, 1)
    assert (report.computed_tokens, report.found_tokens, report.wasted_tokens) == (2000, 500, 1500)
    assert report.hit_rate == 0.25


def test_what_was_cached_already_is_neither_hit_nor_waste() -> None:
    said = {"mode": "abstractive", "order": ["a"], "num_tokens": 600}
    progress = {"heads": [said | {"computed_tokens": 0}, said | {"computed_tokens": 24}]}
    assert heads_of(progress, NOW) == []
    assert report_prewarm([], []).hit_rate == 0
