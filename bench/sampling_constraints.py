"""Prompts whose answers must have a form, held to it by the engine token by token."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from inference.completions_client import CompletionsClient
from inference.protocols import GenerationRequest, OutputConstraint, SamplingParameters

_MAX_TOKENS = 200
_AT_ONCE = 8

_SUBJECTS = (
    *("the Yangtze", "a lighthouse", "the moons of Neptune", "paid leave", "a lease of three years"),
    *("长江", "灯塔", "海王星的卫星", "带薪年假", "三年的租约"),
)
_DATE = r"(19|20)[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9])"
_REGEXES = (_DATE, r"[A-Z]{3}-[0-9]{4}", r"(约)?[1-9][0-9]{0,3}公里", r"(yes|no), because [a-z ]{5,40}\.")
_CHOICES = (["river", "mountain", "city"], ["是", "否", "不清楚"], ["positive", "negative"])
_SCHEMAS: tuple[dict[str, Any], ...] = (
    {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 20},
            "year": {"type": "integer", "minimum": 1000, "maximum": 2999},
        },
        "required": ["name", "year"],
        "additionalProperties": False,
    },
    {"type": "array", "items": {"enum": ["红", "蓝", "green"]}, "minItems": 1, "maxItems": 3},
    {
        "type": "object",
        "properties": {"kind": {"enum": ["river", "other"]}, "is_long": {"type": "boolean"}},
        "required": ["kind", "is_long"],
        "additionalProperties": False,
    },
)


@dataclass(frozen=True, slots=True)
class ConstrainedPrompt:
    """What to ask, what the answer must be, and whether one is."""

    text: str
    constraint: OutputConstraint
    fits: Callable[[str], bool]


def constrained_prompts(num: int) -> list[ConstrainedPrompt]:
    """Forms and subjects in turn; in both languages."""
    makers = (_of_schema, _of_regex, _of_choice)
    return [
        makers[i % 3](f"Say something about {_SUBJECTS[i % len(_SUBJECTS)]}.", i // 3) for i in range(num)
    ]


def share_satisfied(
    client: CompletionsClient, prompts: Sequence[ConstrainedPrompt], *, encode: Callable[[str], list[int]]
) -> tuple[float, list[str]]:
    """The share of answers, drawn at temperature 1, that have the form; and those that do not."""

    def ask(numbered: tuple[int, ConstrainedPrompt]) -> str | None:
        seed, prompt = numbered
        sampling = SamplingParameters(max_tokens=_MAX_TOKENS, temperature=1.0, seed=seed)
        request = GenerationRequest(encode(prompt.text), sampling, constraint=prompt.constraint)
        with client.stream(request) as deltas:
            text = "".join(delta.text for delta in deltas)
        return None if prompt.fits(text) else f"{prompt.constraint.kind}: {text[:200]}"

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        wrong = [found for found in pool.map(ask, enumerate(prompts, start=1)) if found is not None]
    return 1 - len(wrong) / len(prompts), wrong


def _of_regex(text: str, number: int) -> ConstrainedPrompt:
    regex = _REGEXES[number % len(_REGEXES)]
    return ConstrainedPrompt(
        text, OutputConstraint("regex", regex), lambda said: re.fullmatch(regex, said) is not None
    )


def _of_choice(text: str, number: int) -> ConstrainedPrompt:
    choices = _CHOICES[number % len(_CHOICES)]
    return ConstrainedPrompt(text, OutputConstraint("choice", choices), lambda said: said in choices)


def _of_schema(text: str, number: int) -> ConstrainedPrompt:
    schema = _SCHEMAS[number % len(_SCHEMAS)]
    return ConstrainedPrompt(text, OutputConstraint("json", schema), lambda said: _is_of(said, schema))


def _is_of(said: str, schema: dict[str, Any]) -> bool:
    try:
        return _fits(json.loads(said), schema)
    except ValueError:
        return False


def _fits(value: Any, schema: dict[str, Any]) -> bool:
    """By the few words of JSON Schema used above, and not by the engine's own reading of them."""
    if "enum" in schema:
        return value in schema["enum"]
    match schema["type"]:
        case "object":
            known = schema["properties"]
            return (
                isinstance(value, dict)
                and value.keys() == known.keys()
                and all(_fits(value[name], known[name]) for name in known)
            )
        case "array":
            items, sizes = schema["items"], range(schema["minItems"], schema["maxItems"] + 1)
            return (
                isinstance(value, list) and len(value) in sizes and all(_fits(item, items) for item in value)
            )
        case "string":
            return isinstance(value, str) and len(value) <= schema["maxLength"]
        case "integer":
            is_integer = isinstance(value, int) and not isinstance(value, bool)
            return is_integer and schema["minimum"] <= value <= schema["maximum"]
        case _:
            return isinstance(value, bool)
