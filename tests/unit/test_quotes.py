"""Tokens of a question before it is asked."""

from __future__ import annotations

import pytest

from accounting.recent_usage import AnswerUse
from accounting.stages import Stage
from core.settings import AskSettings
from generation.questions import QuestionParameters
from generation.quotes import (
    Forecast,
    ModelFacts,
    Span,
    estimate_tokens,
    explicit_tokens,
    forecast_tokens,
)
from storage.collection_size import CollectionSize

SETTINGS = AskSettings()  # type: ignore[call-arg]
LARGE = ModelFacts("abstractive", "none", 600, is_brief=False, speaks_chinese=True, max_model_len=8192)
SIZE = CollectionSize(
    num_chunks=200, mean_tokens=200.0, mean_generator_tokens=240.0, longest_document_tokens=5000
)


def forecast(
    question: str = "How high is the tower?",
    facts: ModelFacts = LARGE,
    size: CollectionSize = SIZE,
    similar: tuple[AnswerUse, ...] = (),
    **parameters: object,
) -> Forecast:
    return forecast_tokens(
        question,
        QuestionParameters(**parameters),  # type: ignore[arg-type]
        settings=SETTINGS,
        facts=facts,
        size=size,
        similar=similar,
    )


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("The quick brown fox jumps over the lazy dog.", 11), ("这座塔有多高？", 5), ("", 1)],
)
def test_tokens_are_estimated_by_language(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == pytest.approx(tokens, abs=2)


def test_a_model_without_chinese_takes_its_bytes() -> None:
    text = "这座塔有多高" * 10
    assert estimate_tokens(text, speaks_chinese=False) > 2 * estimate_tokens(text)


def test_a_written_answer_reads_passages_and_writes_at_most_what_was_allowed() -> None:
    found = forecast(max_tokens=100)
    assert found[Stage.DECODE].high == 100
    prompt = found[Stage.PREFILL_UNCACHED]
    assert 6 * 240 < prompt.expected < 6 * 240 + 300
    assert prompt.high > prompt.expected
    assert found[Stage.PREFILL_CACHED].low == 0


def test_presets_and_samples_say_how_much_is_written() -> None:
    assert forecast(length="short")[Stage.DECODE].high == 100
    assert forecast(n=3, max_tokens=50, temperature=0.7)[Stage.DECODE].high == 150


def test_each_sample_has_the_prompt_and_all_but_the_first_find_it() -> None:
    one, four = forecast(), forecast(n=4, temperature=0.7)
    assert (one[Stage.PREFILL_CACHED].low, one[Stage.PREFILL_CACHED].expected) == (0, 0)
    prompt = one[Stage.PREFILL_UNCACHED].expected
    assert four[Stage.PREFILL_UNCACHED].expected == prompt + 3 * 32
    assert four[Stage.PREFILL_CACHED].expected == 3 * (prompt - 32)
    assert four[Stage.PREFILL_UNCACHED].high == 4 * one[Stage.PREFILL_UNCACHED].high


def test_an_extractive_answer_asks_nothing_of_the_generator() -> None:
    found = forecast(facts=ModelFacts("extractive", "embedding", 150, True, False, 8192))
    assert set(found) == {Stage.EMBED, Stage.RERANK, Stage.EXTRACT}
    assert Stage.RERANK not in forecast(rerank=False)


def test_what_is_kept_of_passages_is_what_the_prompt_holds() -> None:
    small = ModelFacts(
        "abstractive", "embedding", 150, is_brief=True, speaks_chinese=False, max_model_len=8192
    )
    kept, whole = forecast(facts=small), forecast(facts=small, context="whole")
    assert kept[Stage.PREFILL_UNCACHED].expected < 400
    assert whole[Stage.PREFILL_UNCACHED].expected > 5000


def test_a_prompt_is_never_longer_than_the_window() -> None:
    tight = ModelFacts("abstractive", "none", 600, False, True, max_model_len=1024)
    found = forecast(facts=tight, max_tokens=200)
    assert found[Stage.PREFILL_UNCACHED].high <= 824


def test_an_empty_collection_is_refused_for_the_price_of_embedding() -> None:
    assert set(forecast(size=CollectionSize())) == {Stage.EMBED}


def test_what_such_answers_used_is_what_to_expect() -> None:
    use = AnswerUse(
        {Stage.EMBED: 9, Stage.PREFILL_UNCACHED: 300, Stage.PREFILL_CACHED: 900, Stage.DECODE: 40}, {}
    )
    found = forecast(similar=(use,) * 5)
    assert found[Stage.PREFILL_CACHED].expected == 900
    assert found[Stage.DECODE].expected == 40
    assert found[Stage.DECODE].high == SETTINGS.max_answer_tokens
    assert found[Stage.RERANK].expected == 0  # what was not used is not expected
    assert forecast(similar=(use,) * 4)[Stage.PREFILL_CACHED].expected == 0


def test_known_tokens_are_quoted_as_they_are() -> None:
    found = explicit_tokens(prompt_tokens=1000, cached_tokens=600, completion_tokens=50)
    assert found[Stage.PREFILL_UNCACHED] == Span.exactly(400)
    assert found[Stage.PREFILL_CACHED] == Span.exactly(600)
    assert found[Stage.DECODE] == Span.exactly(50)
