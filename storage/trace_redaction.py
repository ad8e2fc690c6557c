"""Takes texts and tokens out of a trace and leaves its numbers."""

from __future__ import annotations

from typing import Any

TEXT_FIELDS = frozenset(
    {
        "text",
        "token_ids",
        "token_starts",
        "token_id",
        "stop",
        "stop_reason",
        "bad_words",
        "logit_bias",
        "constraint",
    }
)
"""Whatever in a trace says, or lets one reckon, what was asked, read or written."""


def redact(trace: dict[str, Any]) -> dict[str, Any]:
    """The trace without those fields, at any depth: counts, places, scores and times are left."""
    return {name: _redacted(value) for name, value in trace.items() if name not in TEXT_FIELDS}


def _redacted(value: Any) -> Any:
    if isinstance(value, dict):
        return redact(value)
    if isinstance(value, list):
        return [_redacted(item) for item in value]
    return value
