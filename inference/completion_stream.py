"""What the events of a streamed completion add up to."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from core.errors import EngineUnavailable
from core.usage import TokenUsage
from inference.engine_errors import error_from_body
from inference.protocols import EngineTimings, GenerationDelta
from inference.token_logprobs import read_tokens

DONE = "[DONE]"


class CompletionStream:
    """Turns the payloads of one streamed completion into deltas.

    `usage` is what is known at any moment. vLLM counts prompt and completion tokens on every event
    but names cached tokens only on the last one, so `cached_tokens` is 0 until the stream is done.
    Endpoints that count only at the end are counted here until then: the prompt as sent, and one
    token an event, which is the least it can have been.
    """

    def __init__(self, *, num_prompt_tokens: int, clock: Callable[[], float] = time.perf_counter) -> None:
        self.usage = TokenUsage()
        self.has_tokens = False
        self.engine_metrics: dict[str, Any] = {}
        self.reports_cached_tokens = False
        self.reports_usage = False
        self._num_prompt_tokens = num_prompt_tokens
        self.reports_logprobs = False
        self.reports_token_ids = False
        self._finish_reason: str | None = None
        self._stop_reason: str | int | None = None
        self._clock = clock
        self._sent_at = clock()
        self._first_token_at: float | None = None

    def feed(self, payload: str) -> GenerationDelta | None:
        """The delta in a payload; None where it only carries numbers. The last follows `[DONE]`.

        Raises:
            EngineUnavailable: the engine reports a failure, talks nonsense, or says it is done
                without having finished.
        """
        if payload == DONE:
            return self._last_delta()
        event = self._parse(payload)
        if metrics := event.get("metrics"):
            self.engine_metrics = metrics
        choices = event.get("choices") or []
        if choices:
            self._first_token_at = self._first_token_at or self._clock()
            self.has_tokens = True
        self._count(event.get("usage"), has_choice=bool(choices))
        if not choices:
            return None
        self._finish_reason = choices[0].get("finish_reason") or self._finish_reason
        self._stop_reason = choices[0].get("stop_reason") or self._stop_reason
        tokens = read_tokens(choices[0].get("logprobs"))
        self.reports_logprobs |= bool(tokens)
        self.reports_token_ids |= any(token.token_id is not None for token in tokens)
        return GenerationDelta(text=choices[0].get("text") or "", usage=self.usage, tokens=tokens)

    def _parse(self, payload: str) -> dict[str, Any]:
        try:
            event = json.loads(payload)
        except ValueError as error:
            raise self.broken("sent an event that is not JSON") from error
        if not isinstance(event, dict):
            raise self.broken("sent an event that is not an object")
        if "error" in event:
            raise error_from_body(payload, status=0, usage=self.usage)
        return event

    def _count(self, usage: dict[str, Any] | None, *, has_choice: bool) -> None:
        if not usage:
            if has_choice and not self.reports_usage:
                self.usage = TokenUsage(self._num_prompt_tokens, 0, self.usage.completion_tokens + 1)
            return
        self.reports_usage = True
        details = usage.get("prompt_tokens_details") or {}
        cached = details.get("cached_tokens")
        self.reports_cached_tokens |= cached is not None
        self.usage = TokenUsage(
            prompt_tokens=usage.get("prompt_tokens") or self._num_prompt_tokens,
            cached_tokens=self.usage.cached_tokens if cached is None else cached,
            completion_tokens=usage.get("completion_tokens") or 0,
        )

    def _last_delta(self) -> GenerationDelta:
        if self._finish_reason is None:
            raise self.broken("ended its stream without finishing the answer")
        return GenerationDelta(
            "", self.usage, self._finish_reason, self._timings(), stop_reason=self._stop_reason
        )

    def _timings(self) -> EngineTimings:
        """The engine's own figures where it gives them, else what can be seen from here."""
        now = self._clock()
        ttft = (self._first_token_at or now) - self._sent_at
        total = now - self._sent_at
        metrics = self.engine_metrics
        prefill = metrics.get("time_to_first_token_ms")
        decode = metrics.get("generation_time_ms")
        return EngineTimings(
            queue_seconds=(metrics.get("queue_time_ms") or 0.0) / 1000,
            prefill_seconds=ttft if prefill is None else prefill / 1000,
            decode_seconds=total - ttft if decode is None else decode / 1000,
            ttft_seconds=ttft,
            total_seconds=total,
        )

    def broken(self, what: str) -> EngineUnavailable:
        """The error for a stream that went wrong, with what it had burned until then."""
        return EngineUnavailable(
            f"The generation engine {what}, after {self.usage.completion_tokens} tokens.",
            remedy="Ask again; if it repeats, look into the engine's log.",
            usage=self.usage,
        )
