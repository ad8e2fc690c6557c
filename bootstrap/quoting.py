"""Quotes: what a question will take and cost, before it runs. Loads no model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from statistics import median
from typing import Literal

from sqlalchemy.orm import Session

from accounting.money import cost_of
from accounting.price_table import AppliedPrice, prices_at
from accounting.recent_usage import AnswerUse, list_similar_uses
from accounting.stages import Stage
from bootstrap.capacity import MAX_TIMED, sample_of, typical_overhead_seconds
from bootstrap.model_defaults import ModelDefaults
from core.clock import utc_now
from core.errors import EmptyInput, InvalidInput, TooLong
from core.ids import CollectionId, TenantId
from core.settings import Settings
from generation.questions import QuestionParameters
from generation.quotes import (
    MIN_SIMILAR,
    Forecast,
    ModelFacts,
    Span,
    explicit_tokens,
    forecast_tokens,
    longest_answer,
)
from inference.capacity.rates import fit_rates
from inference.registry import ModelSpec, find_model
from storage.collection_size import CollectionSize, collection_size
from storage.collections import CollectionRepository
from storage.engine_samples import list_timed_answers

_MAX_SIMILAR = 50
_ENCODER_STAGES = (Stage.EMBED, Stage.RERANK, Stage.EXTRACT)

Case = Literal["low", "expected", "high"]


@dataclass(frozen=True, slots=True)
class QuotedLine:
    """Tokens of one stage, the model that does it, and its price in force now."""

    stage: Stage
    model: str
    tokens: Span
    price_per_million: Decimal

    def cost(self, case: Case) -> Decimal:
        tokens: int = getattr(self.tokens, case)
        return cost_of(tokens, self.price_per_million)


@dataclass(frozen=True, slots=True)
class QuotedSeconds:
    """Expected with nobody else asking; None where nothing was measured yet.

    `high_seconds`: nothing cached, and as long an answer as may be.
    """

    ttft_seconds: float | None = None
    tpot_seconds: float | None = None
    total_seconds: float | None = None
    high_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Quote:
    """`basis` says in words what each estimate rests on."""

    mode: str
    lines: tuple[QuotedLine, ...]
    seconds: QuotedSeconds
    currency: str
    basis: tuple[str, ...]

    def tokens(self, *stages: Stage) -> Span:
        """The tokens of these stages together."""
        spans = [line.tokens for line in self.lines if line.stage in stages]
        return Span(
            sum(span.low for span in spans),
            sum(span.expected for span in spans),
            sum(span.high for span in spans),
        )

    def cost(self, case: Case) -> Decimal:
        return sum((line.cost(case) for line in self.lines), Decimal(0))


@dataclass(frozen=True, slots=True)
class _Expected:
    """A forecast and what it rests on."""

    tokens: Forecast
    size: CollectionSize
    similar: Sequence[AnswerUse]


def quote_question(
    session: Session,
    tenant_id: TenantId,
    settings: Settings,
    *,
    collection_id: CollectionId,
    question: str,
    parameters: QuestionParameters,
) -> Quote:
    """What asking this would take.

    Raises:
        NotFound: no such collection of the tenant.
        EmptyInput: the question has no letter or digit.
        TooLong: the answer asked for leaves no room for a prompt.
    """
    CollectionRepository(session, tenant_id).get(collection_id)
    if not any(character.isalnum() for character in question):
        raise EmptyInput("The question is empty.", remedy="Ask something in `question`.")
    facts = _facts(settings, parameters)
    _check_room(longest_answer(parameters, settings.ask), facts.max_model_len)
    expected = _forecast(session, tenant_id, settings, facts, collection_id, question, parameters)
    basis = _basis_of_tokens(expected.size.num_chunks, len(expected.similar))
    return priced(session, tenant_id, settings, facts.mode, expected.tokens, expected.similar, basis)


def forecast_question(
    session: Session,
    tenant_id: TenantId,
    settings: Settings,
    *,
    collection_id: CollectionId,
    question: str,
    parameters: QuestionParameters,
) -> tuple[QuotedLine, ...]:
    """The lines of the question's quote alone, of a collection that is known to be the tenant's."""
    facts = _facts(settings, parameters)
    expected = _forecast(session, tenant_id, settings, facts, collection_id, question, parameters)
    return _priced_lines(session, tenant_id, settings, expected.tokens)[0]


def quote_tokens(
    session: Session,
    tenant_id: TenantId,
    settings: Settings,
    *,
    prompt_tokens: int,
    cached_tokens: int,
    completion_tokens: int,
) -> Quote:
    """What a request of the generator with so many tokens would take.

    Raises:
        InvalidInput: more tokens are cached than the prompt has.
        TooLong: prompt and answer exceed the window.
    """
    if cached_tokens > prompt_tokens:
        raise InvalidInput(
            f"cached_tokens is {cached_tokens}, but the prompt has {prompt_tokens}.",
            remedy="Cached tokens are a part of the prompt's.",
        )
    window = settings.engine.max_model_len
    if prompt_tokens + completion_tokens > window:
        raise TooLong(
            f"A prompt of {prompt_tokens} tokens and an answer of {completion_tokens} exceed the window of "
            f"{settings.engine.model}, {window} tokens.",
            remedy="Send less, or ask for less.",
            max_model_len=window,
        )
    forecast = explicit_tokens(
        prompt_tokens=prompt_tokens, cached_tokens=cached_tokens, completion_tokens=completion_tokens
    )
    return priced(session, tenant_id, settings, "tokens", forecast, (), ["tokens: as given"])


def _forecast(
    session: Session,
    tenant_id: TenantId,
    settings: Settings,
    facts: ModelFacts,
    collection_id: CollectionId,
    question: str,
    parameters: QuestionParameters,
) -> _Expected:
    size = collection_size(session, tenant_id, collection_id, document_ids=parameters.filter.document_ids)
    similar = list_similar_uses(
        session,
        tenant_id,
        collection_id,
        mode=facts.mode,
        num_samples=parameters.n or 1,
        limit=_MAX_SIMILAR,
    )
    tokens = forecast_tokens(
        question, parameters, settings=settings.ask, facts=facts, size=size, similar=similar
    )
    return _Expected(tokens, size, similar)


def _facts(settings: Settings, parameters: QuestionParameters) -> ModelFacts:
    spec = generator_spec(settings)
    defaults = ModelDefaults.of(spec.num_parameters)
    configured = settings.ask.extraction
    # What has a form is written, not chosen.
    is_formed = parameters.format is not None or bool(parameters.must_include)
    default_mode = "abstractive" if is_formed else defaults.mode
    return ModelFacts(
        mode=default_mode if parameters.mode == "auto" else parameters.mode,
        extraction=defaults.extraction if configured == "auto" else configured,
        extracted_tokens=settings.ask.extracted_tokens or defaults.extracted_tokens,
        is_brief=defaults.is_brief,
        speaks_chinese=not spec.languages or bool({"zh", "mul"} & set(spec.languages)),
        max_model_len=min(settings.engine.max_model_len, spec.max_tokens or settings.engine.max_model_len),
    )


def generator_spec(settings: Settings) -> ModelSpec:
    return find_model(settings.engine.model, role="generator", revision=settings.engine.revision)


def _check_room(max_tokens: int, window: int) -> None:
    if max_tokens >= window:
        raise TooLong(
            f"max_tokens is {max_tokens}, but the model's whole window has {window} tokens.",
            remedy="Ask for a shorter answer.",
            max_tokens=max_tokens,
            max_model_len=window,
        )


def _basis_of_tokens(num_chunks: int, num_similar: int) -> list[str]:
    question = "the question's tokens: estimated from its characters"
    if not num_chunks:
        return [question, "the collection has nothing to answer from: it will be refused"]
    if num_similar < MIN_SIMILAR:
        return [question, "the rest: from the settings and the mean length of the collection's chunks"]
    return [question, f"the rest: what the last {num_similar} answers of this collection and mode used"]


def priced(
    session: Session,
    tenant_id: TenantId,
    settings: Settings,
    mode: str,
    forecast: Forecast,
    similar: Sequence[AnswerUse],
    basis: Sequence[str],
) -> Quote:
    lines, currency = _priced_lines(session, tenant_id, settings, forecast)
    seconds, how = _seconds(session, settings, forecast, similar)
    return Quote(mode, lines, seconds, currency, (*basis, how))


def _priced_lines(
    session: Session, tenant_id: TenantId, settings: Settings, forecast: Forecast
) -> tuple[tuple[QuotedLine, ...], str]:
    """The forecast's lines, and the currency of their prices."""
    models = {stage: _model_of(stage, settings) for stage in forecast}
    prices: Mapping[tuple[str, Stage], AppliedPrice] = prices_at(
        session, [(model, stage) for stage, model in models.items()], utc_now(), tenant_id=tenant_id
    )
    lines = tuple(
        QuotedLine(stage, models[stage], tokens, prices[models[stage], stage].price_per_million)
        for stage, tokens in forecast.items()
    )
    return lines, next((price.currency for price in prices.values()), "")


