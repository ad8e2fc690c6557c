"""What the models of requests and responses share."""

from __future__ import annotations

import unicodedata
from typing import Annotated, Any, Generic, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

Item = TypeVar("Item")

MAX_NAME_LENGTH = 200
MAX_OBJECT_DEPTH = 100
"""Of an object that a caller gives; what stores and sends it goes down by recursion."""


class Body(BaseModel):
    """A request's body: a field it does not know is refused, never ignored."""

    model_config = ConfigDict(extra="forbid")


class View(BaseModel):
    """A response."""


class ListOf(View, Generic[Item]):
    """One page of a list."""

    items: list[Item] = Field(description="The page, in the list's order.")
    next_cursor: str | None = Field(description="Pass as `cursor` for the next page; null on the last.")


class Failure(View):
    """Why something failed, in the words of a problem."""

    code: str = Field(description="Stable, machine-readable.")
    detail: str = Field(description="What happened, to which object, and what to do.")


def failure(code: str | None, detail: str | None) -> Failure | None:
    return None if code is None else Failure(code=code, detail=detail or "")


def _showable(name: str) -> str:
    # Control characters, lone surrogates and line separators: databases refuse some of them, and
    # none has a place in a list of names. Spaces of any width do.
    if any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in name):
        raise ValueError("it must not hold control characters or line breaks")
    stripped = name.strip()
    if not stripped:
        raise ValueError("it must not be blank")
    return stripped


def _encodable(text: str) -> str:
    # JSON can spell half of a surrogate pair, `"\ud800"`, which no encoding and no database takes.
    if any(unicodedata.category(character) == "Cs" for character in text):
        raise ValueError("it must not hold half of a surrogate pair")
    return text


def _shallow_and_encodable(given: dict[str, Any]) -> dict[str, Any]:
    level: list[Any] = [given]
    for _ in range(MAX_OBJECT_DEPTH):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return given
    raise ValueError(f"it nests more than {MAX_OBJECT_DEPTH} deep")


def _inside(value: Any) -> list[Any]:
    if isinstance(value, str):
        _encodable(value)
    if isinstance(value, dict):
        return [*value, *value.values()]
    return value if isinstance(value, list) else []


FreeText = Annotated[str, AfterValidator(_encodable)]
"""Text of any kind that can be stored."""

JsonObject = Annotated[dict[str, Any], AfterValidator(_shallow_and_encodable)]
"""Any object that can be stored and sent on."""

Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME_LENGTH), AfterValidator(_showable)]
"""A name that people read: 1 to 200 characters, trimmed, without control characters."""
