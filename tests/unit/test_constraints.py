"""What is refused of a form before anything runs."""

from __future__ import annotations

import contextlib
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InvalidInput
from generation.constraints import DATE_STYLES, OutputFormat, admit_format, forced_inclusion
from generation.sampling import SamplingChoice


def admit(kind: str, value: Any, *must_include: str) -> None:
    admit_format(OutputFormat(kind, value), must_include)  # type: ignore[arg-type]


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def doubling(times: int) -> dict[str, Any]:
    """A small schema of which each level wants the next twice."""
    levels: dict[str, Any] = {f"d{times}": {"type": "null"}}
    for i in range(times):
        both = {name: {"$ref": f"#/$defs/d{i + 1}"} for name in "ab"}
        levels[f"d{i}"] = {"type": "object", "properties": both, "required": ["a", "b"]}
    return {"$defs": levels, "$ref": "#/$defs/d0"}


@pytest.mark.parametrize(
    "pattern",
    [
        r"\d{4}年\d{1,2}月",
        r"(\d{1,3},)*\d{1,3}",
        "^a$",
        "[一-鿿]{1,200}",
        "(是|否)",
        "(?:a{2}){3}",
        ".{0,50}X.{0,50}",
        ".*X.*",
        "[a-z]{1,500}",
    ],
)
def test_a_plain_pattern_is_taken(pattern: str) -> None:
    admit("regex", pattern)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("a{1000000}", "1,000,000 times"),
        ("(a+)+b", "nothing but repetition"),
        ("(.{0,50}){0,50}x", "nothing but repetition"),  # xgrammar worked on it for minutes
        ("((a{1,30}){1,30}){1,30}", "nothing but repetition"),
        ("(a*|b)*", "nothing but repetition"),
        ("a{2000}b{2000}c{2000}", "6,000 characters"),
        (".{0,200}X.{0,200}", "wide classes"),
        ("a" * 3000, "3,000 characters"),
        ("(" * 30 + ")" * 30, "20 deep"),
        ("(", "not a regular expression"),
        (r"[^\s\S]", "matches nothing"),  # with which vLLM 0.32 fails, and fails again
        (r"\d+[^\x00-\U0010ffff]", "matches nothing"),
        ("^$", "empty text only"),
        ("(a*){0}", "empty text only"),
        ("a{5,2}", "not a regular expression"),
        ("a^b", "middle"),
        (r"\bfoo", "word boundary"),
        ("(?=a)b", "lookahead"),
        (r"(a)\1", "backreferences"),
        ("(?i)a", "flags"),
        ("(?P<x>a)", "named groups"),
        ("", "0 characters"),
        ("a\x00", "NUL"),
    ],
)
def test_a_pattern_that_could_hang_an_engine_or_cannot_be_enforced_is_refused(
    pattern: str, reason: str
) -> None:
    with pytest.raises(InvalidInput, match=re.escape(reason)):
        admit("regex", pattern)


