"""The form of an answer as options of the command line give it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from core.errors import InvalidInput


def format_option(
    *, schema: Path | None, regex: str, choices: Sequence[str] | None, grammar: Path | None, date: str
) -> dict[str, Any] | None:
    """`format` of a question; None where no option gives one.

    Raises:
        InvalidInput: two do, or a file cannot be read.
    """
    given: list[dict[str, Any]] = []
    if schema is not None:
        given.append({"type": "json_schema", "schema": read_schema(schema)})
    if regex:
        given.append({"type": "regex", "pattern": regex})
    if choices:
        given.append({"type": "choice", "choices": list(choices)})
    if grammar is not None:
        given.append({"type": "grammar", "grammar": _read(grammar)})
    if date:
        given.append({"type": "date", "style": date})
    if len(given) > 1:
        raise InvalidInput(
            "An answer has one form.", remedy="Give one of --schema, --regex, --choice, --grammar, --date."
        )
    return given[0] if given else None


def read_schema(path: Path) -> dict[str, Any]:
    """The JSON object in a file.

    Raises:
        InvalidInput: there is none.
    """
    try:
        found = json.loads(_read(path))
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{path} is not JSON: {error}.", remedy="A schema is a JSON object.") from error
    if not isinstance(found, dict):
        raise InvalidInput(f"{path} holds no JSON object.", remedy="A schema is a JSON object.")
    return found


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} cannot be read: {error}.", remedy="Name a UTF-8 text file.") from error
