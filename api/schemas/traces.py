from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import ConfigDict, Field

from api.schemas.base import View
from storage import models


class _Figures(View):
    """Further figures may come with later versions."""

    model_config = ConfigDict(extra="allow")


class TracedSegment(_Figures):
    """A part of the prompt. `text`, `token_ids` and what follows are in full traces only."""

    kind: str = Field(description="`frame`, `system`, `context`, `passage`, `history` or `question`.")
    source_ids: list[str] = Field(description="Of a passage: `document:start-end`.")
    start: int = Field(description="Its first token's position in the prompt.")
    end: int = Field(description="The position after its last.")
    cached: Literal["cached", "partly", "uncached"] = Field(description="Whether the engine had it already.")
    cached_tokens: int = Field(description="How many of its tokens it had: always the first ones.")
    text: str | None = Field(None, description="Its text.")
    token_ids: list[int] | None = Field(None, description="Its tokens.")
    token_starts: list[int] | None = Field(None, description="Where each begins in `text`, in characters.")
    num_split_tokens: int | None = Field(None, description="Tokens that are a part of a character.")
    round_trip: bool | None = Field(None, description="Whether its text gives the same tokens again.")


class TracedPrompt(_Figures):
    num_tokens: int = Field(description="Tokens in all.")
    cached_tokens: int = Field(description="Of those, how many the engine had computed before.")
    block_size: int | None = Field(description="Tokens of a cache block: hits are whole blocks.")
    segments: list[TracedSegment] = Field(description="In order, without gaps.")
    cut: dict[str, Any] = Field(
        description="`passages` left out, each with its `reason`; `num_turns` of the conversation left out."
    )


class TokenAlternative(_Figures):
    token_id: int | None = Field(None, description="Null where the endpoint names tokens by text.")
    text: str | None = Field(None, description="What it writes.")
    logprob: float | None = Field(description="Natural, before any sampling control.")


class TracedToken(_Figures):
    """A token of the answer; `text[start:end]` of the generation's text is what it wrote, or a part of."""

    token_id: int | None = Field(None, description="Null where the endpoint names tokens by text.")
    text: str | None = Field(None, description="What it writes; bytes of a character as `<0xE4>`.")
    start: int = Field(description="Where it begins in the generation's text, in characters.")
    end: int = Field(description="Where it ends.")
    is_whole: bool = Field(description="False where it begins or ends inside a character.")
    logprob: float | None = Field(description="Natural, before any sampling control.")
    rank: int | None = Field(description="By probability, from 1; null beyond the alternatives.")
    entropy: float | None = Field(
        description="In nats, the least it can be given the alternatives: never above the true entropy."
    )
    entropy_max: float | None = Field(description="With the rest spread evenly: never below it.")
    rest: float | None = Field(description="Probability of all tokens that are not alternatives.")
    alternatives: list[TokenAlternative] = Field(description="The most probable, best first.")


class TracedGeneration(_Figures):
    """One request to the engine."""

    purpose: str = Field(description="`answer`, or what else it was for.")
    engine_name: str = Field("", description="Of several engines, the one that served it.")
    prompt: TracedPrompt = Field(description="What the model read.")
    sampling: dict[str, Any] = Field(description="Every control as it was applied.")
    finish_reason: str | None = Field(description="`stop`, `length`, `repetition`, …; null: broken off.")
    stop_reason: str | int | None = Field(None, description="The stop text or token that ended it.")
    usage: dict[str, int] = Field(description="Tokens.")
    timings: dict[str, float] | None = Field(description="Seconds inside the engine.")
    engine_load: dict[str, Any] | None = Field(
        description="`kv_cache_usage` (0 to 1), `num_running`, `num_waiting`, `num_preemptions` when the "
        "first token came."
    )
    text: str | None = Field(None, description="What was written, before marks were set.")
    tokens: list[TracedToken] = Field(description="In full traces.")
    certainty: dict[str, float | None] | None = Field(
        description="`mean_logprob`, `perplexity`, `mean_entropy`, `max_entropy`."
    )


class Trace(_Figures):
    """How an answer came to be."""

    answer_id: str = Field(description="The answer.")
    version: int = Field(description="Of this form.")
    detail: Literal["light", "full"] = Field(description="`full` has texts and tokens.")
    redacted_at: datetime | None = Field(description="When texts and tokens were taken out, if they were.")
    attempt: int = Field(description="Which attempt it is of, from 1.")
    error_code: str | None = Field(description="Why that attempt did not finish; null otherwise.")
    engine: dict[str, Any] | None = Field(description="Model, revision and window; null: none was asked.")
    retrieval: dict[str, Any] | None = Field(
        description="`passages` with their scores: dense (inner product), lexical (BM25), `fused_rank` "
        "before reranking, `score` after."
    )
    sentences: list[dict[str, Any]] = Field(description="Extractive answers: the sentences and their scores.")
    generations: list[TracedGeneration] = Field(description="Requests to the engine, in order.")
    answer_generation: int | None = Field(description="Which of them wrote the answer.")
    attribution: dict[str, Any] | None = Field(
        description="Statement × passage by citations and words: no model."
    )
    attention: dict[str, Any] | None = Field(
        description="Token × segment and sentence × passage, once asked for."
    )
    missing: list[str] = Field(description="What this trace lacks, and why.")
    earlier_attempts: list[dict[str, Any]] = Field(description="Attempts that burned tokens, in figures.")
    steps: dict[str, Any] = Field(description="The answer's `steps`; none once redacted.")

    @classmethod
    def of(cls, row: models.AnswerTrace, answer: models.Answer) -> Trace:
        steps = answer.steps if row.redacted_at is None else {}
        return cls.model_validate(
            row.trace | {"answer_id": row.answer_id, "redacted_at": row.redacted_at, "steps": steps}
        )
