"""The questions of `bench answers`, with the files they are asked about.

Every system gets the same files. Sets are drawn from the evaluation data by the hash of their ids, so
a run repeats; the sample `dev` shares neither a question nor, where documents are many, a document
with the sample `report`, and is there to tune by.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from core.errors import NotFound

Language = Literal["en", "zh"]
Sample = Literal["report", "dev"]

_CHARACTER_BUDGET = {"en": 120_000, "zh": 40_000}
_NUM_QUESTIONS = {"en": 10, "zh": 7}
_QUICK_CHARACTER_BUDGET = {"en": 40_000, "zh": 14_000}
_QUICK_NUM_QUESTIONS = {"en": 3, "zh": 2}
_MAX_ANSWER_CHARACTERS = {"en": 200, "zh": 30}
"""About 60 tokens: what a system may write, and what is left of the window above the longest prompt."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A document as it is uploaded: `name` ends in `.txt` or `.md`."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class SetQuestion:
    """`files`: names of those that a right answer needs. `answers`: right ones, the usual first."""

    id: str
    text: str
    answers: tuple[str, ...]
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AnswerSet:
    name: str
    language: Language
    files: tuple[SourceFile, ...]
    questions: tuple[SetQuestion, ...]


@dataclass(frozen=True, slots=True)
class Material:
    """All that a set has."""

    files: list[SourceFile]
    questions: list[SetQuestion]


def load_sets(data_dir: Path, *, quick: bool, sample: Sample = "report") -> list[AnswerSet]:
    """All sets, Chinese and English in turn.

    Raises:
        NotFound: the data folder lacks one.
    """
    budget = _QUICK_CHARACTER_BUDGET if quick else _CHARACTER_BUDGET
    number = _QUICK_NUM_QUESTIONS if quick else _NUM_QUESTIONS
    return [
        draw_set(
            name,
            language,
            _readable(read(data_dir), language),
            max_characters=budget[language],
            num_questions=number[language],
            sample=sample,
        )
        for name, language, read in _SETS
    ]


def draw_set(
    name: str,
    language: Language,
    material: Material,
    *,
    max_characters: int,
    num_questions: int,
    sample: Sample = "report",
) -> AnswerSet:
    """Files up to a size, those that questions need first, and questions that they answer.

    The order of files and questions is that of their hashes; the sample `dev` takes it backwards.
    """
    asked = {name for question in material.questions for name in question.files}
    files = sorted(material.files, key=lambda file: _hash(file.name), reverse=sample == "dev")
    files.sort(key=lambda file: file.name not in asked)
    chosen: list[SourceFile] = []
    room = max_characters
    for file in files:
        if len(file.text) <= room:
            chosen.append(file)
            room -= len(file.text)
    names = {file.name for file in chosen}
    questions = [question for question in material.questions if names.issuperset(question.files)]
    questions.sort(key=lambda question: _hash(question.id), reverse=sample == "dev")
    if sample == "dev":  # where both samples have a document, its questions are shared out by their hash
        questions = [question for question in questions if not _is_reported(question)]
    else:
        questions = [question for question in questions if _is_reported(question)]
    return AnswerSet(name, language, tuple(chosen), tuple(questions[:num_questions]))


def _is_reported(question: SetQuestion) -> bool:
    return _hash(f"half {question.id}") % 2 == 0


def _readable(material: Material, language: Language) -> Material:
    """Questions with an answer, and one short enough to be written within the limit, each text once."""
    kept: dict[str, SetQuestion] = {}
    for question in material.questions:
        if question.answers and 0 < len(question.answers[0]) <= _MAX_ANSWER_CHARACTERS[language]:
            kept.setdefault(question.text, question)
    return Material(material.files, list(kept.values()))


# ---- the sets --------------------------------------------------------------------------------------


def _xquad(language: Language) -> Callable[[Path], Material]:
    def read(data_dir: Path) -> Material:
        folder = data_dir / "ir-xquad"
        articles: defaultdict[str, list[str]] = defaultdict(list)
        for row in _rows(folder / f"corpus.{language}.jsonl"):
            articles[_article(str(row["id"]))].append(str(row["text"]))
        relevant: dict[str, str] = {}
        for line in (folder / f"qrels.{language}.tsv").read_text(encoding="utf-8").splitlines()[1:]:
            question_id, paragraph_id, gain = line.split("\t")
            if int(gain) > 0:
                relevant[question_id] = _article(paragraph_id)
        return Material(
            [SourceFile(f"{key}.txt", "\n\n".join(texts)) for key, texts in articles.items()],
            [
                SetQuestion(
                    str(row["id"]), row["text"], tuple(row["answers"]), (f"{relevant[row['id']]}.txt",)
                )
                for row in _rows(folder / f"queries.{language}.jsonl")
                if row["id"] in relevant
            ],
        )

    return read


