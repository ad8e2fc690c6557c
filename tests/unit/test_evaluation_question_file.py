from __future__ import annotations

import json

import pytest

from core.errors import EmptyInput, InvalidInput, TooLarge
from evaluation.question_file import parse_question_file
from evaluation.questions import MAX_QUESTIONS, GoldQuestion


def lines(*records: object) -> str:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def test_a_jsonl_file_is_read_in_order_with_every_field_settled() -> None:
    content = "\ufeff" + lines(
        {
            "id": 7,
            "doc": "三国.txt",
            "lang": "zh",
            "question": "重多少斤？",
            "answer": "八十二斤",
            "evidence": ["重八十二斤", {"document": "b.pdf", "page": 3}],
        }
    )
    content += "\n" + lines({"question": "Who?", "answers": ["a", 42], "answerable": False})
    first, second = parse_question_file("q.jsonl", content)
    assert first.as_json(position=0) == {
        "id": "7",
        "question": "重多少斤？",
        "answers": ["八十二斤"],
        "evidence": [
            {"text": "重八十二斤", "document": "三国.txt", "page": None},
            {"text": None, "document": "b.pdf", "page": 3},
        ],
        "answerable": True,
        "language": "zh",
        "history": [],
        "metadata": {},
    }
    assert (second.answers, second.answerable) == (["a", "42"], False)
    assert second.as_json(position=1)["id"] == "2"
    assert second.as_json(position=1)["language"] == "en"


def test_a_csv_file_may_hold_line_breaks_lists_and_semicolons() -> None:
    content = (
        'id,question,answers,evidence,answerable\n1,"why\nso?","[""a"", ""b""]",because,是\n2,什么？,,,no\n'
    )
    first, second = parse_question_file("q.CSV", content)
    assert first.question == "why\nso?"
    assert first.answers == ["a", "b"]
    assert [each.text for each in first.evidence] == ["because"]
    assert (first.answerable, second.answerable) == (True, False)
    [only] = parse_question_file("q.csv", "question;answer\nwhen;1,5\n")
    assert only.answers == ["1,5"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('{"question": "x", "anser": "y"}', "line 1, anser: there is no such field"),
        ('\n\n{"answer": "y"}', "line 3, question: it is missing"),
        ('{"question": "？！"}', "line 1, question: the question is empty"),
        ('{"question": ', "line 1: it is not JSON (at character"),
        ('["x"]', "line 1: it is not a JSON object"),
        ('{"question": "x", "answer": NaN}', "line 1: it is not JSON"),
        ('{"question": "x", "answer": [1, null]}', "line 1, answer.1"),
        ('{"question": "x", "answer": ""}', "line 1, answer.0"),
        ('{"question": "x", "evidence": [{"page": 3}]}', "line 1, evidence.0: it needs a `text`"),
        ('{"question": "x", "evidence": [{"document": "a", "page": 0}]}', "line 1, evidence.0.page"),
        ('{"question": "x", "answerable": "perhaps"}', "line 1, answerable"),
        ('{"question": "x\\u0000"}', "line 1, question: it holds a NUL"),
        ('{"question": "x\\ud800"}', "line 1, question: it holds"),
        ('{"question": "x", "history": [{"question": "y"}]}', "line 1, history.0.answer: it is missing"),
    ],
)
def test_what_is_wrong_is_told_by_line_and_field(content: str, told: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_question_file("q.jsonl", content)
    assert told in str(caught.value)
    assert "q.jsonl" in str(caught.value)
    assert "nothing was made of it" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("question,answer\nx,y,z\n", "line 2: it has more cells than the header has columns"),
        ('question,answer\n"a\nb",c\nx,y,z\n', "line 4: it has more cells"),
        ("question,answerable\nx,maybe\n", "line 2, answerable: it must be true or false"),
        ("question,evidence\nx,[1\n", "line 2, evidence: it begins as JSON does"),
        ('question,answer\n"x,y\n', "it is not CSV"),
        ("frage,answer\nx,y\n", "line 2, question: it is missing"),
    ],
)
def test_what_is_wrong_in_a_table_is_told_by_line_and_column(content: str, told: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_question_file("q.csv", content)
    assert told in str(caught.value)


def test_many_faults_are_counted_and_the_first_few_named() -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_question_file("q.jsonl", lines(*[{"question": ""}] * 9))
    assert "line 5, question" in caught.value.detail
    assert "line 6" not in caught.value.detail
    assert "and 4 more" in caught.value.detail


def test_a_file_of_another_kind_an_empty_one_and_an_endless_one_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"its name does not end in \.jsonl or \.csv"):
        parse_question_file("questions.xlsx", "x")
    for name in ("q.jsonl", "q.csv"):
        with pytest.raises(EmptyInput, match="holds no question"):
            parse_question_file(name, "\n")
    with pytest.raises(TooLarge, match="5,001 questions"):
        parse_question_file("q.jsonl", '{"question": "x"}\n' * (MAX_QUESTIONS + 1))


def test_the_language_is_recognised_where_it_is_not_given() -> None:
    assert GoldQuestion(question="关羽的刀重多少斤？").as_json(position=0)["language"] == "zh"
    assert GoldQuestion(question="How heavy is 青龙 blade?").as_json(position=0)["language"] == "en"
