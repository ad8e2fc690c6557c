"""What the generator is told about the form of its answer, after the passages, so that they stay cached."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from generation.constraints import DATE_STYLES, OutputFormat
from generation.instructions import Instructions, instructions_for
from generation.validation import Finding

_MAX_SHOWN = 800
_MAX_SCHEMA_SHOWN = 3_000

_TASK = {
    "en": "Answer the question using only the passages above, with their own words and figures. {form}\n\n",
    "zh": "请只根据上面的段落回答问题，沿用段落中的词句和数字。{form}\n\n",
}
_FORMS: Mapping[str, Mapping[str, str]] = {
    "en": {
        "json_schema": "Reply with JSON only, of these fields:\n{value}",
        "regex": "Reply only with a text of the form {value}.",
        "choice": "Reply with exactly one of: {value}.",
        "grammar": "Reply only in the form that is asked for.",
        "date": "Reply with a date only, written like {value}.",
        "must_include": "These words must stand in the answer: {value}.",
    },
    "zh": {
        "json_schema": "只用 JSON 回答，字段如下：\n{value}",
        "regex": "回答必须符合这个格式：{value}。",
        "choice": "只能从以下选项中选一个作答：{value}。",
        "grammar": "只按要求的格式作答。",
        "date": "只写日期，格式如 {value}。",
        "must_include": "回答中必须出现：{value}。",
    },
}
_REPAIR = {
    "en": "Your last reply was:\n{text}\nWhat is wrong with it: {findings}\nReply again, and mend that.\n\n",
    "zh": "你上一次的回答是：\n{text}\n其中的问题：{findings}\n请改正后重新回答。\n\n",
}


def form_instructions(
    question: str,
    form: OutputFormat | None,
    must_include: Sequence[str],
    *,
    brief: bool,
    wrong: tuple[str, Sequence[Finding]] | None = None,
) -> Instructions:
    """The plain instructions with the form; nothing before the passages differs from any other question's.

    Args:
        wrong: the reply to mend, and what was wrong with it.
    """
    instructions = instructions_for(question, brief=brief)
    words = _FORMS[instructions.language]
    told = [words[form.kind].format(value=_shown(form))] if form is not None else []
    if must_include:
        told.append(words["must_include"].format(value=", ".join(must_include)))
    task = _TASK[instructions.language].format(form=" ".join(told))
    if wrong is not None:
        text, findings = wrong
        details = " ".join(finding.detail for finding in findings)
        task += _REPAIR[instructions.language].format(text=text[:_MAX_SHOWN], findings=details)
    return replace(instructions, task=task)


def _shown(form: OutputFormat) -> str:
    if form.kind == "json_schema":
        return describe_schema(form.schema)
    if form.kind == "choice":
        return " | ".join(form.choices)
    if form.kind == "date":
        return DATE_STYLES[form.value][1]  # type: ignore[index]
    return str(form.value)


def describe_schema(schema: Mapping[str, Any]) -> str:
    """A line for each field of a plain object, name, type and description; any other schema as it is."""
    properties = schema.get("properties")
    is_plain = isinstance(properties, Mapping) and not any(
        isinstance(child, Mapping) and child.keys() & {"properties", "$ref", "anyOf", "oneOf", "items"}
        for child in properties.values()
    )
    if not is_plain or properties is None:
        return json.dumps(schema, ensure_ascii=False)[:_MAX_SCHEMA_SHOWN]
    return "\n".join(_field(name, child) for name, child in properties.items())


def _field(name: str, schema: Any) -> str:
    if not isinstance(schema, Mapping):
        return f"- {name}"
    kind = schema.get("type", "")
    kind = " or ".join(kind) if isinstance(kind, list) else kind
    if "enum" in schema:
        kind = " | ".join(map(str, schema["enum"]))
    described = schema.get("description") or schema.get("title") or ""
    return f"- {name}" + (f" ({kind})" if kind else "") + (f": {described}" if described else "")
