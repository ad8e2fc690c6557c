"""What is wrong with a generated text: its form first, then whether the passages say it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

import regex
from jsonschema import Draft202012Validator, validators
from jsonschema.exceptions import ValidationError
from referencing import Registry

from generation.constraints import OutputFormat
from generation.dates import plain_date
from generation.validation.json_values import TextValue
from generation.validation.sources import SourceIndex, plain_text

Stage = Literal["complete", "form", "must_include", "dates", "support"]

_MATCH_SECONDS = 1.0
_MAX_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong. What `breaks` the form makes the text worthless; the rest is told beside it."""

    stage: Stage
    detail: str
    breaks: bool = True

    def as_json(self) -> dict[str, Any]:
        return {"stage": self.stage, "detail": self.detail}


def check_form(
    text: str, finish_reason: str, form: OutputFormat | None, must_include: Sequence[str]
) -> list[Finding]:
    """By rule: whether the text is complete, of its form, holds what it must, and names days there are."""
    findings: list[Finding] = []
    if finish_reason not in ("stop", ""):
        # Half a form is none; half a text may hold what it must.
        breaks = form is not None
        findings.append(Finding("complete", f"It was cut before its end (`{finish_reason}`).", breaks))
    if form is not None:
        findings += [Finding("form", detail[:_MAX_SHOWN]) for detail in _breaches(text, form)]
    shown = plain_text(_decoded(text, form))
    for wanted in must_include:
        if plain_text(wanted) not in shown:
            findings.append(Finding("must_include", f"It does not hold the text {wanted!r}."))
    if form is not None and form.kind == "date" and plain_date(text) is None:
        findings.append(Finding("dates", f"There is no day {text.strip()[:40]!r}."))
    return findings


def check_support(values: Sequence[TextValue], sources: SourceIndex, question: str) -> list[Finding]:
    """By rule: the numbers and dates that no passage states. Names and words are the citations' matter."""
    findings = []
    for value in values:
        is_date = plain_date(value.text) is not None
        if not (value.is_number or is_date) or plain_text(value.text) in plain_text(question):
            continue
        if sources.find(value.text, is_number=value.is_number and not is_date) is None:
            named = f" ({'.'.join(value.path)})" if value.path else ""
            what = "date" if is_date and not value.is_number else "number"
            findings.append(
                Finding("support", f"No passage says the {what} {value.text}{named}.", breaks=False)
            )
    return findings


def _breaches(text: str, form: OutputFormat) -> Iterator[str]:
    """A grammar is held by the engine alone."""
    match form.kind:
        case "json_schema":
            yield from schema_breaches(text, form.schema)
        case "regex" | "date":
            if not _matches(form.pattern, text):
                yield f"It does not match the pattern {form.pattern[:80]!r}."
        case "choice":
            if text not in form.choices:
                yield "It is none of the choices."


def schema_breaches(text: str, schema: Mapping[str, Any], *, most: int = 5) -> Iterator[str]:
    """What of `text` breaks the schema, place by place; that it is no JSON is one thing."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        yield f"It is not JSON: {error}."
        return
    errors = _validator(schema).iter_errors(document)
    for breach in islice(errors, most):
        place = ".".join(map(str, breach.absolute_path)) or "the whole"
        yield f"At {place}: {breach.message}."


def _validator(schema: Mapping[str, Any]) -> Any:
    """With patterns matched in bounded time, and nothing fetched from anywhere."""
    return _Validator(dict(schema), registry=Registry())


def _pattern(_validator: Any, pattern: str, instance: object, _schema: object) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not _matches(pattern, instance):
        yield ValidationError(f"{instance[:60]!r} does not match {pattern[:60]!r}")


# Engines take a pattern for the whole of a string; so is it here.
_Validator = validators.extend(Draft202012Validator, {"pattern": _pattern})


def _matches(pattern: str, text: str) -> bool:
    """Whether all of `text` matches; what cannot be told within a second is the engine's word."""
    try:
        return (
            regex.fullmatch(pattern, text, flags=regex.DOTALL | regex.VERSION0, timeout=_MATCH_SECONDS)
            is not None
        )
    except (TimeoutError, regex.error):
        return True


def _decoded(text: str, form: OutputFormat | None) -> str:
    """JSON may write a text with escapes: what it says counts."""
    if form is not None and form.kind == "json_schema":
        try:
            return re.sub(r"\\[\"\\]", "", json.dumps(json.loads(text), ensure_ascii=False))
        except (ValueError, RecursionError):
            return text
    return text
