"""Question files: JSON Lines, or CSV with a header."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from pydantic import ValidationError

from core.errors import EmptyInput, InvalidInput, TooLarge
from evaluation.questions import MAX_QUESTIONS, GoldQuestion
from generation.question_sets.record_file import Fault, faults_of, faulty_file, parse_json, read_records

SUFFIXES = (".jsonl", ".csv")
_JSON_COLUMNS = frozenset({"answers", "evidence", "history", "metadata"})
_TRUE, _FALSE = frozenset({"true", "yes", "1", "是"}), frozenset({"false", "no", "0", "否"})


def parse_question_file(name: str, content: str) -> list[GoldQuestion]:
    """The questions of a file whose `name` says by its ending what it is, in their order.

    Raises:
        InvalidInput: it is of no known kind, or lines are wrong: the first few are named, each with
            its field. Nothing of the file is taken then.
        EmptyInput: it holds no question.
        TooLarge: it holds more than `MAX_QUESTIONS`.
    """
    kind = PurePath(name).suffix.lower()
    if kind not in SUFFIXES:
        raise InvalidInput(
            f"{name} is no question file: its name does not end in {' or '.join(SUFFIXES)}.",
            remedy="Write one JSON object per line into a file `….jsonl`, or a table into a `….csv`.",
            name=name,
        )
    questions: list[GoldQuestion] = []
    faults: list[Fault] = []
    for found in read_records("csv" if kind == ".csv" else "jsonl", content, read_cell=_cell):
        if isinstance(found, Fault):
            faults.append(found)
            continue
        line, record = found
        try:
            questions.append(GoldQuestion.model_validate(record))
        except ValidationError as error:
            faults += faults_of(line, error.errors())
    if faults:
        raise faulty_file(name, faults)
    require_countable(len(questions), name)
    return questions


def require_countable(num_questions: int, name: str) -> None:
    """Raises `EmptyInput` for none, `TooLarge` for too many."""
    if not num_questions:
        raise EmptyInput(f"{name} holds no question.", remedy='A line is {"question": "…", "answer": "…"}.')
    if num_questions > MAX_QUESTIONS:
        raise TooLarge(
            f"{name} holds {num_questions:,} questions; at most {MAX_QUESTIONS:,} are one evaluation.",
            remedy="Split it.",
            num_questions=num_questions,
        )


def _cell(column: str, text: str) -> Any:
    """Where a list belongs, `[…]` is read as JSON."""
    if column == "answerable":
        folded = text.casefold()
        if folded not in _TRUE | _FALSE:
            raise ValueError("it must be true or false")
        return folded in _TRUE
    if column in _JSON_COLUMNS and text[0] in "[{":
        try:
            return parse_json(text)
        except ValueError:
            raise ValueError("it begins as JSON does, and is none") from None
    return text
