"""How many tokens a question will take, before it is asked: no model is loaded and nothing is read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from accounting.recent_usage import AnswerUse
from accounting.stages import Stage
from core.settings import AskSettings
from generation.instructions import instructions_for
from generation.questions import QuestionParameters
from generation.sampling import sampling_of
from storage.collection_size import CollectionSize

MIN_SIMILAR = 5
"""Answers of the same collection and mode from which what they used is what to expect."""

_HAN = re.compile(r"[㐀-鿿豈-﫿]")
_CHARACTERS_PER_TOKEN = 4.0  # of text in letters
_TOKENS_PER_HAN = 0.75  # of a model that speaks Chinese
_TOKENS_PER_FOREIGN_HAN = 2.0  # of one that has only their bytes
_FRAME_TOKENS = 24  # the chat template's own
_BLOCK_TOKENS = 32  # a prefix is cached in whole blocks, so the last of them is computed


@dataclass(frozen=True, slots=True)
class Span:
    """Tokens at least, as expected, at most."""

    low: int
    expected: int
    high: int

    def __post_init__(self) -> None:
        assert self.low <= self.expected <= self.high, self

    @classmethod
    def exactly(cls, number: int) -> Span:
        return cls(number, number, number)

    @classmethod
    def around(cls, low: int, expected: float, high: int) -> Span:
        """`expected` drawn into the bounds where it lies outside."""
        return cls(low, min(max(low, round(expected)), high), high)


Forecast = Mapping[Stage, Span]


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What of the models matters to lengths.

    Args:
        mode: `auto` resolved.
        extraction: what `auto` keeps of passages by; `none`: passages go in whole.
        extracted_tokens: room for what is kept.
        speaks_chinese: False: Han characters take several tokens each.
    """

    mode: str
    extraction: str
    extracted_tokens: int
    is_brief: bool
    speaks_chinese: bool
    max_model_len: int


def estimate_tokens(text: str, *, speaks_chinese: bool = True) -> int:
    """Tokens of a text by its characters: an estimate, within a third for ordinary prose."""
    num_han = len(_HAN.findall(text))
    per_han = _TOKENS_PER_HAN if speaks_chinese else _TOKENS_PER_FOREIGN_HAN
    return round(num_han * per_han + (len(text) - num_han) / _CHARACTERS_PER_TOKEN) + 1


def forecast_tokens(
    question: str,
    parameters: QuestionParameters,
    *,
    settings: AskSettings,
    facts: ModelFacts,
    size: CollectionSize,
    similar: Sequence[AnswerUse],
) -> Forecast:
    """Tokens by the stage that prices them; stages that the question does not touch are left out.

    Bounds follow from the settings and the length of the collection's chunks. Within them, what
    `similar` answers used is what to expect, where there are `MIN_SIMILAR` of them.
    """
    forecast = _encoder_tokens(question, parameters, settings, size)
    if facts.mode != "extractive" and size.num_chunks:
        forecast |= _generator_tokens(question, parameters, settings, facts, size)
    if len(similar) < MIN_SIMILAR:
        return forecast
    return _as_similar(forecast, similar)


def longest_answer(parameters: QuestionParameters, settings: AskSettings) -> int:
    """Tokens that the answer may have at most, by its presets and by what was asked for."""
    return sampling_of(parameters, default_max_tokens=settings.max_answer_tokens).max_tokens


def explicit_tokens(*, prompt_tokens: int, cached_tokens: int, completion_tokens: int) -> Forecast:
    """The forecast of a request whose tokens are known."""
    counts = {
        Stage.PREFILL_UNCACHED: prompt_tokens - cached_tokens,
        Stage.PREFILL_CACHED: cached_tokens,
        Stage.DECODE: completion_tokens,
    }
    return {stage: Span.exactly(count) for stage, count in counts.items()}


