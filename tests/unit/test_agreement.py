"""Which answers say the same, by words and numbers alone; test_models.py has the embedder's part."""

from __future__ import annotations

import pytest

from generation.agreement import Agreement, agreement_of
from retrieval.sentence_vectors import SentenceVectors
from tests.answer_pairs import PAIRS, AnswerPair
from tests.hashing_embedder import HashingEmbedder

MISSED = 9
"""Of the pairs that say the same, those that only a real embedder finds."""


def agree(question: str, *answers: str) -> Agreement:
    return agreement_of(answers, question, vectors=SentenceVectors(HashingEmbedder()))


def is_one(pair: AnswerPair) -> bool:
    return len(agree(pair.question, pair.one, pair.other).clusters) == 1


def test_the_majority_is_chosen_with_its_share() -> None:
    found = agree(
        "How long is the Yangtze?",
        "5,464 km",
        "6,300 km",
        "It is 6300 km long.",
        "The Yangtze is 6,300 km long.",
    )
    assert found.clusters == ((1, 2, 3), (0,))
    assert found.chosen in (1, 2, 3)
    assert found.score == 0.75


def test_a_chinese_majority_counts_numerals_as_numbers() -> None:
    found = agree("长江有多长？", "六千三百公里", "5464公里", "长江全长6300公里。", "约6300公里")
    assert found.clusters == ((0, 2, 3), (1,))


def test_refusals_agree_with_one_another_only() -> None:
    assert agree("Who won?", "", "Rome won.", "").clusters == ((0, 2), (1,))


def test_of_groups_of_one_size_the_more_alike_counts_then_the_earlier() -> None:
    assert agree("Who won?", "Rome", "Carthage").clusters == ((0,), (1,))
    assert agree("Who won?", "Rome won the war", "Carthage", "carthage!", "It was Rome").clusters[0] == (1, 2)


def test_one_answer_agrees_with_itself() -> None:
    assert agree("Who won?", "Rome") == Agreement(((0,),), 0, 1.0)


def test_whatever_is_in_a_group_agrees_with_all_of_it() -> None:
    # The one in the middle agrees with both, which do not agree with each other.
    found = agree("What colour?", "red and white", "red", "blue and red stripes, white dots")
    for cluster in found.clusters:
        for i in cluster:
            for j in cluster:
                texts = ("red and white", "red", "blue and red stripes, white dots")
                assert i == j or len(agree("What colour?", texts[i], texts[j]).clusters) == 1


@pytest.mark.parametrize("pair", [pair for pair in PAIRS if not pair.same and "red" not in pair.other])
def test_answers_that_say_different_things_are_never_taken_for_one(pair: AnswerPair) -> None:
    assert not is_one(pair)


def test_most_answers_that_say_the_same_are_found_by_their_words_alone() -> None:
    missed = [pair for pair in PAIRS if pair.same and not is_one(pair)]
    assert len(missed) <= MISSED, missed