@given(st.text(max_size=60))
def test_no_pattern_ends_otherwise_than_taken_or_refused(pattern: str) -> None:
    with contextlib.suppress(InvalidInput):
        admit("regex", pattern)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"首都": {"type": "string", "maxLength": 5}}, "required": ["首都"]},
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
        {"type": "array", "items": {"enum": ["是", "否"]}, "maxItems": 3},
        {"$ref": "#/$defs/n", "$defs": {"n": {"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}}}},
        {"type": "string", "pattern": r"\d{4}-\d{2}"},
        {"const": "东"},
        {},
    ],
)
def test_a_schema_that_can_be_enforced_is_taken(schema: dict[str, Any]) -> None:
    admit("json_schema", schema)


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "nope"}, "not a JSON schema: at `#/type`"),
        ({"properties": 5}, "#/properties"),
        (nested(40), "16 schemas deep"),
        (nested(17), "nests more than 16 deep"),
        ({"type": "object", "properties": {f"k{i}": {} for i in range(500)}}, "500 properties"),
        ({"enum": [str(i) for i in range(600)]}, "600 enum values"),
        ({"type": "string", "maxLength": 10**9}, "1,000,000,000"),
        ({"description": "x" * 30_000}, "characters"),
        ({"not": {}}, "`not` at `#`"),
        ({"type": "array", "uniqueItems": True}, "`uniqueItems`"),
        ({"allOf": [{}, {}]}, "allOf"),
        ({"properties": {"a": {"$ref": "http://127.0.0.1/x"}}}, "#/properties/a"),
        ({"$ref": "#/$defs/none"}, "refers to nothing"),
        ({"type": "string", "format": "colour"}, "colour"),
        ({"type": "string", "pattern": "(a+)+"}, "The pattern at `#`"),
        ({"type": "string", "pattern": "a", "maxLength": 3}, "beside a length"),
        ({"type": "integer", "minimum": 5, "maximum": 1}, "Nothing fits"),
        ({"type": "integer", "minimum": 1.2, "maximum": 1.8}, "no number fits"),
        ({"type": "number", "exclusiveMinimum": 1, "exclusiveMaximum": 1}, "no number fits"),
        ({"enum": []}, "no value of `enum`"),
        ({"enum": ["a"], "type": "integer"}, "no value of `enum`"),
        ({"type": "object", "required": ["x"]}, "`properties` does not describe"),
        (
            {
                "$ref": "#/$defs/n",
                "$defs": {
                    "n": {"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}, "required": ["n"]}
                },
            },
            "without end",
        ),
        ({"$ref": "#"}, "without end"),
        ({"type": "array", "minItems": 2, "items": False}, "no rule of it lets pass"),
        (
            {"type": "array", "minItems": 500, "items": {"type": "array", "minItems": 500}},
            "The shortest text that fits",
        ),
        (doubling(30), "The shortest text that fits"),
    ],
)
def test_a_schema_that_is_invalid_unsatisfiable_or_hostile_is_refused_with_its_place(
    schema: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InvalidInput, match=re.escape(reason)):
        admit("json_schema", schema)


@pytest.mark.parametrize(
    "schema",
    [
        doubling(8),
        {
            "type": "object",
            "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
            "required": ["next"],
        },
        {"type": "array", "items": {"$ref": "#"}},
    ],
)
def test_a_schema_that_refers_to_itself_and_can_end_is_taken(schema: dict[str, Any]) -> None:
    admit("json_schema", schema)


def test_a_schema_deeper_than_recursion_goes_is_refused_and_no_more() -> None:
    schema: dict[str, Any] = {}
    for _ in range(50_000):
        schema = {"items": schema}
    with pytest.raises(InvalidInput, match="deep"):
        admit("json_schema", schema)
    while schema:  # or its end would be as deep
        schema = schema["items"]


@pytest.mark.parametrize(
    "grammar",
    [
        'root ::= "是" | "否"',
        'root ::= ("a" | b)* "c"\nb ::= [0-9]+ # digits',
        'root ::= "(" root ")" | "a"',
        'root ::= root "a" | "b"',
        'root ::= item ("+" item)*\nitem ::= [0-9]+ | "(" root ")"',
    ],
)
def test_a_grammar_that_describes_a_text_is_taken(grammar: str) -> None:
    admit("grammar", grammar)


@pytest.mark.parametrize(
    ("grammar", "reason"),
    [
        ("", "0 characters"),
        ('x ::= "a"', "no rule called root"),
        ("root ::= x", "`x`, which no rule defines"),
        ('root ::= "a" root', "describes no text"),
        ("root ::= root", "describes no text"),
        ('root ::= root "" | "x"', "back to itself"),
        ('root ::= "a"{1,100000}', "100,000 times"),
        ("root ::= root root | [a-z]", "begin and end with itself"),
        ('root ::= root "+" root | [0-9]', "begin and end with itself"),
        ('root ::= ("a"+)+', "nothing but repetition"),
        ('root ::= "a" (', "does not close"),
        ('root ::= "a" )', "cannot be read"),
        ('start: "a"', "cannot be read"),
        ('root ::= "a"\nroot ::= "b"', "twice"),
        ("root ::= " + "(" * 200 + '"a"' + ")" * 200, "20 deep"),
        ('root ::= "a"\n' + "\n".join(f'r{i} ::= "a"' for i in range(300)), "301 rules"),
    ],
)
def test_a_grammar_that_is_wrong_or_hostile_is_refused(grammar: str, reason: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(reason)):
        admit("grammar", grammar)


