"""What an engine's refusal means, in Longleaf's own errors."""

from __future__ import annotations

import json
import re

from core.errors import (
    EngineIncapable,
    EngineOverloaded,
    EngineUnavailable,
    InvalidInput,
    LongleafError,
    Misconfigured,
    TooLong,
)
from core.usage import TokenUsage

_WINDOW = re.compile(
    r"context.length|maximum (context|model) length|max_model_len|context_length_exceeded|context window",
    re.IGNORECASE,
)
_CONSTRAINT = re.compile(r"grammar|json.schema|regex|structured.outputs|choice", re.IGNORECASE)
_TOKEN_ID = re.compile(r"out-of-vocab|vocab(ulary)?.size", re.IGNORECASE)
_OVERLOAD = re.compile(r"busy|backlog|overload|queue|capacity|too many|rate limit", re.IGNORECASE)


def error_from_body(body: str, *, status: int, usage: TokenUsage | None = None) -> LongleafError:
    """The error that a refused request, or an error event in a stream, stands for.

    Args:
        body: the response's body; vLLM and OpenAI put `{"error": {"message", "code"}}` into it.
        status: HTTP status; 0 for an event in a stream, whose own code counts then.
        usage: tokens burned before the refusal.
    """
    message, code = _read(body)
    status = status or code
    usage = usage or TokenUsage()
    if status == 429 or (status == 503 and _OVERLOAD.search(message)):
        return EngineOverloaded(
            f"The generation engine is full: {message}", remedy="Ask again in a few seconds.", usage=usage
        )
    if status in (401, 403):
        return Misconfigured(
            f"The generation engine refuses the key (HTTP {status}).",
            remedy="Set LONGLEAF_ENGINE__API_KEY to the endpoint's key.",
        )
    if status == 404 and "model" in message.lower():
        return Misconfigured(
            f"The generation engine does not serve the model: {message}",
            remedy="Set LONGLEAF_ENGINE__MODEL to a model it serves.",
        )
    if status in (400, 413, 422) and _WINDOW.search(message):
        return TooLong(
            f"The prompt does not fit the model's window: {message}", remedy="Send less text.", usage=usage
        )
    if status in (400, 422) and _CONSTRAINT.search(message):
        return InvalidInput(
            f"The generation engine cannot be held to this form: {message}",
            remedy="Write it with plainer means; see docs/constrained-output.md.",
            usage=usage,
        )
    if status in (400, 422) and _TOKEN_ID.search(message):
        return InvalidInput(
            f"The model has no such token: {message}",
            remedy="Name tokens of this model; to ban a word by its text, use `bad_words`.",
            usage=usage,
        )
    if 400 <= status < 500:
        return EngineIncapable(
            f"The generation engine refused the request (HTTP {status}): {message}",
            remedy="Point LONGLEAF_ENGINE__URL to a vLLM, or leave it empty to have one launched.",
            usage=usage,
        )
    return EngineUnavailable(
        f"The generation engine failed (code {status}): {message}",
        remedy="Ask again; if it repeats, look into the engine's log.",
        usage=usage,
    )


def _read(body: str) -> tuple[str, int]:
    """Message (at most 500 characters) and code of an error body of any shape."""
    try:
        error = json.loads(body)["error"]
    except (ValueError, KeyError, TypeError):
        return body.strip()[:500] or "no reason given", 0
    if not isinstance(error, dict):
        return str(error)[:500], 0
    code = error.get("code")
    return str(error.get("message", ""))[:500], code if isinstance(code, int) else 500
