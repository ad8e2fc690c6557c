"""The sets of `bench extraction`: questions whose evidence is known word for word."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.metrics import content_of
from core.errors import NotFound
from ingest.parsed import Heading, join_pages
from ingest.parsers import parse
from retrieval.sentences import split_sentences

_DEMO_WINDOW = 12_000
"""Characters of a demo document on either side of the evidence; all of it is a million."""

_CHARACTERS_PER_QUESTION = 8_000

_NOT_A_SPAN = {"yes", "no"}  # CJRC's answers that are no words of the text


@dataclass(frozen=True, slots=True)
class EvidenceDocument:
    id: str
    title: str
    text: str
    headings: tuple[Heading, ...] = ()


@dataclass(frozen=True, slots=True)
class EvidenceQuestion:
    """`evidence` has a part for each thing that the answer rests on; any of its wordings will do.

    The wordings have content only (`bench.metrics.content_of`), and stand in `document_ids`.
    """

    id: str
    text: str
    document_ids: frozenset[str]
    evidence: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class EvidenceSet:
    """`is_cross`: the questions are in another language than the documents."""

    name: str
    documents: tuple[EvidenceDocument, ...]
    questions: tuple[EvidenceQuestion, ...]
    is_cross: bool = False


@dataclass(frozen=True, slots=True)
class _Source:
    name: str
    load: Callable[[Path], EvidenceSet]


def load_sets(data_dir: Path, *, num_questions: int) -> list[EvidenceSet]:
    """Every set with at most `num_questions`, evenly spread, and the documents these ask about.

    Raises:
        NotFound: the data folder lacks a set.
    """
    return [_thinned(source.load(data_dir), num_questions) for source in _SOURCES]


def _thinned(whole: EvidenceSet, num_questions: int) -> EvidenceSet:
    """Evenly spread questions on as many documents as are not too much to embed."""
    lengths = {document.id: len(document.text) for document in whole.documents}
    wanted: set[str] = set()
    for question in _spread(whole.questions, num_questions):
        grown = wanted | question.document_ids
        if not wanted or sum(lengths[key] for key in grown) <= num_questions * _CHARACTERS_PER_QUESTION:
            wanted = grown
    documents = tuple(document for document in whole.documents if document.id in wanted)
    questions = [question for question in whole.questions if question.document_ids <= wanted]
    return EvidenceSet(whole.name, documents, _spread(questions, num_questions), whole.is_cross)


def _spread(questions: Sequence[EvidenceQuestion], num: int) -> tuple[EvidenceQuestion, ...]:
    return tuple(questions[:: max(1, -(-len(questions) // num))])


def _assembled(
    name: str,
    documents: Iterable[EvidenceDocument],
    questions: Iterable[tuple[str, str, Sequence[str], Sequence[Sequence[str]]]],
    *,
    is_cross: bool = False,
) -> EvidenceSet:
    """The set with those questions whose every part of evidence stands in their documents."""
    by_id = {document.id: document for document in documents}
    contents = {key: content_of(document.text) for key, document in by_id.items()}
    kept = []
    for key, text, document_ids, evidence in questions:
        sources = [contents[document_id] for document_id in document_ids if document_id in contents]
        parts = [_wordings_in(sources, wordings) for wordings in evidence]
        if parts and all(parts):
            kept.append(EvidenceQuestion(key, text, frozenset(document_ids), tuple(parts)))
    return EvidenceSet(name, tuple(by_id.values()), tuple(kept), is_cross)


def _wordings_in(sources: Sequence[str], wordings: Sequence[str]) -> tuple[str, ...]:
    found = dict.fromkeys(content_of(wording) for wording in wordings)
    return tuple(wording for wording in found if wording and any(wording in s for s in sources))


def _pieces(evidence: Iterable[str]) -> list[list[str]]:
    """Evidence sentence by sentence, so that half of it counts half."""
    return [[sentence.text] for text in evidence for sentence in split_sentences(text)]


# ---- the sets ----------------------------------------------------------------------------------


def _paragraph_set(name: str, folder: str, corpus: str, queries: str, *, is_cross: bool = False) -> _Source:
    """Paragraphs with questions; `corpus` and `queries` are the middles of the file names."""

    def load(data_dir: Path) -> EvidenceSet:
        root = data_dir / folder
        documents = [
            EvidenceDocument(row["id"], row.get("title", ""), row["text"])
            for row in _rows(root / f"corpus{corpus}.jsonl")
        ]
        lines = (root / f"qrels{corpus}.tsv").read_text(encoding="utf-8").splitlines()[1:]
        gold = {line.split("\t")[0]: line.split("\t")[1] for line in lines}
        # A question of another language has its answer in its parallel, which has the same id.
        answers = {row["id"]: row["answers"] for row in _rows(root / f"queries{corpus}.jsonl")}
        questions = (
            (row["id"], row["text"], [gold[row["id"]]], [answers[row["id"]]])
            for row in _rows(root / f"queries{queries}.jsonl")
            if row["id"] in gold
        )
        return _assembled(name, documents, questions, is_cross=is_cross)

    return _Source(name, load)


def _dragonball(language: str) -> _Source:
    name = f"dragonball-{language}"

    def load(data_dir: Path) -> EvidenceSet:
        root = data_dir / "qa-dragonball"
        documents = (
            EvidenceDocument(str(row["doc_id"]), row["title"], row["text"])
            for row in _rows(root / "docs.jsonl")
            if row["lang"] == language
        )
        questions = (
            (row["id"], row["question"], [str(d) for d in row["doc_ids"]], _pieces(row["evidence"]))
            for row in _rows(root / "questions.jsonl")
            if row["lang"] == language and row["answerable"]
        )
        return _assembled(name, documents, questions)

    return _Source(name, load)


def _ohrbench(data_dir: Path) -> EvidenceSet:
    root = data_dir / "qa-ohrbench"
    pages: dict[str, list[str]] = {}
    for row in _rows(root / "pages.jsonl"):
        pages.setdefault(row["doc_id"], []).append(row["text"])
    documents = (EvidenceDocument(key, key.rpartition("/")[2], "\n".join(t)) for key, t in pages.items())
    questions = (
        (row["id"], row["question"], [row["doc_id"]], _pieces(row["evidence"]))
        for row in _rows(root / "questions.jsonl")
    )
    return _assembled("ohrbench", documents, questions)


def _gitlab(data_dir: Path) -> EvidenceSet:
    root = data_dir / "qa-gitlab-handbook"
    documents = []
    for path in sorted((root / "docs").rglob("*.md")):
        info, pages = parse(path, path.name)
        joined = join_pages(pages)
        name = path.relative_to(root / "docs").as_posix()
        documents.append(EvidenceDocument(name, info.title, joined.text, joined.headings))
    questions = (
        (
            row["id"],
            row["question"],
            [part["doc"] for part in row["retrieval"]],
            _pieces(part["text"] for part in row["retrieval"]),
        )
        for row in _rows(root / "questions.jsonl")
        if not row["context"]  # those need the question before
    )
    return _assembled("gitlab", documents, questions)


def _answered_set(name: str, folder: str) -> _Source:
    """Documents with questions and short answers that stand in them."""

    def load(data_dir: Path) -> EvidenceSet:
        root = data_dir / folder
        documents = (
            EvidenceDocument(row["doc_id"], row.get("title", ""), row["text"])
            for row in _rows(root / "docs.jsonl")
        )
        questions = (
            (row["id"], row["question"], [row["doc_id"]], [row["answers"]])
            for row in _rows(root / "questions.jsonl")
            if row.get("answerable", True) and _NOT_A_SPAN.isdisjoint(map(str.lower, row["answers"]))
        )
        return _assembled(name, documents, questions)

    return _Source(name, load)


def _demo(data_dir: Path) -> EvidenceSet:
    root = data_dir / "demo"
    whole = {path.name: _read(path) for path in sorted(root.iterdir()) if path.suffix in (".txt", ".pdf")}
    rows = [row for row in _rows(root / "questions.jsonl") if row["answerable"]]
    places = {row["id"]: max(0, whole[row["doc"]].find(row["evidence"][0])) for row in rows}
    documents = [
        EvidenceDocument(f"{name}#{start}", name, text[start:end])
        for name, text in whole.items()
        for start, end in _windows([places[row["id"]] for row in rows if row["doc"] == name])
    ]
    questions = [
        (
            row["id"],
            row["question"],
            [d.id for d in documents if d.title == row["doc"]],
            [[evidence] for evidence in row["evidence"]],
        )
        for row in rows
    ]
    return _assembled("demo", documents, questions)


def _windows(places: Iterable[int]) -> list[tuple[int, int]]:
    """Stretches around `places`, joined where they overlap."""
    windows: list[tuple[int, int]] = []
    for place in sorted(places):
        start, end = max(0, place - _DEMO_WINDOW), place + _DEMO_WINDOW
        if windows and start <= windows[-1][1]:
            windows[-1] = (windows[-1][0], end)
        else:
            windows.append((start, end))
    return windows


def _read(path: Path) -> str:
    _, pages = parse(path, path.name)
    return join_pages(pages).text


def _rows(path: Path) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except FileNotFoundError as error:
        raise NotFound(
            f"There is no evaluation file {path}.", remedy="Pass --data or set LONGLEAF_DATA.", path=str(path)
        ) from error


_SOURCES = (
    _dragonball("en"),
    _dragonball("zh"),
    _paragraph_set("xquad-en", "ir-xquad", ".en", ".en"),
    _paragraph_set("xquad-zh", "ir-xquad", ".zh", ".zh"),
    _paragraph_set("cmrc2018", "ir-cmrc2018", "", ""),
    _Source("ohrbench", _ohrbench),
    _Source("gitlab", _gitlab),
    _answered_set("multifieldqa-zh", "qa-multifieldqa-zh"),
    _answered_set("cjrc", "qa-cjrc"),
    _Source("demo", _demo),
    _paragraph_set("xquad-en-zh", "ir-xquad", ".zh", ".en", is_cross=True),
    _paragraph_set("xquad-zh-en", "ir-xquad", ".en", ".zh", is_cross=True),
)
