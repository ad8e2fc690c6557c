"""Files of questions as callers send them: lines as OpenAI's batch files have them, plain lines, or a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ValidationError

from api.schemas.base import Body, FreeText, Name
from api.schemas.questions import QuestionOptions
from core.errors import LongleafError
from generation.batches.registration import BatchLine
from generation.question_sets.record_file import Fault, faults_of, faulty_file, parse_json, read_records
from generation.questions import QuestionParameters, admit_question
from ingest.encoding_detection import decode_text

OnInvalid = Literal["refuse", "skip"]

_TEXT_COLUMNS = frozenset({"custom_id", "question"})
_REQUEST_FIELDS = frozenset({"method", "url", "body"})
_TRUTH = {"是": True, "否": False}


def _number_as_text(value: object) -> object:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


_CustomId = Annotated[Name, BeforeValidator(_number_as_text)]


class _Asked(QuestionOptions):
    question: FreeText


class _PlainLine(_Asked):
    custom_id: _CustomId | None = None


class _RequestLine(Body):
    custom_id: _CustomId
    method: Literal["POST"] = "POST"
    url: Literal["/v1/questions"] = "/v1/questions"
    body: _Asked


@dataclass(frozen=True, slots=True)
class _Asking:
    """One line as it is asked."""

    custom_id: str | None
    question: str
    parameters: QuestionParameters


def parse_batch_file(name: str, data: bytes, *, on_invalid: OnInvalid) -> list[BatchLine]:
    """The file's lines in order, in whatever encoding; a file that begins with `{` is JSON Lines, else CSV.

    Raises:
        InvalidInput: lines are wrong, and `on_invalid` is `refuse`: all are looked at, the first few named.
    """
    content = decode_text(data).text
    kind: Literal["jsonl", "csv"] = "jsonl" if content.removeprefix("\ufeff").lstrip()[:1] in "{[" else "csv"
    lines: list[BatchLine] = []
    faults: list[Fault] = []
    seen: dict[str, int] = {}
    for found in read_records(kind, content, read_cell=_cell):
        number = found.line if isinstance(found, Fault) else found[0]
        read = [found] if isinstance(found, Fault) else _read(*found)
        custom_id = _custom_id(read, found, number)
        if custom_id in seen:
            problem = f"{custom_id!r} stands in line {seen[custom_id]} already"
            read = [Fault(number, "custom_id", problem)]
        seen.setdefault(custom_id, number)
        if isinstance(read, _Asking):
            lines.append(BatchLine(custom_id, read.question.replace("\x00", ""), read.parameters))
        else:
            faults += read
            problem = "; ".join(map(str, read))
            lines.append(BatchLine(custom_id, _question_of(found), QuestionParameters(), problem))
    if faults and on_invalid == "refuse":
        raise faulty_file(name, faults)
    return lines


def _read(line: int, record: dict[str, Any]) -> _Asking | list[Fault]:
    try:
        asking = _asking(record)
        admit_question(asking.question, asking.parameters)
    except ValidationError as error:
        return faults_of(line, error.errors())
    except LongleafError as error:
        return [Fault(line, "question", error.detail)]
    return asking


def _asking(record: dict[str, Any]) -> _Asking:
    if record.keys() & _REQUEST_FIELDS:
        request = _RequestLine.model_validate(record)
        return _Asking(request.custom_id, request.body.question, request.body.parameters())
    plain = _PlainLine.model_validate(record)
    return _Asking(plain.custom_id, plain.question, plain.parameters())


def _custom_id(read: _Asking | Sequence[Fault], found: Fault | tuple[int, dict[str, Any]], line: int) -> str:
    """The line's own, as far as it can be read; else what names its place."""
    given: object = None
    if isinstance(read, _Asking):
        given = read.custom_id
    elif not isinstance(found, Fault):
        given = _number_as_text(found[1].get("custom_id"))
    return given[:200] if isinstance(given, str) and given.isprintable() and given else f"line-{line}"


def _question_of(found: Fault | tuple[int, dict[str, Any]]) -> str:
    """Of a line that is not asked, where it can be read, for people."""
    if isinstance(found, Fault):
        return ""
    body = found[1].get("body")
    question = (body if isinstance(body, dict) else found[1]).get("question")
    return "".join(filter(_is_storable, question))[:1000] if isinstance(question, str) else ""


def _is_storable(character: str) -> bool:
    return character != "\x00" and not "\ud800" <= character <= "\udfff"


def _cell(column: str, text: str) -> Any:
    """What JSON can say of numbers, truth and lists, a table says the same way."""
    if column in _TEXT_COLUMNS:
        return text
    if text in _TRUTH:
        return _TRUTH[text]
    try:
        return parse_json(text)
    except ValueError:
        return text
