"""Constraints on the real vLLM: kept over many prompts in both languages, and never its end."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from generation.constraints import DATE_STYLES, OutputFormat, admit_format, forced_inclusion
from generation.validation import check_form
from inference.completions_client import CompletionsClient
from inference.protocols import GenerationRequest, OutputConstraint, SamplingParameters
from inference.tokenizers import HuggingFaceTokenizer

pytestmark = pytest.mark.engine

pytest.importorskip("vllm")

SUBJECTS = (
    "the capital of France", "a river", "the year of the moon landing", "a colour", "the price of a ticket",
    "法国的首都", "一条河流", "登月的年份", "一种颜色", "一张票的价格",
)  # fmt: skip
NAMED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "year": {"type": "integer", "minimum": 1000, "maximum": 2100},
        "kind": {"enum": ["place", "time", "thing"]},
    },
    "required": ["name", "year", "kind"],
    "additionalProperties": False,
}
CHINESE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "名称": {"type": "string", "pattern": "[一-鿿]{1,8}"},
        "类别": {"enum": ["地点", "时间", "事物"]},
        "可信": {"type": ["boolean", "null"]},
    },
    "required": ["名称", "类别", "可信"],
    "additionalProperties": False,
}
FORMS = (
    OutputFormat("json_schema", NAMED),
    OutputFormat("json_schema", CHINESE),
    OutputFormat("regex", r"[A-Z][a-z]{2,8} \d{1,4}(\.\d)?"),
    OutputFormat("regex", r"答案是[一-鿿]{1,6}。"),
    OutputFormat("choice", ("yes", "no", "it cannot be said")),
    OutputFormat("choice", ("是", "否", "无法判断")),
    OutputFormat("grammar", 'root ::= item (", " item){0,3}\nitem ::= "red" | "green" | "蓝"'),
    *(OutputFormat("date", style) for style in DATE_STYLES),
)


def generate(
    client: CompletionsClient,
    tokenizer: HuggingFaceTokenizer,
    subject: str,
    constraint: OutputConstraint,
    *,
    max_tokens: int = 120,
    seed: int = 0,
) -> tuple[str, str]:
    frame = tokenizer.chat_frame(has_system=False)
    prompt = [*frame.head, *frame.middle, *tokenizer.encode(f"Tell me of {subject}."), *frame.tail]
    request = GenerationRequest(
        prompt, SamplingParameters(max_tokens=max_tokens, temperature=0.8, seed=seed), constraint=constraint
    )
    text, reason = "", ""
    with client.stream(request) as deltas:
        for delta in deltas:
            text, reason = text + delta.text, delta.finish_reason or reason
    return text, reason


def test_every_form_is_kept_in_both_languages(
    client: CompletionsClient, tokenizer: HuggingFaceTokenizer
) -> None:
    # One subject of each language for a form; `longleaf bench sampling` asks a hundred prompts.
    tasks = [(form, subject) for i, form in enumerate(FORMS) for subject in SUBJECTS[i % 5 :: 5]]
    assert len(tasks) == 2 * len(FORMS)

    def kept(task: tuple[OutputFormat, str]) -> list[str]:
        form, subject = task
        text, reason = generate(client, tokenizer, subject, form.constraint())
        return [
            f"{form.kind}: {text!r}: {f.detail}"
            for f in check_form(text, reason, form, ())
            if f.stage != "dates"
        ]

    with ThreadPoolExecutor(8) as threads:
        assert [breach for breaches in threads.map(kept, tasks) for breach in breaches] == []


def test_chinese_comes_as_characters_and_not_as_escapes(
    client: CompletionsClient, tokenizer: HuggingFaceTokenizer
) -> None:
    text, _ = generate(client, tokenizer, "法国", OutputConstraint("json", CHINESE))
    assert json.loads(text)["类别"] in ("地点", "时间", "事物")
    assert "\\u" not in text


def test_texts_that_must_be_there_can_be_forced(
    client: CompletionsClient, tokenizer: HuggingFaceTokenizer
) -> None:
    wanted = ["14.5% (net)", "杭州"]
    text, reason = generate(client, tokenizer, "a company", forced_inclusion(wanted), max_tokens=200)
    assert check_form(text, reason, None, wanted) == []


HEAVY = (
    OutputFormat("regex", ".{0,100}"),
    OutputFormat("regex", "(?:[a-z]{1,30}, ){0,60}[a-z]{1,30}"),
    OutputFormat("regex", "([一-鿿]{1,20}，)*[一-鿿]+"),
    OutputFormat("choice", tuple(f"choice {i} of very many" for i in range(500))),
    OutputFormat("grammar", 'root ::= item ("+" item)*\nitem ::= [0-9]+ | "(" root ")"'),
    OutputFormat(
        "json_schema", {"type": "object", "properties": {f"k{i}": {"type": "string"} for i in range(200)}}
    ),
    OutputFormat(
        "json_schema",
        {
            "$ref": "#/$defs/n",
            "$defs": {
                "n": {
                    "type": "object",
                    "properties": {k: {"$ref": "#/$defs/n"} for k in "abcdef"},
                    "additionalProperties": False,
                }
            },
        },
    ),
    OutputFormat(
        "json_schema",
        {
            "type": "object",
            "properties": {f"k{i}": {"type": "string", "pattern": "[a-z]+-[0-9]{1,9}"} for i in range(30)},
            "required": [f"k{i}" for i in range(30)],
        },
    ),
    OutputFormat("json_schema", {"type": "string", "minLength": 10_000, "maxLength": 10_000}),
)


def test_the_heaviest_forms_that_are_taken_hold_nobody_up(
    client: CompletionsClient, tokenizer: HuggingFaceTokenizer
) -> None:
    for form in HEAVY:
        admit_format(form, ())
        started = time.monotonic()
        generate(client, tokenizer, "a list", form.constraint(), max_tokens=60)
        took = time.monotonic() - started
        started = time.monotonic()
        generate(client, tokenizer, "a list", OutputConstraint("choice", ["yes", "no"]), max_tokens=5)
        after = time.monotonic() - started
        print(f"{form.kind} {str(form.value)[:40]!r}: {took:.1f} s, then {after:.1f} s")
        assert took < 60
        assert after < 20
    assert client.is_healthy()
