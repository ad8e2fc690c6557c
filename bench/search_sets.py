"""The sets of `bench search`, read from the evaluation data folder."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.errors import NotFound


@dataclass(frozen=True, slots=True)
class SetFiles:
    """Where one set lies, relative to the data folder."""

    name: str
    corpus: str
    queries: str
    qrels: str
    has_answers: bool = False  # scored for extractive answers too


@dataclass(frozen=True, slots=True)
class Paragraph:
    id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Question:
    """`relevant` maps paragraph ids to gains; `answers` is empty where the set has none."""

    id: str
    text: str
    answers: tuple[str, ...]
    relevant: dict[str, int]


@dataclass(frozen=True, slots=True)
class SearchSet:
    name: str
    paragraphs: list[Paragraph]
    questions: list[Question]
    has_answers: bool


SETS = (
    SetFiles(
        "xquad-en",
        "ir-xquad/corpus.en.jsonl",
        "ir-xquad/queries.en.jsonl",
        "ir-xquad/qrels.en.tsv",
        has_answers=True,
    ),
    SetFiles(
        "xquad-zh",
        "ir-xquad/corpus.zh.jsonl",
        "ir-xquad/queries.zh.jsonl",
        "ir-xquad/qrels.zh.tsv",
        has_answers=True,
    ),
    SetFiles("cmrc2018", "ir-cmrc2018/corpus.jsonl", "ir-cmrc2018/queries.jsonl", "ir-cmrc2018/qrels.tsv"),
    SetFiles(
        "cranfield", "ir-cranfield/corpus.jsonl", "ir-cranfield/queries.jsonl", "ir-cranfield/qrels.tsv"
    ),
)

_QUICK_QUESTIONS = 80
_QUICK_PARAGRAPHS = 120


def load_set(files: SetFiles, data_dir: Path, *, quick: bool) -> SearchSet:
    """One set; `quick` keeps every nth question, their paragraphs and some others.

    About 80 questions tell whether everything runs, not whether a bound of half a point is met:
    the intervals in the details are then two points wide on either side.

    Raises:
        NotFound: the data folder lacks it.
    """
    paragraphs = [
        Paragraph(str(row["id"]), row.get("title", ""), row["text"]) for row in _rows(data_dir / files.corpus)
    ]
    relevant = _qrels(data_dir / files.qrels)
    questions = [
        Question(str(row["id"]), row["text"], tuple(row.get("answers", ())), relevant[str(row["id"])])
        for row in _rows(data_dir / files.queries)
        if relevant.get(str(row["id"]))
    ]
    if quick:
        questions = questions[:: max(1, len(questions) // _QUICK_QUESTIONS)]
        wanted = {key for question in questions for key in question.relevant}
        others = [p.id for p in paragraphs if p.id not in wanted]
        wanted.update(others[: max(0, _QUICK_PARAGRAPHS - len(wanted))])
        paragraphs = [p for p in paragraphs if p.id in wanted]
    return SearchSet(files.name, paragraphs, questions, files.has_answers)


def _rows(path: Path) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except FileNotFoundError as error:
        raise NotFound(
            f"There is no evaluation file {path}.", remedy="Pass --data or set LONGLEAF_DATA.", path=str(path)
        ) from error


def _qrels(path: Path) -> defaultdict[str, dict[str, int]]:
    relevant: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for line in path.read_text(encoding="utf-8").splitlines()[1:]:
        question_id, paragraph_id, gain = line.split("\t")
        if int(gain) > 0:
            relevant[question_id][paragraph_id] = int(gain)
    return relevant
