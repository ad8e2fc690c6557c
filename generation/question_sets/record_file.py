"""Files of records: JSON Lines, or CSV with a header. What is wrong is told by line and field."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from core.errors import InvalidInput

RecordKind = Literal["jsonl", "csv"]
ReadCell = Callable[[str, str], Any]
"""A cell's value by its column and its text, which is not blank; raises `ValueError` with what is wrong."""

_NAMED_FAULTS = 5
_LISTED_FAULTS = 100


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


Record = tuple[int, dict[str, Any]]
"""The line that it begins in, from 1, and its fields."""


def read_records(kind: RecordKind, content: str, *, read_cell: ReadCell) -> Iterator[Record | Fault]:
    """The file's records in order, and a fault in place of each that cannot be read.

    Blank lines and empty cells are left out. `read_cell` reads what a table has, which knows texts only.
    """
    text = content.removeprefix("\ufeff")
    return _records_of_csv(text, read_cell) if kind == "csv" else _records_of_jsonl(text)


def parse_json(text: str) -> Any:
    """As `json.loads`, but NaN and Infinity, which are no JSON, are none. Raises `ValueError`."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("it nests too deep") from None


def faults_of(line: int, errors: Sequence[Mapping[str, Any]]) -> list[Fault]:
    """A line's faults out of what pydantic found."""
    return [_fault(line, found) for found in errors]


def faulty_file(name: str, faults: Sequence[Fault]) -> InvalidInput:
    """The error that names the first few faults and lists more."""
    shown = "; ".join(map(str, faults[:_NAMED_FAULTS]))
    more = f"; and {len(faults) - _NAMED_FAULTS:,} more" if len(faults) > _NAMED_FAULTS else ""
    return InvalidInput(
        f"{name}, {shown}{more}.",
        remedy="Mend what is named and send the file again; nothing was made of it.",
        faults=[
            {"line": fault.line, "field": fault.field, "problem": fault.problem}
            for fault in faults[:_LISTED_FAULTS]
        ],
    )


def _records_of_jsonl(content: str) -> Iterator[Record | Fault]:
    for line, text in enumerate(content.split("\n"), start=1):
        if not text.strip():
            continue
        try:
            record = parse_json(text)
        except ValueError as error:
            where = f" (at character {error.pos + 1})" if isinstance(error, json.JSONDecodeError) else ""
            yield Fault(line, "", f"it is not JSON{where}")
            continue
        if isinstance(record, dict):
            yield line, record
        else:
            yield Fault(line, "", 'it is not a JSON object, {"question": …}')


def _records_of_csv(content: str, read_cell: ReadCell) -> Iterator[Record | Fault]:
    header = content.split("\n", 1)[0]
    delimiter = max(",;\t", key=header.count)
    reader = csv.DictReader(io.StringIO(content, newline=""), delimiter=delimiter, strict=True)
    line = 1
    try:
        for row in reader:
            # A cell may hold line breaks, so a row begins after the one before, wherever that ended.
            began, line = line + 1, reader.line_num
            if None in row:
                yield Fault(began, "", "it has more cells than the header has columns")
            elif found := _row(began, row, read_cell):
                yield found
    except csv.Error as error:
        yield Fault(reader.line_num, "", f"it is not CSV: {error}")


def _row(line: int, row: Mapping[str, str | None], read_cell: ReadCell) -> Record | Fault | None:
    record: dict[str, Any] = {}
    for header, cell in row.items():
        column, text = header.strip(), (cell or "").strip()
        if not text:
            continue
        try:
            record[column] = read_cell(column, text)
        except ValueError as error:
            return Fault(line, column, str(error))
    return (line, record) if record else None


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


def _fault(line: int, found: Mapping[str, Any]) -> Fault:
    field = ".".join(map(str, found["loc"]))
    if found["type"] == "extra_forbidden":
        return Fault(line, field, "there is no such field")
    if found["type"] == "missing":
        return Fault(line, field, "it is missing")
    message = str(found["msg"]).removeprefix("Value error, ")
    return Fault(line, field, message[:1].lower() + message[1:])
