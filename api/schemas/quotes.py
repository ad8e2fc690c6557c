from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from accounting.money import format_amount
from accounting.stages import Stage
from api.schemas.base import FreeText, View
from api.schemas.questions import QuestionOptions
from bootstrap.quoting import Quote as QuotedQuestion
from generation.quotes import Span

_MAX_TOKENS = 10_000_000


class QuoteRequest(QuestionOptions):
    """A question as it would be asked, or the tokens of a request of the generator."""

    collection_id: Annotated[str, Field(min_length=1, max_length=100)] | None = Field(
        None, description="Which documents are asked."
    )
    question: FreeText | None = Field(None, description="What is asked; it is not answered.")
    prompt_tokens: int | None = Field(
        None, ge=1, le=_MAX_TOKENS, description="In place of a question: tokens of a prompt."
    )
    cached_tokens: int = Field(0, ge=0, le=_MAX_TOKENS, description="Of those, in the prefix cache.")

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        asks = self.collection_id is not None and self.question is not None
        if asks == (self.prompt_tokens is not None) or (
            not asks and (self.collection_id is not None or self.question is not None)
        ):
            raise ValueError("give collection_id and question, or prompt_tokens")
        return self


class TokenSpan(View):
    low: int = Field(description="At least.")
    expected: int = Field(description="As expected.")
    high: int = Field(description="At most.")

    @classmethod
    def of(cls, span: Span) -> Self:
        return cls(low=span.low, expected=span.expected, high=span.high)


class QuotedLine(View):
    stage: str = Field(description="The kind of work, as on the ledger.")
    model: str = Field(description="Who does it.")
    tokens: TokenSpan = Field(description="How many tokens.")
    price_per_million: str = Field(description="The price in force now.")


class QuotedPrice(View):
    low: str = Field(description="At least.")
    expected: str = Field(description="As expected.")
    high: str = Field(description="At most.")
    currency: str = Field(description="ISO 4217.")


class QuotedSeconds(View):
    """With nobody else asking. Null: nothing was measured yet."""

    ttft_seconds: float | None = Field(description="To the first word.")
    tpot_seconds: float | None = Field(description="Between two tokens.")
    total_seconds: float | None = Field(description="To the end of the answer.")
    high_seconds: float | None = Field(description="Nothing cached, and as long an answer as may be.")


class Quote(View):
    """Nothing was asked, and nothing is held: prices may change before it is."""

    mode: str = Field(description="How it would be answered; `tokens` where only tokens were given.")
    prompt_tokens: TokenSpan = Field(description="Tokens of the prompt, cached ones included.")
    cached_tokens: TokenSpan = Field(description="Of those, what the engine has computed before.")
    completion_tokens: TokenSpan = Field(description="Tokens written.")
    lines: list[QuotedLine] = Field(description="What would come onto the ledger.")
    price: QuotedPrice = Field(description="The sum of the lines.")
    seconds: QuotedSeconds = Field(description="How long it would take.")
    basis: list[str] = Field(description="What each estimate rests on.")

    @classmethod
    def of(cls, quote: QuotedQuestion) -> Self:
        cached = quote.tokens(Stage.PREFILL_CACHED)
        uncached = quote.tokens(Stage.PREFILL_UNCACHED)
        # A prompt is dearest with nothing cached: high counts of both are not of one prompt.
        expected = uncached.expected + cached.expected
        prompt = Span(uncached.low + cached.low, expected, max(uncached.high, expected))
        return cls(
            mode=quote.mode,
            prompt_tokens=TokenSpan.of(prompt),
            cached_tokens=TokenSpan.of(cached),
            completion_tokens=TokenSpan.of(quote.tokens(Stage.DECODE)),
            lines=[
                QuotedLine(
                    stage=line.stage.value,
                    model=line.model,
                    tokens=TokenSpan.of(line.tokens),
                    price_per_million=format_amount(line.price_per_million),
                )
                for line in quote.lines
            ],
            price=QuotedPrice(
                low=format_amount(quote.cost("low")),
                expected=format_amount(quote.cost("expected")),
                high=format_amount(quote.cost("high")),
                currency=quote.currency,
            ),
            seconds=QuotedSeconds(
                ttft_seconds=quote.seconds.ttft_seconds,
                tpot_seconds=quote.seconds.tpot_seconds,
                total_seconds=quote.seconds.total_seconds,
                high_seconds=quote.seconds.high_seconds,
            ),
            basis=list(quote.basis),
        )
