"""Prompt layout in token ids, with a tokenizer of one token a character."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from core.errors import TooLong
from core.language import is_chinese
from generation.instructions import REFUSALS, instructions_for, question_language
from generation.prompt import Prompt, build_prompt
from generation.segments import PromptPassage, Segment, pack_passages
from inference.protocols import ChatFrame
from retrieval.history.turns import Turn

FRAME = ChatFrame(head=(-1, -2), middle=(-3, -4, -5), tail=(-6,))
ENGLISH = "How long is the Yangtze?"
CHINESE = "长江有多长？"


class CharacterTokenizer:
    def encode(self, text: str) -> list[int]:
        return [ord(character) for character in text]

    def decode(self, token_ids: Sequence[int]) -> str:
        return "".join(chr(token) if token >= 0 else f"<{-token}>" for token in token_ids)

    def count(self, text: str) -> int:
        return len(text)

    def token_starts(self, text: str) -> list[int]:
        return list(range(len(text)))


TOKENIZER = CharacterTokenizer()
RIVERS = PromptPassage("p1", "rivers.pdf, page 3", "The Yangtze is 6,300 km long.")
HEADWATERS = PromptPassage("p2", "河流.docx，第 2 页", "长江全长约6300公里。")
LAKES = PromptPassage("p3", "lakes.pdf, page 9", "Poyang is a lake.")


def prompt(
    *passages: PromptPassage, question: str = ENGLISH, max_prompt_tokens: int = 5000, **fields: object
) -> Prompt:
    return build_prompt(
        TOKENIZER,
        FRAME,
        instructions=instructions_for(question),
        passages=passages,
        question=question,
        max_prompt_tokens=max_prompt_tokens,
        **fields,  # type: ignore[arg-type]
    )


def text_of(built: Prompt) -> str:
    return TOKENIZER.decode(built.token_ids)


def common_prefix(one: Prompt, other: Prompt) -> str:
    length = 0
    for left, right in zip(one.token_ids, other.token_ids, strict=False):
        if left != right:
            break
        length += 1
    return TOKENIZER.decode(one.token_ids[:length])


def test_layout_goes_from_what_never_changes_to_the_question() -> None:
    built = prompt(RIVERS, HEADWATERS, context="Collection: rivers", history=[Turn("Hi?", "Hello.")])
    kinds = [segment.kind for segment in built.segments]
    assert kinds == [
        *("frame", "system", "frame", "context"),
        *("frame", "passage", "frame", "passage"),
        *("history", "history", "question", "frame"),
    ]
    assert built.token_ids == tuple(token for segment in built.segments for token in segment.token_ids)
    text = text_of(built)
    assert text.startswith("<1><2>You answer")
    assert text.endswith(f"Question: {ENGLISH}<6>")
    assert "[1] rivers.pdf, page 3\nThe Yangtze is 6,300 km long.\n\n[2] 河流.docx，第 2 页\n长江" in text
    assert "User: Hi?\nAssistant: Hello.\n" in text


def test_included_passages_are_in_the_order_of_their_numbers() -> None:
    built = prompt(HEADWATERS, RIVERS)
    assert built.included == (HEADWATERS, RIVERS)
    assert [segment.source_ids for segment in built.segments if segment.kind == "passage"] == [
        ("p2",),
        ("p1",),
    ]


def test_passage_has_the_same_token_ids_wherever_it_stands() -> None:
    def ids(built: Prompt) -> tuple[int, ...]:
        return next(segment.token_ids for segment in built.segments if segment.source_ids == ("p1",))

    assert ids(prompt(RIVERS, LAKES)) == ids(prompt(LAKES, HEADWATERS, RIVERS, question=CHINESE))


def test_other_question_in_another_language_shares_everything_up_to_the_last_passage() -> None:
    shared = common_prefix(prompt(RIVERS, LAKES), prompt(RIVERS, LAKES, question=CHINESE))
    assert shared.endswith("Poyang is a lake.\n\n")


def test_prompts_that_agree_on_the_first_passages_share_them() -> None:
    shared = common_prefix(prompt(RIVERS, LAKES), prompt(RIVERS, HEADWATERS))
    assert shared.endswith("6,300 km long.\n\n[2] ")


@pytest.mark.parametrize(
    ("question", "language", "cite", "refusal"),
    [(ENGLISH, "en", "like [1]", REFUSALS[0]), (CHINESE, "zh", "例如 [1]", REFUSALS[1])],
)
def test_instructions_follow_the_language_of_the_question(
    question: str, language: str, cite: str, refusal: str
) -> None:
    assert question_language(question) == language
    text = text_of(prompt(RIVERS, question=question))
    assert cite in text
    assert refusal in text
    assert instructions_for(question).refusal == refusal


def test_long_passage_is_left_out_whole_and_a_shorter_one_still_taken() -> None:
    bulky = PromptPassage("p9", "book.pdf, page 1", "word " * 100)
    built = prompt(RIVERS, bulky, LAKES, max_passage_tokens=120)
    assert built.included == (RIVERS, LAKES)
    (dropped,) = built.dropped
    assert dropped.id == "p9"
    assert dropped.reason == f"needs {dropped.num_tokens} tokens, {dropped.remaining_tokens} were left"
    assert "[2] lakes.pdf" in text_of(built)


@pytest.mark.parametrize("spare", range(0, 130, 13))
def test_prompt_never_exceeds_its_limit(spare: int) -> None:
    least = prompt().num_tokens
    turns = [Turn("Where?", "There."), Turn("When?", "Then.")]
    built = prompt(RIVERS, LAKES, HEADWATERS, max_prompt_tokens=least + spare, history=turns)
    assert built.num_tokens <= least + spare
    assert len(built.included) + len(built.dropped) == 3


def test_packing_is_exact_to_the_token() -> None:
    passages = [Segment("passage", tuple(range(length)), (str(length),)) for length in (10, 20, 5)]
    packing = pack_passages(passages, budget_tokens=33, marker_tokens=lambda number: 1)
    assert [len(segment) for segment in packing.included] == [10, 20]
    assert packing.num_tokens == 32
    assert [(drop.num_tokens, drop.remaining_tokens) for drop in packing.dropped] == [(6, 1)]
    assert pack_passages(passages, budget_tokens=-5).included == ()


def test_newest_turns_stay_when_the_conversation_is_long() -> None:
    turns = [Turn(f"question {number}", "answer " * 20) for number in range(10)]
    built = prompt(RIVERS, history=turns, max_prompt_tokens=prompt().num_tokens + 1600)
    assert 0 < built.num_dropped_turns < 10
    text = text_of(built)
    assert "question 9" in text
    assert "question 0" not in text
    assert built.included == (RIVERS,)


def test_question_beyond_the_window_is_refused_with_the_numbers() -> None:
    least = prompt(question="?").num_tokens
    with pytest.raises(TooLong, match=rf"has 500 tokens.*399 more than the {least + 100} tokens") as caught:
        prompt(question="?" * 500, max_prompt_tokens=least + 100)
    assert "at most 101 tokens" in caught.value.remedy
    assert caught.value.context == {"question_tokens": 500, "max_prompt_tokens": least + 100}
    assert prompt(question="?" * 101, max_prompt_tokens=least + 100).included == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("长江有多长？", True),
        ("GPT-4 和 BERT 有什么区别", True),
        ("請問長江有多長", True),
        ("What does 龙 mean in Chinese?", False),
        ("How long is it?", False),
        ("東京はどこですか", False),
        ("한국의 수도는", False),
        ("2024?", False),
        ("", False),
    ],
)
def test_language_is_told_by_the_share_of_han(text: str, expected: bool) -> None:
    assert is_chinese(text) is expected


def test_a_small_model_gets_no_numbers_and_is_led_to_the_answer() -> None:
    brief = instructions_for("谁建的？", brief=True)
    assert not brief.is_numbered
    assert brief.answer_label == "\nAnswer:"
    assert brief.system == instructions_for("谁建的？", mode="quoted", brief=True).system
    assert instructions_for("谁建的？", mode="quoted", brief=True).is_numbered


def test_the_ranking_is_told_by_the_numbers_of_the_prompt_in_the_questions_language() -> None:
    english = text_of(prompt(RIVERS, HEADWATERS, LAKES, ranking=["p3", "p1"]))
    assert "Passages by relevance to the question, most relevant first: [3], [1].\n\nAnswer the" in english
    chinese = text_of(prompt(RIVERS, HEADWATERS, LAKES, ranking=["p2", "p3"], question=CHINESE))
    assert "与问题最相关的段落，按相关程度排列：[2]、[3]。" in chinese


def test_the_ranking_stands_behind_the_history_and_names_no_passage_that_was_left_out() -> None:
    full = prompt(RIVERS, HEADWATERS, history=[Turn("Hi?", "Hello.")], ranking=["p2", "p1"])
    assert text_of(full).index("Hello.") < text_of(full).index("[2], [1]")
    cut = prompt(RIVERS, HEADWATERS, ranking=["p2", "p1"], max_passage_tokens=60)
    assert len(cut.dropped) == 1
    assert "most relevant first: [1]." in text_of(cut)


def test_prompts_of_one_order_share_all_passages_whatever_their_ranking() -> None:
    one = prompt(RIVERS, HEADWATERS, ranking=["p1", "p2"])
    other = prompt(RIVERS, HEADWATERS, ranking=["p2", "p1"])
    assert HEADWATERS.text in common_prefix(one, other)


def test_a_brief_prompt_has_no_ranking() -> None:
    built = build_prompt(
        TOKENIZER,
        FRAME,
        instructions=instructions_for(ENGLISH, brief=True),
        passages=[RIVERS, LAKES],
        question=ENGLISH,
        max_prompt_tokens=5000,
        ranking=["p3", "p1"],
    )
    assert "relevan" not in text_of(built)
