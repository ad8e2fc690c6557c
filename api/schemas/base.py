"""What the models of requests and responses share."""

from __future__ import annotations

import unicodedata
from typing import Annotated, Generic, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

Item = TypeVar("Item")

MAX_NAME_LENGTH = 200


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


FreeText = Annotated[str, AfterValidator(_encodable)]
"""Text of any kind that can be stored."""

Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME_LENGTH), AfterValidator(_showable)]
"""A name that people read: 1 to 200 characters, trimmed, without control characters."""