def _model_of(stage: Stage, settings: Settings) -> str:
    if stage not in _ENCODER_STAGES:
        return generator_spec(settings).name
    name = settings.ask.reranker if stage is Stage.RERANK and settings.ask.reranker else settings.embedder
    return find_model(name).name


def _seconds(
    session: Session, settings: Settings, forecast: Forecast, similar: Sequence[AnswerUse]
) -> tuple[QuotedSeconds, str]:
    if Stage.DECODE not in forecast or not forecast[Stage.DECODE].expected:
        return _seconds_without_engine(similar)
    timed = list_timed_answers(session, model=generator_spec(settings).name, limit=MAX_TIMED)
    rates = fit_rates([sample_of(answer) for answer in timed])
    if rates is None:
        return QuotedSeconds(), "seconds: this engine has answered too little to tell"
    nothing = Span.exactly(0)
    uncached = forecast.get(Stage.PREFILL_UNCACHED, nothing)
    cached = forecast.get(Stage.PREFILL_CACHED, nothing)
    decoded = forecast[Stage.DECODE]
    before = typical_overhead_seconds(timed) or 0.0
    prompt = uncached.expected + cached.expected
    ttft = before + rates.ttft_seconds(prompt, cached_tokens=cached.expected)
    tpot = rates.tpot_seconds(prompt + decoded.expected // 2)
    longest = rates.tpot_seconds(uncached.high + decoded.high // 2)
    return (
        QuotedSeconds(
            ttft_seconds=ttft,
            tpot_seconds=tpot,
            total_seconds=ttft + max(0, decoded.expected - 1) * tpot,
            high_seconds=before + rates.ttft_seconds(uncached.high) + max(0, decoded.high - 1) * longest,
        ),
        f"seconds: the pace of this engine over its last {rates.num_samples} answers, with nobody else asking",
    )


def _seconds_without_engine(similar: Sequence[AnswerUse]) -> tuple[QuotedSeconds, str]:
    """What answers that no model writes took."""
    totals = [use.timings["total_seconds"] for use in similar if "total_seconds" in use.timings]
    if len(totals) < MIN_SIMILAR:
        return QuotedSeconds(), "seconds: too few such answers to tell"
    typical = median(totals)
    return (
        QuotedSeconds(ttft_seconds=typical, total_seconds=typical, high_seconds=max(totals)),
        f"seconds: the last {len(totals)} such answers",
    )
