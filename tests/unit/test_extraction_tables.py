"""Columns of a table, its cells, and the table as CSV."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest

from core.errors import InvalidInput
from core.ids import DocumentId
from generation.citations import Citation, Quote
from generation.extraction_tables.cells import Cell, cell_json, checked_cell, chosen_cell, locate, typed_value
from generation.extraction_tables.columns import Column, columns_of, filling_schema
from generation.extraction_tables.table_csv import table_as_csv
from generation.validation import SourceIndex
from storage.models import ExtractionRow
from tests.unit.test_output_validation import passage

TEXT = (
    "Acme was founded on 5 March 1987. Revenue rose to 14,500 dollars in 2023. Margin was -3.5 %. "
    "公司总部设在杭州市。注册资本1.4万元。"
)


def column(kind: str = "string", **values: Any) -> Column:
    given: dict[str, Any] = {"name": "x", "type": kind, "question": "What is x?", "kind": "thing"}
    return Column(**given | values)


def object_of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def test_columns_ask_in_the_language_of_their_description() -> None:
    year, capital, city, sure = columns_of(
        object_of(
            founded={"type": "string", "format": "date", "description": "the day it was founded"},
            capital={"type": ["number", "null"], "description": "注册资本"},
            总部={"type": "string"},
            profit={"anyOf": [{"type": "boolean"}, {"type": "null"}], "description": "Did it make a profit?"},
        )
    )
    assert (year.type, year.kind) == ("date", "time")
    assert (capital.type, capital.kind, capital.question) == ("number", "number", "注册资本是多少？")
    assert city.question == "总部是什么？"
    assert (sure.type, sure.question) == ("boolean", "Did it make a profit?")


@pytest.mark.parametrize(
    ("name", "schema", "kind"),
    [
        ("公司名称", {"type": "string"}, "name"),
        ("author", {"type": "string"}, "name"),
        ("founding_year", {"type": "integer"}, "year"),
        ("price", {"type": "number"}, "number"),
        ("note", {"type": "string", "description": "what else there is"}, "thing"),
    ],
)
def test_a_column_is_filled_by_phrases_of_its_kind(name: str, schema: dict[str, Any], kind: str) -> None:
    [found] = columns_of(object_of(**{name: schema}))
    assert found.kind == kind


def test_lists_and_enums_are_columns() -> None:
    names, kind = columns_of(
        object_of(names={"type": "array", "items": {"type": "string"}}, kind={"enum": ["上升", "下降"]})
    )
    assert names.is_list
    assert kind.enum == ("上升", "下降")


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "array"}, "an object whose `properties`"),
        (object_of(), "an object whose `properties`"),
        (object_of(x={"type": "object", "properties": {}}), "'object'"),
        (object_of(x={"type": ["string", "integer"]}), "'any'"),
        (object_of(x=True), "not described"),
        (object_of(x={"type": "array", "items": {"type": "array"}}), "'array'"),
        (object_of(**{f"c{i}": {"type": "string"} for i in range(41)}), "41 columns"),
        (object_of(x={"type": "string", "pattern": "(a+)+"}), "repetition"),
        ({"type": "nope"}, "not a JSON schema"),
    ],
)
def test_what_no_cell_can_be_is_no_column(schema: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        columns_of(schema)


def test_a_model_may_leave_any_cell_empty_and_add_none() -> None:
    schema = filling_schema(object_of(a={"type": "string"}, b={"type": "integer"}), ["b"])
    assert schema["properties"] == {"b": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}
    assert (schema["required"], schema["additionalProperties"]) == (["b"], False)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("14,500 dollars", "integer", 14500),
        ("1.4万元", "number", 14000),
        ("3.5 %", "number", 3.5),
        ("3.5 %", "integer", None),
        ("5 to 10 days", "number", None),
        ("十四人", "integer", 14),
        ("5 March 1987", "date", "1987-03-05"),
        ("1987年", "date", "1987"),
        ("soon", "date", None),
        (" Acme ", "string", "Acme"),
    ],
)
def test_what_a_document_writes_becomes_a_value_of_the_columns_type(text: str, kind: str, value: Any) -> None:
    assert typed_value(text, column(kind)) == value


@pytest.mark.parametrize(
    ("value", "kind", "written"),
    [
        ("acme", "string", "Acme"),
        (14500, "integer", "14,500 dollars"),
        (14000, "number", "1.4万元"),
        ("1987-03-05", "date", "5 March 1987"),
        ("杭州市", "string", "杭州市"),
    ],
)
def test_a_models_value_is_kept_with_the_words_that_state_it(value: Any, kind: str, written: str) -> None:
    cell = checked_cell(value, column(kind), SourceIndex("?", [passage(TEXT)]))
    assert cell.is_filled
    assert cell.phrase is not None
    assert cell.phrase.text == written == TEXT[cell.phrase.start : cell.phrase.end]


@pytest.mark.parametrize(
    ("value", "kind", "reason"),
    [
        ("Initech", "string", "not_in_document"),
        (14501, "integer", "not_in_document"),
        ("1987-03-06", "date", "not_in_document"),
        (None, "string", "not_stated"),
        ([], "string", "not_stated"),
    ],
)
def test_a_value_that_does_not_stand_in_the_document_is_none(value: Any, kind: str, reason: str) -> None:
    cell = checked_cell(value, column(kind), SourceIndex("?", [passage(TEXT)]))
    assert (cell.value, cell.reason) == (None, reason)


def test_of_a_list_what_stands_in_the_document_is_kept() -> None:
    cell = checked_cell(["Acme", "Initech"], column(is_list=True), SourceIndex("?", [passage(TEXT)]))
    assert cell.value == ["Acme"]


def test_a_minus_before_a_number_belongs_to_it() -> None:
    start = TEXT.index("Margin")
    quote = Quote(DocumentId("doc"), "a.txt", start, start + 19, TEXT[start : start + 19])
    cell = chosen_cell("3.5 %", TEXT.index("3.5 %"), quote, column("number"))
    assert cell.value == -3.5


def test_chinese_is_found_across_a_line_break() -> None:
    quote = Quote(DocumentId("doc"), "a.txt", 10, 17, "设在杭\n州市。")
    phrase = locate("杭州市", quote)
    assert phrase is not None
    assert (phrase.text, phrase.start) == ("杭\n州市", 12)


def test_a_cell_whose_quote_is_not_in_the_source_is_null() -> None:
    quote = Quote(DocumentId("doc"), "a.txt", 0, 4, "Acme")
    cell = Cell("Acme", locate("Acme", quote), quote)
    assert cell_json(cell, [])["reason"] == "not_in_document"
    citation = Citation(1, quote.document_id, "a.txt", 0, 4, 1, 1, "Acme")
    shown = cell_json(cell, [citation])
    assert (shown["value"], shown["start"], shown["citation"]["first_page"]) == ("Acme", 0, 1)


def test_the_csv_has_a_values_place_beside_it_and_runs_no_formula() -> None:
    quote = Quote(DocumentId("doc"), "a.txt", 0, 9, "=HYPER(1)")
    citation = Citation(1, quote.document_id, "a.txt", 0, 9, 3, 3, "=HYPER(1)")
    row = ExtractionRow(
        document_id="doc",
        document_name="+a.txt",
        position=0,
        outcome="partial",
        cells={
            "名称": cell_json(Cell("=HYPER(1)", locate("=HYPER(1)", quote), quote), [citation]),
            "n": cell_json(Cell(-5, None, quote), [citation]),
            "none": cell_json(Cell(reason="not_stated"), []),
        },
        trail=[],
    )
    header, line = csv.reader(io.StringIO(table_as_csv(["名称", "n", "none"], [row])))
    cells = dict(zip(header, line, strict=True))
    assert cells["名称"] == cells["名称 (quote)"] == "'=HYPER(1)"
    assert (cells["名称 (page)"], cells["名称 (start)"], cells["名称 (end)"]) == ("3", "0", "9")
    assert cells["n"] == "-5"
    assert cells["document"] == "'+a.txt"
    assert cells["none"] == ""
    assert cells["none (why not)"] == "the document does not say it"
