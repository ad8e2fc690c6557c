"""The values of a constrained answer and where in its text they stand."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

from generation.constraints import OutputFormat

_SPACE = re.compile(r"\s*")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")


@dataclass(frozen=True, slots=True)
class TextValue:
    """A string or a number of an answer: `source[start:end]` is how it is written there.

    `path` are the property names above it, `hint` those and what the schema says of them.
    """

    text: str
    start: int
    end: int
    path: tuple[str, ...] = ()
    hint: str = ""
    is_number: bool = False


def values_of(text: str, form: OutputFormat | None) -> list[TextValue]:
    """Strings and numbers of JSON, in order; any other answer is one value.

    Truth values, nulls and blank strings are left out: nothing could be cited for them.
    """
    if form is None or form.kind != "json_schema":
        stripped = text.strip()
        start = text.find(stripped)
        return [TextValue(stripped, start, start + len(stripped))] if stripped else []
    try:
        json.loads(text)
    except ValueError:
        return []
    found, _ = _scan(text, _skip(text, 0), (), form.schema, form.schema)
    return [value for value in found if value.text.strip()]


def _scan(
    text: str, position: int, path: tuple[str, ...], schema: Any, root: Mapping[str, Any]
) -> tuple[list[TextValue], int]:
    """The values from `position` on, and where the JSON value there ends. The text is valid JSON."""
    match text[position]:
        case '"':
            value, end = scanstring(text, position + 1, False)
            return [TextValue(value, position + 1, end - 1, path, _hint(path, schema))], end
        case "{":
            return _scan_object(text, position, path, _resolved(schema, root), root)
        case "[":
            return _scan_array(text, position, path, _resolved(schema, root), root)
    number = _NUMBER.match(text, position)
    if number is not None:
        return [TextValue(number.group(), *number.span(), path, _hint(path, schema), True)], number.end()
    return [], position + (5 if text[position] == "f" else 4)


def _scan_object(
    text: str, position: int, path: tuple[str, ...], schema: Mapping[str, Any], root: Mapping[str, Any]
) -> tuple[list[TextValue], int]:
    found: list[TextValue] = []
    position = _skip(text, position + 1)
    while text[position] != "}":
        name, position = scanstring(text, position + 1, False)
        position = _skip(text, _skip(text, position) + 1)
        child = schema.get("properties", {}).get(name, {})
        values, position = _scan(text, position, (*path, name), child, root)
        found += values
        position = _skip(text, position)
        if text[position] == ",":
            position = _skip(text, position + 1)
    return found, position + 1


def _scan_array(
    text: str, position: int, path: tuple[str, ...], schema: Mapping[str, Any], root: Mapping[str, Any]
) -> tuple[list[TextValue], int]:
    found: list[TextValue] = []
    position = _skip(text, position + 1)
    while text[position] != "]":
        values, position = _scan(text, position, path, schema.get("items", {}), root)
        found += values
        position = _skip(text, position)
        if text[position] == ",":
            position = _skip(text, position + 1)
    return found, position + 1


def _skip(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


def _resolved(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Through references and the first alternative that describes something inside."""
    for _ in range(8):
        if not isinstance(schema, Mapping):
            return {}
        if "$ref" in schema:
            found: Any = root
            for part in str(schema["$ref"])[2:].split("/"):
                found = found.get(part, {}) if part and isinstance(found, Mapping) else found
            schema = found
            continue
        nested = [s for key in ("anyOf", "oneOf", "allOf") for s in schema.get(key, ())]
        inside = [s for s in nested if isinstance(s, Mapping) and s.keys() & {"properties", "items", "$ref"}]
        if not inside or "properties" in schema or "items" in schema:
            return schema
        schema = inside[0]
    return {}


def _hint(path: tuple[str, ...], schema: Any) -> str:
    described = (
        [schema.get(key, "") for key in ("title", "description")] if isinstance(schema, Mapping) else []
    )
    parts = [*(name.replace("_", " ") for name in path), *map(str, described)]
    return " ".join(part for part in parts if part)


def leaves(document: Any) -> Iterator[Any]:
    """Strings, numbers, truth values and nulls of a parsed document."""
    if isinstance(document, Mapping):
        for child in document.values():
            yield from leaves(child)
    elif isinstance(document, list):
        for child in document:
            yield from leaves(child)
    else:
        yield document
