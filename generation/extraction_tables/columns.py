"""The columns of a table, as a JSON schema describes them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from core.errors import InvalidInput
from core.language import is_chinese
from generation.constraints.schema_limits import check_schema
from retrieval.short_answer.asked import Asked, asked

MAX_COLUMNS = 40
ColumnType = Literal["string", "integer", "number", "boolean", "date"]

_SCALARS = ("string", "integer", "number", "boolean")
_YEAR = re.compile(r"\byear\b|年份|哪一?年", re.IGNORECASE)
_NAME = re.compile(
    r"\b(?:name|title)\b|\bwho\b|\b(?:author|company|organi[sz]ation|person|city|country)$"
    r"|名称|姓名|名字|作者|谁|哪(?:家|位)|(?:公司|机构|城市|国家|人)$",
    re.IGNORECASE,
)
_QUESTION = re.compile(r"[?？]\s*$")
_REMEDY = "A column is a text, a number, a truth value, a date, one of an enum, or a list of such."


@dataclass(frozen=True, slots=True)
class Column:
    """`question` asks a document for the cell, in the language of the column's description."""

    name: str
    type: ColumnType
    question: str
    kind: Asked
    enum: tuple[str, ...] = ()
    is_list: bool = False
    description: str = ""


def columns_of(schema: Mapping[str, Any]) -> tuple[Column, ...]:
    """The columns in the schema's order.

    Raises:
        InvalidInput: it is no schema of an object, or a column is of no kind that cells can be.
    """
    check_schema(schema)
    properties = schema.get("properties")
    if schema.get("type", "object") != "object" or not properties:
        raise InvalidInput(
            "A table's schema is an object whose `properties` are the columns.",
            remedy='Send {"type": "object", "properties": {"name": {"type": "string", "description": "…"}}}.',
        )
    if len(properties) > MAX_COLUMNS:
        raise InvalidInput(
            f"The table has {len(properties)} columns; {MAX_COLUMNS} are taken.", remedy="Make two tables."
        )
    return tuple(_column(name, child) for name, child in properties.items())


def filling_schema(schema: Mapping[str, Any], names: list[str]) -> dict[str, Any]:
    """What a model is held to: every column named, each its value or null, nothing else."""
    properties = schema["properties"]
    return {
        "type": "object",
        "properties": {name: {"anyOf": [properties[name], {"type": "null"}]} for name in names},
        "required": names,
        "additionalProperties": False,
    } | {key: schema[key] for key in ("$defs", "definitions") if key in schema}


def _column(name: str, schema: Any) -> Column:
    if not isinstance(schema, Mapping):
        raise InvalidInput(f"The column {name!r} is not described.", remedy=_REMEDY)
    is_list = _type(schema) == "array"
    inner = schema.get("items", {"type": "string"}) if is_list else schema
    if not isinstance(inner, Mapping):
        raise InvalidInput(f"The items of the column {name!r} are not described.", remedy=_REMEDY)
    kind = _type(inner) or ("string" if "enum" in inner else "")
    if kind not in _SCALARS:
        raise InvalidInput(f"The column {name!r} is of type {kind or 'any'!r}.", remedy=_REMEDY)
    described = str(schema.get("description") or schema.get("title") or "").strip()
    is_date = kind == "string" and inner.get("format") in ("date", "date-time")
    column_type: ColumnType = "date" if is_date else kind  # type: ignore[assignment]
    question = _question(name, described, column_type)
    return Column(
        name=name,
        type=column_type,
        question=question,
        kind=_kind(column_type, name, described, question),
        enum=tuple(str(value) for value in inner.get("enum", ())),
        is_list=is_list,
        description=described,
    )


def _type(schema: Mapping[str, Any]) -> str:
    """The one type beside null, written either way."""
    alternatives = [s for key in ("anyOf", "oneOf") for s in schema.get(key, ()) if isinstance(s, Mapping)]
    if alternatives and "type" not in schema:
        found = {kind for each in alternatives if (kind := _type(each)) != "null"}
        return found.pop() if len(found) == 1 else ""
    given = schema.get("type", "")
    types = [each for each in given if each != "null"] if isinstance(given, list) else [given]
    return str(types[0]) if len(types) == 1 else ""


def _question(name: str, described: str, kind: ColumnType) -> str:
    if _QUESTION.search(described):
        return described
    spoken = name.replace("_", " ")
    about = f"{spoken}: {described}" if described else spoken
    if is_chinese(about):
        asks = {"date": "是什么时候", "integer": "是多少", "number": "是多少"}.get(kind, "是什么")
        return f"{described or spoken}{asks}？"
    plain = described.rstrip(".") or spoken
    if kind in ("integer", "number"):
        return f"What is the number of: {plain}?" if _counts(plain) else f"How much is {plain}?"
    if kind == "date":
        return f"When: {plain}?"
    return f"What is the {spoken}" + (f" ({plain})?" if described else "?")


def _counts(text: str) -> bool:
    return re.search(r"\b(?:number|count|how many)\b", text, re.IGNORECASE) is not None


def _kind(kind: ColumnType, name: str, described: str, question: str) -> Asked:
    """What phrase would fill a cell."""
    asks_year = any(_YEAR.search(text) for text in (name.replace("_", " "), described))
    if kind in ("integer", "number"):
        return "year" if asks_year else "number"
    if kind == "date":
        return "time"
    if asks_year:
        return "year"
    found = asked(question)
    if found == "thing" and any(_NAME.search(text) for text in (name, described)):
        return "name"
    return found if found in ("name", "time", "number", "duration") else "thing"
