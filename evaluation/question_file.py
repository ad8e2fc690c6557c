"""Question files: JSON Lines, or CSV with a header."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from pydantic import ValidationError

from core.errors import EmptyInput, InvalidInput, TooLarge
from evaluation.questions import MAX_QUESTIONS, GoldQuestion

SUFFIXES = (".jsonl", ".csv")
_MAX_FAULTS = 5
_JSON_COLUMNS = frozenset({"answers", "evidence", "history", "metadata"})
_TRUE, _FALSE = frozenset({"true", "yes", "1", "是"}), frozenset({"false", "no", "0", "否"})


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong, in which line (from 1) and field of a file; no field: the line as a whole."""

    line: int
    field: str
    problem: str

    def __str__(self) -> str:
        return (
            f"line {self.line}, {self.field}: {self.problem}"
            if self.field
            else f"line {self.line}: {self.problem}"
        )


class _NotReadable(Exception):
    """A line that is no record."""

    def __init__(self, line: int, problem: str, field: str = "") -> None:
        super().__init__(problem)
        self.fault = Fault(line, field, problem)


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
    records = _records_of_csv if kind == ".csv" else _records_of_jsonl
    questions: list[GoldQuestion] = []
    faults: list[Fault] = []
    try:
        for line, record in records(content.removeprefix("\ufeff")):
            try:
                questions.append(GoldQuestion.model_validate(record))
            except ValidationError as error:
                faults += [_fault(line, found) for found in error.errors()]
    except _NotReadable as error:
        faults.append(error.fault)
    if faults:
        raise _wrong(name, faults)
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


def _records_of_jsonl(content: str) -> Iterator[tuple[int, Any]]:
    for line, text in enumerate(content.split("\n"), start=1):
        if not text.strip():
            continue
        try:
            record = json.loads(text, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            where = f" (at character {error.pos + 1})" if isinstance(error, json.JSONDecodeError) else ""
            raise _NotReadable(line, f"it is not JSON{where}") from error
        if not isinstance(record, dict):
            raise _NotReadable(line, 'it is not a JSON object, {"question": …}')
        yield line, record


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


def _records_of_csv(content: str) -> Iterator[tuple[int, Any]]:
    """Rows as records: empty cells are left out; where a list belongs, `[…]` is read as JSON."""
    header = content.split("\n", 1)[0]
    delimiter = max(",;\t", key=header.count)
    reader = csv.DictReader(io.StringIO(content, newline=""), delimiter=delimiter, strict=True)
    line = 1
    try:
        for row in reader:
            # A cell may hold line breaks, so a row begins after the one before, wherever that ended.
            began, line = line + 1, reader.line_num
            if None in row:
                raise _NotReadable(began, "it has more cells than the header has columns")
            record = {
                str(column).strip(): _cell(began, column, cell)
                for column, cell in row.items()
                if (cell or "").strip()
            }
            if record:
                yield began, record
    except csv.Error as error:
        raise _NotReadable(reader.line_num, f"it is not CSV: {error}") from error


def _cell(line: int, column: str, cell: str) -> Any:
    text = cell.strip()
    if column.strip() == "answerable":
        folded = text.casefold()
        if folded not in _TRUE | _FALSE:
            raise _NotReadable(line, "it must be true or false", column)
        return folded in _TRUE
    if column.strip() in _JSON_COLUMNS and text[0] in "[{":
        try:
            return json.loads(text, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise _NotReadable(line, "it begins as JSON does, and is none", column) from error
    return text


def _fault(line: int, found: Mapping[str, Any]) -> Fault:
    field = ".".join(map(str, found["loc"]))
    if found["type"] == "extra_forbidden":
        return Fault(line, field, "there is no such field; what is yours goes into `metadata`")
    if found["type"] == "missing":
        return Fault(line, field, "it is missing")
    message = str(found["msg"]).removeprefix("Value error, ")
    return Fault(line, field, message[:1].lower() + message[1:])


def _wrong(name: str, faults: list[Fault]) -> InvalidInput:
    shown = "; ".join(map(str, faults[:_MAX_FAULTS]))
    more = f"; and {len(faults) - _MAX_FAULTS} more" if len(faults) > _MAX_FAULTS else ""
    return InvalidInput(
        f"{name}, {shown}{more}.",
        remedy="Mend what is named and send the file again; nothing was made of it.",
        faults=[
            {"line": fault.line, "field": fault.field, "problem": fault.problem} for fault in faults[:100]
        ],
    )
