"""What of an answer is stored and published as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from core.usage import TokenUsage
from generation.asked_question import Question
from generation.consumption import Consumption
from retrieval.extraction import Extraction
from retrieval.passages import Passage
from storage.jobs import ClaimedJob


def passage_json(passage: Passage) -> dict[str, Any]:
    """A passage as answers store it and events carry it: where it stands, not its text."""
    return {
        "document_id": passage.document_id,
        "document_name": passage.document_name,
        "start": passage.start,
        "end": passage.end,
        "first_page": passage.first_page,
        "last_page": passage.last_page,
        "headings": list(passage.headings),
        "score": round(passage.score, 6),
    }


def usage_json(usage: TokenUsage) -> dict[str, int]:
    """What `TokenUsage(**…)` takes."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "cached_tokens": usage.cached_tokens,
        "completion_tokens": usage.completion_tokens,
    }


def timings_json(
    job: ClaimedJob,
    question: Question,
    consumption: Consumption,
    started_at: float,
    finished: datetime,
) -> dict[str, float]:
    """Seconds, each from the clock named in the glossary; engine figures are the engine's own."""
    engine, usage = consumption.engine, consumption.usage
    queue_seconds = (job.claimed_at - question.accepted_at).total_seconds()
    first = consumption.first_token_at
    decoded_after_first = max(1, usage.completion_tokens - 1)
    timings = consumption.seconds | {
        "queue_seconds": queue_seconds,
        "ttft_seconds": queue_seconds + (first - started_at) if first is not None else 0.0,
        "engine_queue_seconds": engine.queue_seconds,
        "engine_ttft_seconds": engine.ttft_seconds,
        "prefill_seconds": engine.prefill_seconds,
        "decode_seconds": engine.decode_seconds,
        "tpot_seconds": engine.decode_seconds / decoded_after_first,
        "engine_seconds": engine.total_seconds,
        "total_seconds": (finished - question.accepted_at).total_seconds(),
    }
    return {name: round(seconds, 6) for name, seconds in timings.items()}


def extraction_json(extraction: Extraction) -> dict[str, Any]:
    """How sentences were kept of passages, for `Answer.steps`."""
    return {
        "method": extraction.method,
        "tokens_in": extraction.tokens_in,
        "tokens_kept": extraction.tokens_kept,
        "seconds": round(extraction.seconds, 6),
        "note": extraction.note,
    }
