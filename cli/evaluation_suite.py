"""What `longleaf eval run` is pointed at: a question file, or a folder of documents with one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cli.file_selection import collect_files
from core.errors import InvalidInput, NotFound

SUFFIXES = (".jsonl", ".csv")
_ABOUT = frozenset({"readme", "source", "license", "licence", "copying", "notice"})
"""Files that tell about a suite, and are none of its documents."""


@dataclass(frozen=True, slots=True)
class Suite:
    """`documents` are to be uploaded; empty where the suite is a question file alone."""

    name: str
    question_file: Path
    documents: tuple[Path, ...]

    def read_questions(self) -> tuple[str, str]:
        """Name and text of the question file.

        Raises:
            InvalidInput: it is not UTF-8.
        """
        try:
            return self.question_file.name, self.question_file.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise InvalidInput(
                f"{self.question_file} is not UTF-8 (at byte {error.start + 1}).",
                remedy="Save it as UTF-8; spreadsheet programs call it “CSV UTF-8”.",
            ) from error


def find_suite(path: Path) -> Suite:
    """The suite at `path`.

    Raises:
        NotFound: there is nothing there, or a folder without a `questions` file.
        InvalidInput: it is a file of another kind, or a folder with several question files.
    """
    if path.is_file():
        if path.suffix.lower() not in SUFFIXES:
            raise InvalidInput(
                f"{path} is no question file.", remedy=f"Its name must end in {' or '.join(SUFFIXES)}."
            )
        return Suite(path.stem, path, ())
    if not path.is_dir():
        raise NotFound(f"There is nothing at {path}.", remedy="Name a question file, or a folder with one.")
    found = [path / f"questions{suffix}" for suffix in SUFFIXES if (path / f"questions{suffix}").is_file()]
    if len(found) > 1:
        raise InvalidInput(f"{path} has both {found[0].name} and {found[1].name}.", remedy="Keep one.")
    if not found:
        raise NotFound(
            f"{path} has no questions.jsonl or questions.csv.",
            remedy='Write one: a line is {"question": "…", "answer": "…"}.',
        )
    return Suite(path.resolve().name, found[0], tuple(_documents(path, found[0])))


def _documents(folder: Path, question_file: Path) -> list[Path]:
    return [
        file
        for file in collect_files([folder])
        if file != question_file and file.stem.casefold() not in _ABOUT
    ]


def parse_parameters(pairs: Sequence[str]) -> dict[str, Any]:
    """`name=value` pairs of `--set`; a value that is JSON is read as such, any other is a text.

    Raises:
        InvalidInput: a pair has no `=`, or a name stands twice.
    """
    parameters: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise InvalidInput(f"--set {pair} names no value.", remedy="Write --set mode=extractive.")
        if name in parameters:
            raise InvalidInput(f"--set names {name} twice.", remedy="Set it once.")
        try:
            parameters[name] = json.loads(value)
        except ValueError:
            parameters[name] = value
    return parameters