def test_lengths_that_take_an_engine_long_are_left_to_validation() -> None:
    strings = {f"k{i}": {"type": "string", "maxLength": n} for i, n in enumerate((20, 5000, 70, 100))}
    schema = {"type": "object", "properties": strings, "required": ["k0"]}
    told = OutputFormat("json_schema", schema).constraint().value["properties"]  # type: ignore[index,call-overload]
    assert [child.get("maxLength") for child in told.values()] == [20, None, 70, 100]
    assert strings["k1"]["maxLength"] == 5000


def test_choices_are_distinct_trimmed_and_hold_what_must_be_there() -> None:
    admit("choice", ("是", "否"))
    admit("choice", ("to be", "not to be"), "not")
    for choices, wanted in (
        ((), ()),
        (("a", "a"), ()),
        ((" a",), ()),
        (("a", "b"), ("c",)),
        (("x",) * 600, ()),
    ):
        with pytest.raises(InvalidInput):
            admit("choice", choices, *wanted)


@pytest.mark.parametrize("texts", [[""], ["a\nb"], ["x" * 501], ["a"] * 21])
def test_texts_that_cannot_be_included_are_refused(texts: list[str]) -> None:
    with pytest.raises(InvalidInput, match="must_include"):
        admit_format(None, texts)


@pytest.mark.parametrize("style", DATE_STYLES)
def test_each_date_style_is_a_pattern_that_is_taken_and_matches_its_example(style: str) -> None:
    pattern, example = DATE_STYLES[style]  # type: ignore[index]
    admit("regex", pattern)
    assert re.fullmatch(pattern, example)


@pytest.mark.parametrize(
    ("style", "text"),
    [
        ("iso", "2024-04-31"),
        ("iso", "2024-13-01"),
        ("chinese", "2024年2月30日"),
        ("english", "June 31, 2024"),
    ],
)
def test_no_month_has_a_day_too_many(style: str, text: str) -> None:
    assert not re.fullmatch(DATE_STYLES[style][0], text)  # type: ignore[index]


@given(
    st.lists(
        st.text(min_size=1, max_size=20).filter(lambda t: "\n" not in t and "\r" not in t),
        min_size=1,
        max_size=3,
    )
)
def test_a_forced_text_is_matched_letter_by_letter(texts: list[str]) -> None:
    constraint = forced_inclusion(texts)
    assert isinstance(constraint.value, str)
    assert re.fullmatch(constraint.value, "before " + " and ".join(texts) + " after")
    assert not re.fullmatch(constraint.value, "\n")


@pytest.mark.parametrize(
    "choice",
    [
        SamplingChoice(n=3),
        SamplingChoice(beam_width=2),
        SamplingChoice(min_tokens=5),
        SamplingChoice(stop=("}",)),
        SamplingChoice(bad_words=("x",)),
        SamplingChoice(no_repeat_ngram_size=2),
    ],
)
def test_what_could_forbid_the_only_token_left_is_refused_beside_a_form(choice: SamplingChoice) -> None:
    with pytest.raises(InvalidInput, match="beside a form"):
        admit_format(OutputFormat("date", "iso"), (), sampling=choice)
    admit_format(OutputFormat("date", "iso"), (), sampling=SamplingChoice(temperature=0.7, seed=1, n=1))


def test_a_format_is_stored_as_the_api_takes_it() -> None:
    for form in (
        OutputFormat("json_schema", {"type": "object"}),
        OutputFormat("regex", "a"),
        OutputFormat("choice", ("a", "b")),
        OutputFormat("grammar", 'root ::= "a"'),
        OutputFormat("date", "iso"),
    ):
        assert OutputFormat.of_json(form.as_json()) == form
