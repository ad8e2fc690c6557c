from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.answer_sets import Material, SetQuestion, SourceFile, draw_set, load_sets
from core.errors import NotFound

MATERIAL = Material(
    [SourceFile(f"file-{i}.txt", "x" * 100) for i in range(20)],
    [
        SetQuestion(f"q{i}-{j}", f"Question {i}-{j}?", ("yes",), (f"file-{i}.txt",))
        for i in range(20)
        for j in range(6)
    ],
)


def draw(sample: str = "report", *, max_characters: int = 1000, num_questions: int = 8):
    return draw_set(
        "a-set",
        "en",
        MATERIAL,
        max_characters=max_characters,
        num_questions=num_questions,
        sample=sample,
    )


def test_a_set_is_the_same_every_time() -> None:
    assert draw() == draw()


def test_files_stay_within_their_budget_and_hold_every_answer() -> None:
    drawn = draw(max_characters=350)

    assert sum(len(file.text) for file in drawn.files) <= 350
    names = {file.name for file in drawn.files}
    assert drawn.questions
    assert all(names.issuperset(question.files) for question in drawn.questions)


def test_the_sample_to_tune_by_shares_no_question_with_the_reported_one() -> None:
    everything = {"max_characters": 10_000, "num_questions": 1000}

    reported = {question.id for question in draw("report", **everything).questions}
    tuned = {question.id for question in draw("dev", **everything).questions}

    assert reported
    assert tuned
    assert not reported & tuned


def test_files_that_questions_need_come_before_others() -> None:
    material = Material(MATERIAL.files, [q for q in MATERIAL.questions if q.files == ("file-3.txt",)])

    drawn = draw_set("a-set", "en", material, max_characters=100, num_questions=9)

    assert [file.name for file in drawn.files] == ["file-3.txt"]


def test_data_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound) as error:
        load_sets(tmp_path, quick=True)

    assert "docs.jsonl" in str(error.value)


def test_sets_of_both_languages_are_read_from_their_files(tmp_path: Path) -> None:
    write_data(tmp_path)

    by_name = {one.name: one for one in load_sets(tmp_path, quick=False)}

    assert {one.language for one in by_name.values()} == {"en", "zh"}
    asked = [q for one in by_name.values() for q in one.questions]
    assert all(q.answers[0] for q in asked)
    domainrag = [q for q in by_name["domainrag-zh"].questions if "语言" in q.text]
    assert all(q.answers == ("汉语、法语",) for q in domainrag)


def write_data(folder: Path) -> None:
    """One document and a few questions in the form of each set."""
    numbers = range(6)
    write(
        folder / "qa-dragonball/docs.jsonl",
        [
            {"doc_id": 0, "lang": "zh", "title": "公司", "text": "公司成立于2001年。"},
            {"doc_id": 1, "lang": "en", "title": "A company", "text": "Founded in 2001."},
        ],
    )
    write(
        folder / "qa-dragonball/questions.jsonl",
        [
            {"id": f"{lang}-{n}", "lang": lang, "question": f"{text}{n}", "answer": "2001", "doc_ids": [doc]}
            | {"answerable": True}
            for lang, text, doc in (("zh", "何时成立？", 0), ("en", "Founded when?", 1))
            for n in numbers
        ],
    )
    write(
        folder / "qa-ohrbench/pages.jsonl",
        [
            {"doc_id": "law/A", "page": 1, "text": "Second page."},
            {"doc_id": "law/A", "page": 0, "text": "First page."},
        ],
    )
    write(
        folder / "qa-ohrbench/questions.jsonl",
        [
            {"id": str(n), "doc_id": "law/A", "question": f"Which page {n}?", "answer": "first"}
            | {"answer_form": "Short Answer", "evidence_source": "text"}
            for n in numbers
        ],
    )
    page = folder / "qa-gitlab-handbook/docs/company/structure.md"
    page.parent.mkdir(parents=True)
    page.write_text("# Structure\n\nVPs.", encoding="utf-8")
    write(
        folder / "qa-gitlab-handbook/questions.jsonl",
        [
            {"id": str(n), "type": "single_text", "question": f"Who {n}?", "answer": "VPs"}
            | {"retrieval": [{"doc": "company/structure.md", "text": "VPs."}]}
            for n in numbers
        ],
    )
    write(folder / "qa-multifieldqa-zh/docs.jsonl", [{"doc_id": "d", "text": "厦门大学。"}])
    write(
        folder / "qa-multifieldqa-zh/questions.jsonl",
        [
            {"id": str(n), "question": f"哪所大学{n}？", "answers": ["厦门大学。"], "doc_id": "d"}
            for n in numbers
        ],
    )
    write(
        folder / "qa-domainrag-zh/corpus.jsonl",
        [
            {
                "id": "p",
                "title": "学院",
                "url": "https://a.example/1",
                "date": "2020-07-10",
                "text": "汉语和法语。",
            }
        ],
    )
    write(
        folder / "qa-domainrag-zh/questions.jsonl",
        [
            {"id": str(n), "task": "extractive", "question": f"哪些语言{n}？", "answers": [["汉语", "法语"]]}
            | {"gold_passages": ["p"]}
            for n in numbers
        ],
    )
    for language in ("en", "zh"):
        xquad = folder / "ir-xquad"
        write(
            xquad / f"corpus.{language}.jsonl", [{"id": f"{language}:0-0", "title": "", "text": "308 points"}]
        )
        write(
            xquad / f"queries.{language}.jsonl",
            [{"id": f"x{n}", "text": f"How many {n}?", "answers": ["308"]} for n in numbers],
        )
        rows = "".join(f"x{n}\t{language}:0-0\t1\n" for n in numbers)
        (xquad / f"qrels.{language}.tsv").write_text("query\tcorpus\tscore\n" + rows, encoding="utf-8")


def write(path: Path, rows: list[dict[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