def _article(paragraph_id: str) -> str:
    """`en:12-3` is a paragraph of article 12."""
    return "article-" + paragraph_id.partition(":")[2].partition("-")[0]


def _dragonball(language: Language) -> Callable[[Path], Material]:
    def read(data_dir: Path) -> Material:
        folder = data_dir / "qa-dragonball"
        documents = [row for row in _rows(folder / "docs.jsonl") if row["lang"] == language]
        return Material(
            [
                SourceFile(f"report-{row['doc_id']}.txt", f"{row['title']}\n\n{row['text']}")
                for row in documents
            ],
            [
                SetQuestion(
                    row["id"],
                    row["question"],
                    (row["answer"],),
                    tuple(f"report-{key}.txt" for key in row["doc_ids"]),
                )
                for row in _rows(folder / "questions.jsonl")
                if row["lang"] == language and row["answerable"]
            ],
        )

    return read


def _ohrbench(data_dir: Path) -> Material:
    folder = data_dir / "qa-ohrbench"
    pages: defaultdict[str, list[str]] = defaultdict(list)
    for row in sorted(_rows(folder / "pages.jsonl"), key=lambda row: (row["doc_id"], row["page"])):
        pages[row["doc_id"]].append(row["text"])
    names = {key: f"{_slug(key)}.txt" for key in pages}
    return Material(
        [SourceFile(names[key], "\n\n".join(texts)) for key, texts in pages.items()],
        [
            SetQuestion(row["id"], row["question"], (str(row["answer"]),), (names[row["doc_id"]],))
            for row in _rows(folder / "questions.jsonl")
            if row["evidence_source"] == "text" and row["answer_form"] != "Yes/No"
        ],
    )


def _gitlab(data_dir: Path) -> Material:
    folder = data_dir / "qa-gitlab-handbook"
    pages = sorted((folder / "docs").rglob("*.md"))
    names = {page: str(page.relative_to(folder / "docs")).replace("/", "-") for page in pages}
    known = {str(page.relative_to(folder / "docs")): name for page, name in names.items()}
    return Material(
        [SourceFile(names[page], page.read_text(encoding="utf-8")) for page in pages],
        [
            SetQuestion(
                row["id"],
                row["question"],
                (row["answer"],),
                tuple(sorted({known[found["doc"]] for found in row["retrieval"]})),
            )
            for row in _rows(folder / "questions.jsonl")
            if row["type"] in ("single_text", "multi-hop")
            and all(f["doc"] in known for f in row["retrieval"])
        ],
    )


def _multifieldqa(data_dir: Path) -> Material:
    folder = data_dir / "qa-multifieldqa-zh"
    return Material(
        [SourceFile(f"{row['doc_id']}.txt", row["text"]) for row in _rows(folder / "docs.jsonl")],
        [
            SetQuestion(row["id"], row["question"], tuple(row["answers"]), (f"{row['doc_id']}.txt",))
            for row in _rows(folder / "questions.jsonl")
        ],
    )


def _domainrag(data_dir: Path) -> Material:
    folder = data_dir / "qa-domainrag-zh"
    pages: defaultdict[str, list[str]] = defaultdict(list)
    page_of: dict[str, str] = {}
    for row in _rows(folder / "corpus.jsonl"):
        name = f"{row['date']}-{_slug(row['url'])[-24:]}.txt"
        page_of[row["id"]] = name
        pages[name].append(f"{row['title']}\n\n{row['text']}")
    return Material(
        [SourceFile(name, "\n\n".join(texts)) for name, texts in pages.items()],
        [
            SetQuestion(
                row["id"],
                row["question"],
                tuple("、".join(parts) for parts in row["answers"]),
                tuple(sorted({page_of[key] for key in row["gold_passages"]})),
            )
            for row in _rows(folder / "questions.jsonl")
            if row["task"] in ("extractive", "time-sensitive") and row["gold_passages"]
        ],
    )


_SETS: Sequence[tuple[str, Language, Callable[[Path], Material]]] = (
    ("dragonball-en", "en", _dragonball("en")),
    ("dragonball-zh", "zh", _dragonball("zh")),
    ("ohrbench", "en", _ohrbench),
    ("multifieldqa-zh", "zh", _multifieldqa),
    ("gitlab", "en", _gitlab),
    ("domainrag-zh", "zh", _domainrag),
    ("xquad-en", "en", _xquad("en")),
    ("xquad-zh", "zh", _xquad("zh")),
)


def _rows(path: Path) -> Iterable[dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise NotFound(
            f"There is no evaluation file {path}.", remedy="Pass --data or set LONGLEAF_DATA.", path=str(path)
        ) from error
    # Not splitlines: a text may have a form feed or a line separator in it.
    return [json.loads(line) for line in text.split("\n") if line.strip()]


def _slug(text: str) -> str:
    """A file name that tells documents apart."""
    plain = "".join(c if c.isalnum() and c.isascii() else "-" for c in text).strip("-")
    return f"{plain[-60:]}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