def _encoder_tokens(
    question: str, parameters: QuestionParameters, settings: AskSettings, size: CollectionSize
) -> dict[Stage, Span]:
    asked = estimate_tokens(question)
    most_queries = 1 if parameters.expansion == "none" else 5
    forecast = {Stage.EMBED: Span(asked // 2, asked, 2 * asked * most_queries)}
    if not size.num_chunks:
        return forecast
    reranks = settings.rerank if parameters.rerank is None else parameters.rerank
    # Sentences that were embedded to rerank are not embedded again to be chosen from.
    num_passages = min(size.num_chunks, parameters.num_passages or settings.num_passages)
    read = round(num_passages * size.mean_tokens)
    if reranks:
        num_reranked = min(size.num_chunks, settings.num_reranked)
        ranked = round(num_reranked * (size.mean_tokens + asked))
        forecast[Stage.RERANK] = Span(0, ranked, 2 * ranked)
    forecast[Stage.EXTRACT] = Span(0, round(0.1 * read) if reranks else read, 2 * read)
    return forecast


def _generator_tokens(
    question: str,
    parameters: QuestionParameters,
    settings: AskSettings,
    facts: ModelFacts,
    size: CollectionSize,
) -> dict[Stage, Span]:
    num_samples = parameters.n or 1
    max_tokens = longest_answer(parameters, settings)
    room = max(1, facts.max_model_len - max_tokens)
    fixed = _fixed_tokens(question, facts)
    material = _material_tokens(parameters, settings, facts, size)
    prompt = Span.around(
        min(room, fixed), fixed + material.expected, min(room, round(1.3 * fixed) + material.high)
    )
    last_block = min(_BLOCK_TOKENS, prompt.expected)
    cached = prompt.expected - last_block
    others = num_samples - 1  # they find the first one's prompt, where the engine keeps prompts at all
    return {
        # The cheapest is a prompt that was computed before but for its last block, the dearest none of it.
        Stage.PREFILL_UNCACHED: Span(
            num_samples * last_block, prompt.expected + others * last_block, num_samples * prompt.high
        ),
        Stage.PREFILL_CACHED: Span(0, others * cached, cached + others * prompt.high),
        Stage.DECODE: Span.around(num_samples, num_samples * max_tokens / 2, num_samples * max_tokens),
    }


def _fixed_tokens(question: str, facts: ModelFacts) -> int:
    words = instructions_for(question, mode=facts.mode, brief=facts.is_brief)
    texts = (
        words.system,
        words.passages_label,
        words.task,
        words.question_label,
        question,
        words.answer_label,
    )
    return _FRAME_TOKENS + sum(estimate_tokens(text, speaks_chinese=facts.speaks_chinese) for text in texts)


def _material_tokens(
    parameters: QuestionParameters, settings: AskSettings, facts: ModelFacts, size: CollectionSize
) -> Span:
    """Passages, what is kept of them, or a document whole."""
    most_whole = min(size.longest_document_tokens, settings.max_whole_tokens)
    context = settings.context if parameters.context == "auto" else parameters.context
    if context == "whole":
        return Span(0, most_whole, most_whole)
    num_passages = min(size.num_chunks, parameters.num_passages or settings.num_passages)
    found = round(num_passages * size.mean_generator_tokens)
    room = parameters.max_context_tokens or settings.max_context_tokens
    method = facts.extraction if parameters.extraction == "auto" else parameters.extraction
    kept = min(found, room) if method == "none" else min(found, room, facts.extracted_tokens)
    # Neighbouring chunks are merged into passages longer than one, up to the room there is.
    most = room if method == "none" else min(room, max(kept, facts.extracted_tokens))
    return Span(0, min(kept, most), max(most, most_whole if context == "auto" else 0))


def _as_similar(forecast: Mapping[Stage, Span], similar: Sequence[AnswerUse]) -> dict[Stage, Span]:
    """The forecast with what similar answers used on average in its middle, and their least below."""
    known = {stage for use in similar for stage in use.tokens}
    result = {}
    for stage in {**forecast, **dict.fromkeys(sorted(known))}:
        used = [use.tokens.get(stage, 0) for use in similar]
        bounds = forecast.get(stage, Span(0, 0, 2 * max(used)))
        high = max(bounds.high, max(used))
        result[stage] = Span.around(min(bounds.low, min(used)), fmean(used), high)
    return result
