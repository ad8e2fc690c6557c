from __future__ import annotations

import json

import pytest

from api.batch_file import parse_batch_file
from core.errors import InvalidInput


def lines(*records: object) -> bytes:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode()


def test_lines_are_read_in_order_as_requests_or_plain() -> None:
    data = lines(
        {
            "custom_id": "重",
            "method": "POST",
            "url": "/v1/questions",
            "body": {"question": "刀重多少斤？", "mode": "extractive", "filter": {"tags": ["三国"]}},
        },
        {"question": "How many moons?", "num_passages": 3},
        {"custom_id": 7, "question": "Who?"},
    )
    first, second, third = parse_batch_file("q", data, on_invalid="refuse")
    assert (first.custom_id, first.question, first.parameters.mode) == ("重", "刀重多少斤？", "extractive")
    assert first.parameters.filter.tags == ("三国",)
    assert (second.custom_id, second.parameters.num_passages) == ("line-2", 3)
    assert third.custom_id == "7"


def test_a_table_says_numbers_truth_and_lists_as_json_does() -> None:
    data = (
        "custom_id,question,num_passages,temperature,rerank,filter,mode\r\n"
        '1,什么？,3,0.5,是,"{""tags"": [""a""]}",abstractive\r\n'
        "2,3,,,,,\r\n"
    )
    first, second = parse_batch_file("q", data.encode("gb18030"), on_invalid="refuse")
    assert (first.custom_id, first.question) == ("1", "什么？")
    chosen = first.parameters
    assert (chosen.num_passages, chosen.temperature, chosen.rerank) == (3, 0.5, True)
    assert chosen.filter.tags == ("a",)
    assert second.question == "3"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "gb18030", "big5"])
def test_a_file_is_read_in_its_encoding(encoding: str) -> None:
    text = "".join(f'{{"question": "第{i}個問題：請問這份年度報告的主要內容是什麼？"}}\n' for i in range(5))
    assert len(parse_batch_file("q", text.encode(encoding), on_invalid="refuse")) == 5
    assert "年度報告" in parse_batch_file("q", text.encode(encoding), on_invalid="refuse")[0].question


BAD = [
    ({"question": "?!"}, "question: The question is empty."),
    ({"question": "x", "mood": 1}, "mood: there is no such field"),
    ({"custom_id": "a", "url": "/v1/chat/completions", "body": {"question": "x"}}, "url: input should be"),
    ({"custom_id": "a", "body": {"questoin": "x"}}, "body.question: it is missing"),
    ({"body": {"question": "x"}}, "custom_id: it is missing"),
    ({"question": "x", "mode": "extractive", "temperature": 0.5}, "which writes nothing"),
    ({"question": "x", "stream": True}, "stream: there is no such field"),
    ({"question": "x", "custom_id": "a\nb"}, "custom_id: it must not hold control characters"),
    ([1], "it is not a JSON object"),
]


@pytest.mark.parametrize(("record", "told"), BAD)
def test_a_bad_line_is_told_by_number_and_field(record: object, told: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_batch_file("q.jsonl", lines({"question": "fine?"}, record), on_invalid="refuse")
    assert "q.jsonl, line 2" in caught.value.detail
    assert told in caught.value.detail


def test_all_bad_lines_are_told_at_once() -> None:
    data = b'{"question": "a"}\nnot json\n{"question": ""}\n{"question": "b", "custom_id": "line-1"}\n'
    with pytest.raises(InvalidInput) as caught:
        parse_batch_file("q", data, on_invalid="refuse")
    faults = caught.value.context["faults"]
    assert isinstance(faults, list)
    assert [(fault["line"], fault["field"]) for fault in faults] == [
        (2, ""),
        (3, "question"),
        (4, "custom_id"),
    ]
    assert "'line-1' stands in line 1 already" in str(caught.value)


def test_skipped_lines_keep_what_can_be_read_of_them() -> None:
    data = lines({"custom_id": "a", "question": "x", "mood": 1}, {"question": "fine?"}) + b"{\n"
    first, second, third = parse_batch_file("q", data, on_invalid="skip")
    assert (first.custom_id, first.question, first.problem) == (
        "a",
        "x",
        "line 1, mood: there is no such field",
    )
    assert second.problem == ""
    assert (third.custom_id, third.question) == ("line-3", "")
    assert "it is not JSON" in third.problem
