"""Tokens with their log-probabilities, as a completion's `logprobs` carry them.

The tokens are asked for by id (`return_tokens_as_token_ids`): by text, all parts of split
characters would be the same `�`, and those of one place would overwrite one another.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from inference.protocols import GeneratedToken, TokenChoice

_BY_ID = re.compile(r"token_id:(\d+)")


def logprobs_fields(num_logprobs: int) -> dict[str, Any]:
    """What asks a vLLM for them in a request's body."""
    return {"logprobs": num_logprobs, "return_tokens_as_token_ids": True}


def read_tokens(logprobs: Mapping[str, Any] | None) -> tuple[GeneratedToken, ...]:
    """The tokens of one event, in order; none where it has no `logprobs`, or not of that form."""
    if not isinstance(logprobs, Mapping):
        return ()
    names = logprobs.get("tokens") or []
    values = logprobs.get("token_logprobs") or []
    tops = logprobs.get("top_logprobs") or [None] * len(names)
    if not len(names) == len(values) == len(tops):
        return ()
    return tuple(
        GeneratedToken(*_named(name), logprob=value, alternatives=_choices(top))
        for name, value, top in zip(names, values, tops, strict=True)
    )


def _choices(top: Mapping[str, float] | None) -> tuple[TokenChoice, ...]:
    choices = [TokenChoice(*_named(name), logprob=value) for name, value in (top or {}).items()]
    return tuple(sorted(choices, key=lambda choice: -choice.logprob))


def _named(name: str) -> tuple[int | None, str]:
    by_id = _BY_ID.fullmatch(name)
    return (int(by_id[1]), "") if by_id else (None, name)
