from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.retrieval_sets import (
    Evidence,
    EvidenceMap,
    RetrievalSet,
    SuiteDocument,
    SuiteQuestion,
    load_suite,
    page_key,
    sample,
    shrink,
)
from core.errors import NotFound
from core.ids import ChunkId, DocumentId
from storage.chunks import LiveChunk

QUOTE = "The committee publishes its minutes within ten days of each meeting."
引文 = "委员会在每次会议之后十天之内公布会议纪要，并允许书面补充。"


def live_chunk(number: int, text: str) -> LiveChunk:
    return LiveChunk(
        id=ChunkId(number),
        document_id=DocumentId("doc"),
        document_name="a",
        document_title="",
        position=number,
        start=0,
        end=len(text),
        first_page=1,
        last_page=1,
        headings=(),
        text=text,
        num_generator_tokens=1,
    )


def small_set(num_questions: int = 10) -> RetrievalSet:
    documents = tuple(SuiteDocument(f"doc {i}", "", "x" * 100) for i in range(20))
    questions = tuple(SuiteQuestion(f"q{i}", "?", {page_key(f"doc {i}", 3): 1}) for i in range(num_questions))
    return RetrievalSet("small", "en", "page", documents, questions)


@pytest.mark.parametrize("quote", [QUOTE, 引文])
def test_a_chunk_holds_evidence_that_it_quotes_loosely_and_no_other(quote: str) -> None:
    question = SuiteQuestion(
        "q", "?", {}, (Evidence("a", quote), Evidence("b", quote), Evidence("a", "gone " * 9))
    )
    chunks = [
        ("a", live_chunk(1, f"Before. {quote.upper()[:-6]} After.")),
        ("a", live_chunk(2, quote[: len(quote) // 3])),
        ("c", live_chunk(3, quote)),  # the same words in a document that nobody named
    ]
    evidence = EvidenceMap([question], chunks)
    assert evidence.keys(question, chunks[0][1]) == ["evidence 0"]
    assert evidence.keys(question, chunks[1][1]) == ["chunk 2"]
    assert evidence.keys(question, chunks[2][1]) == ["chunk 3"]
    assert evidence.relevant(question) == {"evidence 0": 1}  # what no chunk holds cannot be found


def test_a_sample_is_spread_evenly_and_always_the_same() -> None:
    assert [q.id for q in sample(small_set(), 4).questions] == ["q0", "q2", "q5", "q7"]
    assert sample(small_set(), 100).questions == small_set().questions


def test_a_shrunk_set_keeps_the_documents_of_its_questions_and_its_size() -> None:
    shrunk = shrink(small_set(), num_questions=3, num_characters=500)
    assert [q.id for q in shrunk.questions] == ["q0", "q1", "q2"]
    assert [d.id for d in shrunk.documents] == [f"doc {i}" for i in range(5)]
    tight = shrink(small_set(), num_questions=9, num_characters=250)
    assert [q.id for q in tight.questions] == ["q0", "q1"]


def write_rows(path: Path, *rows: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def write_judged(folder: Path, suffix: str = "", queries: str = "") -> None:
    write_rows(
        folder / f"corpus{suffix}.jsonl", {"id": 1, "title": "T", "text": "text"}, {"id": 2, "text": " "}
    )
    write_rows(
        folder / f"queries{queries or suffix}.jsonl", {"id": "a", "text": "?"}, {"id": "b", "text": "?"}
    )
    (folder / f"qrels{suffix}.tsv").write_text("query-id\tcorpus-id\tscore\na\t1\t3\nb\t1\t0\n")


def test_every_set_of_the_suite_is_read_with_what_answers_what(tmp_path: Path) -> None:
    for name in ("ir-cranfield", "qa-domainrag-zh", "ir-cmrc2018"):
        write_judged(tmp_path / name)
    for language in ("en", "zh"):
        write_judged(tmp_path / "ir-xquad", f".{language}")
    pages = [{"doc_id": "d", "page": page, "text": f"page {page}"} for page in (0, 2)]
    write_rows(tmp_path / "qa-ohrbench/pages.jsonl", *pages)
    asked = {"id": "o", "doc_id": "d", "question": "?", "evidence_page_zero_based": 2}
    write_rows(tmp_path / "qa-ohrbench/questions.jsonl", asked)
    write_rows(tmp_path / "qa-financebench/questions.jsonl")
    write_rows(tmp_path / "qa-mmlongbench-doc/questions.jsonl")
    (tmp_path / "qa-gitlab-handbook/docs/a").mkdir(parents=True)
    (tmp_path / "qa-gitlab-handbook/docs/a/b.md").write_text(f"# Handbook\n\n{QUOTE}\n")
    quoted = [{"doc": "a/b.md", "text": QUOTE}]
    kinds = ("multi-hop_reasoning", "negation_exclusion", "single_text")
    rows = [{"id": kind, "type": kind, "question": "?", "retrieval": quoted} for kind in kinds]
    write_rows(tmp_path / "qa-gitlab-handbook/questions.jsonl", *rows)
    write_rows(tmp_path / "qa-multifieldqa-zh/docs.jsonl", {"doc_id": "m", "text": 引文})
    write_rows(tmp_path / "qa-multifieldqa-zh/questions.jsonl", {"id": "q", "question": "？", "doc_id": "m"})
    report = {"doc_id": 7, "lang": "zh", "title": "公司", "text": 引文}
    write_rows(tmp_path / "qa-dragonball/docs.jsonl", report, {**report, "lang": "en"})
    question = {"lang": "zh", "question": "？", "doc_ids": [7], "evidence": [引文]}
    answerable, refused = (
        {**question, "id": "z", "answerable": True},
        {**question, "id": "u", "answerable": False},
    )
    write_rows(tmp_path / "qa-dragonball/questions.jsonl", answerable, refused)

    suite = {one.name: one for one in load_suite(tmp_path)}

    assert len(suite) == 10
    assert [d.id for d in suite["cranfield"].documents] == ["1"]  # the other one is blank
    assert {q.id: dict(q.relevant) for q in suite["cmrc2018"].questions} == {"a": {"1": 3}}
    ohr = suite["ohrbench"]
    assert dict(ohr.questions[0].relevant) == {page_key("d", 3): 1}
    assert ohr.documents[0].text == "page 0\n\npage 2\n"
    assert ohr.documents[0].page_starts == (0, 7, 8)
    assert [q.id for q in suite["gitlab"].questions] == list(kinds[:2])
    assert suite["gitlab"].documents[0].title == "Handbook"
    assert [q.id for q in suite["dragonball-zh"].questions] == ["z"]
    assert [d.id for d in suite["dragonball-zh"].documents] == ["7"]
    assert suite["xquad-zh-en"].questions[0].text == "?"
    held_out = {name: [q.is_held_out for q in one.questions] for name, one in suite.items()}
    assert held_out["cmrc2018"] == [True]
    assert held_out["domainrag-zh"] == held_out["dragonball-zh"] == held_out["multifieldqa-zh"] == [False]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="ir-cranfield"):
        load_suite(tmp_path)
