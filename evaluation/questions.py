"""Questions with known answers, as files and requests bring them."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)

from core.language import is_chinese
from generation.questions import MAX_QUESTION_CHARACTERS

MAX_QUESTIONS = 5000
MAX_TURNS = 100


def _storable(text: str) -> str:
    if any(character == "\x00" or "\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("it holds a NUL character or half of a surrogate pair")
    return text


def _askable(text: str) -> str:
    if not any(character.isalnum() for character in text):
        raise ValueError("the question is empty")
    return text


def _plain_json(value: dict[str, Any]) -> dict[str, Any]:
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        raise ValueError("it holds NaN or Infinity, which are not JSON") from None
    return value


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str | int | float) and not isinstance(value, bool) else value


def _number_as_text(value: object) -> object:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


Text = Annotated[str, AfterValidator(_storable)]
Filled = Annotated[Text, BeforeValidator(_number_as_text), Field(min_length=1, max_length=100_000)]
Asked = Annotated[Text, Field(max_length=MAX_QUESTION_CHARACTERS), AfterValidator(_askable)]
Name = Annotated[Text, BeforeValidator(_number_as_text), Field(min_length=1, max_length=500)]


class _Record(BaseModel):
    """Read from JSON: a field it does not know is a typing error, and refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Evidence(_Record):
    """Where the answer stands: words of a document, or one of its pages."""

    text: Filled | None = Field(None, description="Verbatim from the document; white space does not count.")
    document: Name | None = Field(
        None, validation_alias=AliasChoices("document", "doc"), description="The document's name."
    )
    page: int | None = Field(None, ge=1, description="Its page, from 1. Counts where there is no `text`.")

    @model_validator(mode="after")
    def _names_something(self) -> Evidence:
        if self.text is None and self.document is None:
            raise ValueError("it needs a `text`, or a `document` and perhaps its `page`")
        return self


class Turn(_Record):
    """An earlier question of the conversation, and its answer."""

    question: Asked = Field(description="What was asked.")
    answer: Text = Field(description="What was answered.")


def _evidence(value: object) -> object:
    items = [value] if isinstance(value, str | dict) else value
    return (
        [{"text": item} if isinstance(item, str) else item for item in items]
        if isinstance(items, list)
        else items
    )


class GoldQuestion(_Record):
    """A question whose answer is known. Only `question` must be there; what is missing is not scored."""

    id: Name | None = Field(None, description="Your name for it; left out: its place in the list.")
    question: Asked = Field(description="As it is asked.")
    answers: Annotated[list[Filled], BeforeValidator(_as_list)] = Field(
        default_factory=list,
        max_length=100,
        validation_alias=AliasChoices("answers", "answer"),
        description="Right answers, any one of which is enough; one may stand without a list.",
    )
    evidence: Annotated[list[Evidence], BeforeValidator(_evidence)] = Field(
        default_factory=list,
        max_length=100,
        description='All that the answer needs; a text alone stands for `{"text": …}`.',
    )
    document: Name | None = Field(
        None,
        validation_alias=AliasChoices("document", "doc"),
        description="The document that evidence without one is in.",
    )
    answerable: bool = Field(
        True, description="False: the documents do not answer it, and it should be refused."
    )
    language: Name | None = Field(
        None,
        validation_alias=AliasChoices("language", "lang"),
        description="To group by, such as `en` or `zh`; left out: recognised.",
    )
    history: list[Turn] = Field(
        default_factory=list, max_length=MAX_TURNS, description="The conversation before it, oldest first."
    )
    metadata: Annotated[dict[str, Any], AfterValidator(_plain_json)] = Field(
        default_factory=dict, description="Yours; kept with the question."
    )

    def as_json(self, *, position: int) -> dict[str, Any]:
        """What is stored: every field settled."""
        return {
            "id": self.id or str(position + 1),
            "question": self.question,
            "answers": list(self.answers),
            "evidence": [
                {"text": each.text, "document": each.document or self.document, "page": each.page}
                for each in self.evidence
            ],
            "answerable": self.answerable,
            "language": self.language or ("zh" if is_chinese(self.question) else "en"),
            "history": [turn.model_dump() for turn in self.history],
            "metadata": self.metadata,
        }
