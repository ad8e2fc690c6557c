"""Answers held to a form, through the whole pipeline: checked, repaired, cited value by value."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sqlalchemy import select

from core.errors import InvalidInput, OutputInvalid
from generation.constraints import OutputFormat
from storage.database import Database
from storage.engine_samples import list_timed_answers
from storage.models import Answer, LedgerEntry
from tests.pipeline_fixtures import House, build_house

REPORT = (
    b"Acme was founded in 1987 by Ada Byron. It makes anvils. In 2023 revenue rose to 14,500 dollars. "
    b"The head office moved to Lisbon on March 5, 2021."
)
CHINESE = "华云公司成立于2015年3月5日，总部设在杭州。2023年营业收入为1.4万元。".encode()
SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "where the head office is"},
        "revenue": {"type": "integer"},
    },
    "required": ["city", "revenue"],
    "additionalProperties": False,
}
QUESTION = "Where is the head office of Acme, and what was its revenue in 2023?"


@pytest.fixture
def house(database: Database, tmp_path: Path) -> House:
    house = build_house(database, tmp_path)
    house.ingest.run(house.claim(house.upload({"acme.txt": REPORT, "华云.txt": CHINESE})))
    return house


def ask(house: House, question: str, *replies: str, **parameters: object) -> Answer:
    house.generator.replies = list(replies)
    job_id, answer_id = house.ask(question, **parameters)
    house.answers.run(house.claim(job_id))
    return house.answer(answer_id)


def test_json_is_given_as_it_is_and_each_value_is_cited(house: House) -> None:
    text = '{"city": "Lisbon", "revenue": 14500}'
    answer = ask(house, QUESTION, text, format=OutputFormat("json_schema", SCHEMA))
    assert (answer.outcome, answer.mode, answer.text) == ("answered", "abstractive", text)
    values = {s["text"]: s for s in answer.statements}
    assert values.keys() == {"Lisbon", "14500"}
    for value, statement in values.items():
        assert text[statement["start"] : statement["end"]] == value
        assert statement["supported"]
    quotes = {c["number"]: c["quote"] for c in answer.citations}
    assert "Lisbon" in quotes[values["Lisbon"]["citations"][0]]
    assert "14,500" in quotes[values["14500"]["citations"][0]]
    assert answer.steps["validation"]["outcome"] == "passed"
    [request] = house.generator.requests
    assert request.constraint is not None
    assert (request.constraint.kind, request.constraint.value) == ("json", SCHEMA)


def test_chinese_values_are_found_however_they_are_written(house: House) -> None:
    schema = {
        "type": "object",
        "properties": {"总部": {"type": "string"}, "收入": {"type": "number"}, "成立": {"type": "string"}},
        "required": ["总部", "收入", "成立"],
    }
    text = '{"总部": "杭州", "收入": 14000, "成立": "2015-03-05"}'
    answer = ask(
        house, "华云公司的总部在哪里？收入多少？何时成立？", text, format=OutputFormat("json_schema", schema)
    )
    assert answer.text == text
    assert all(statement["supported"] for statement in answer.statements)
    assert len(answer.statements) == 3
    assert {c["document_name"] for c in answer.citations} == {"华云.txt"}


def test_what_fails_is_repaired_after_the_same_prefix_and_every_token_is_told(house: House) -> None:
    bad, good = '{"city": "Lisbon", "revenue": 99999}', '{"city": "Lisbon", "revenue": 14500}'
    answer = ask(house, QUESTION, bad, good, format=OutputFormat("json_schema", SCHEMA))
    assert answer.text == good
    first, second = answer.steps["validation"]["tries"]
    assert [finding["stage"] for finding in first["findings"]] == ["support"]
    assert "99999" in first["findings"][0]["detail"]
    assert first["text"] == bad
    assert second["findings"] == []
    asked, repaired = (list(request.prompt_token_ids) for request in house.generator.requests)
    shared = next(i for i, (a, b) in enumerate(zip(asked, repaired, strict=False)) if a != b)
    passages = asked.index(ord("A"))  # a token a character: "Acme was founded"
    assert shared > passages + len(REPORT) / 2
    assert "99999" in "".join(map(chr, repaired[shared:]))
    assert answer.completion_tokens == sum(t["usage"]["completion_tokens"] for t in (first, second))
    with house.database.read() as session:
        decoded = session.scalars(
            select(LedgerEntry.num_tokens).where(
                LedgerEntry.source == answer.id, LedgerEntry.stage == "decode", LedgerEntry.billed
            )
        ).all()
    assert sum(decoded) == answer.completion_tokens
    # Engine time of both, and of the cache what the first prompt found: the repair finds the first.
    assert answer.timings["decode_seconds"] == pytest.approx(2 * 0.2)
    assert answer.timings["engine_seconds"] == pytest.approx(2 * 0.3)
    assert answer.timings["engine_ttft_seconds"] == pytest.approx(0.1)
    assert answer.steps["prefix"]["cached_tokens"] == 32
    with house.database.read() as session:  # two requests together tell the pace of neither
        assert list_timed_answers(session, model="scripted", limit=10) == []
    assert answer.cached_tokens == 64
    assert [name for _, name, _ in house.events.published].count("restart") == 1


def test_a_number_that_no_passage_has_is_flagged_when_repairs_do_not_help(house: House) -> None:
    text = '{"city": "Lisbon", "revenue": 99999}'
    answer = ask(house, QUESTION, *[text] * 3, format=OutputFormat("json_schema", SCHEMA))
    assert (answer.outcome, answer.text) == ("answered", text)
    assert answer.steps["validation"]["outcome"] == "flagged"
    assert len(answer.steps["validation"]["tries"]) == 3
    assert any("99999" in warning for warning in answer.warnings)
    assert [s["supported"] for s in answer.statements] == [True, False]


def test_a_text_that_never_fits_its_form_fails_and_what_it_took_is_burned(house: House) -> None:
    house.generator.text = '{"city": "Lisbon"'
    job_id, answer_id = house.ask(QUESTION, format=OutputFormat("json_schema", SCHEMA), max_repairs=1)
    with pytest.raises(OutputInvalid, match="2 tries"):
        house.answers.run(house.claim(job_id))
    with house.database.read() as session:
        lines = session.scalars(select(LedgerEntry).where(LedgerEntry.source == answer_id)).all()
    assert {line.stage for line in lines} >= {"decode", "prefill_uncached"}
    assert not any(line.billed for line in lines)


def test_a_text_that_must_be_there_is_asked_for_then_forced(house: House) -> None:
    answer = ask(
        house, QUESTION, "It moved.", "It moved away.", "It moved to Lisbon.", must_include=("Lisbon",)
    )
    assert answer.text == "It moved to Lisbon."
    tries = answer.steps["validation"]["tries"]
    assert [each["how"] for each in tries] == ["first", "instruction", "forced"]
    kinds = [request.constraint and request.constraint.kind for request in house.generator.requests]
    assert kinds == [None, None, "regex"]


def test_no_repair_begins_beyond_its_budget_of_tokens(house: House) -> None:
    house.settings.ask.repair_tokens = 1000  # a prompt has some hundreds
    house.generator.text = "It moved."
    job_id, _ = house.ask(QUESTION, must_include=("Lisbon",), max_repairs=5)
    with pytest.raises(OutputInvalid):
        house.answers.run(house.claim(job_id))
    assert 2 < len(house.generator.requests) < 6


@pytest.mark.parametrize(
    ("style", "reply", "question"),
    [
        ("iso", "2021-03-05", "When did the head office of Acme move?"),
        ("chinese", "2015年3月5日", "华云公司是哪一天成立的？"),
    ],
)
def test_a_date_is_cited_by_the_day_however_the_document_writes_it(
    house: House, style: str, reply: str, question: str
) -> None:
    answer = ask(house, question, reply, format=OutputFormat("date", style))
    assert answer.text == reply
    assert answer.statements[0]["supported"]
    assert answer.steps["validation"]["outcome"] == "passed"


def test_a_day_that_there_is_not_is_no_date(house: House) -> None:
    answer = ask(house, "When did it move?", "2021-02-29", "2021-03-05", format=OutputFormat("date", "iso"))
    assert answer.text == "2021-03-05"
    assert answer.steps["validation"]["tries"][0]["findings"][0]["stage"] == "dates"


def test_a_choice_is_cited_by_what_speaks_of_the_question(house: House) -> None:
    form = OutputFormat("choice", ("rising", "falling"))
    answer = ask(house, "How did the revenue of Acme develop in 2023?", "rising", format=form)
    assert answer.text == "rising"
    assert "revenue rose" in answer.citations[0]["quote"]


@pytest.mark.parametrize("mode", ["extractive", "quoted"])
def test_quotes_cannot_be_held_to_a_form(house: House, mode: str) -> None:
    with pytest.raises(InvalidInput, match=mode):
        house.ask("What?", mode=mode, format=OutputFormat("date", "iso"))


def test_what_is_stored_is_the_form_that_was_asked_for(house: House) -> None:
    _, answer_id = house.ask("What?", format=OutputFormat("json_schema", SCHEMA), must_include=("x",))
    stored = house.answer(answer_id).parameters
    assert stored["format"] == {"type": "json_schema", "schema": SCHEMA}
    assert list(json.loads(json.dumps(stored))["format"]["schema"]["properties"]) == ["city", "revenue"]


def test_a_repair_for_which_there_is_no_room_leaves_the_answer_there_is(house: House) -> None:
    flagged, form = '{"city": "Lisbon", "revenue": 99999}', OutputFormat("json_schema", SCHEMA)
    first = ask(house, QUESTION, flagged, format=form, max_repairs=0)
    room = 8192 - first.steps["context"]["prompt_tokens"]
    house.events.published.clear()
    answer = ask(house, QUESTION, flagged, format=form, max_tokens=room - 5)
    assert answer.text == flagged
    tried, refused = answer.steps["validation"]["tries"]
    assert tried["findings"]
    assert "tokens" in refused["note"]
    assert [name for _, name, _ in house.events.published].count("restart") == 0
