"""The forms that an answer can be asked for in."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from api.schemas.base import Body, FreeText, JsonObject
from generation.constraints import DateStyle, OutputFormat


class JsonSchemaFormat(Body):
    """JSON that fits a schema."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    type: Literal["json_schema"] = Field(description="This form.")
    schema_: JsonObject = Field(
        alias="schema", description="A JSON schema (2020-12), of the keywords that engines can enforce."
    )

    def as_format(self) -> OutputFormat:
        return OutputFormat(self.type, self.schema_)


class RegexFormat(Body):
    """Text all of which matches a pattern."""

    type: Literal["regex"] = Field(description="This form.")
    pattern: FreeText = Field(description="Literals, classes, groups, alternatives, bounded repetition.")

    def as_format(self) -> OutputFormat:
        return OutputFormat(self.type, self.pattern)


class ChoiceFormat(Body):
    """One of several texts."""

    type: Literal["choice"] = Field(description="This form.")
    choices: list[FreeText] = Field(description="The texts; the answer is one of them, letter by letter.")

    def as_format(self) -> OutputFormat:
        return OutputFormat(self.type, tuple(self.choices))


class GrammarFormat(Body):
    """Text that a grammar describes."""

    type: Literal["grammar"] = Field(description="This form.")
    grammar: FreeText = Field(description='EBNF, as `root ::= "yes" | "no"`; it begins with `root`.')

    def as_format(self) -> OutputFormat:
        return OutputFormat(self.type, self.grammar)


class DateFormat(Body):
    """A date."""

    type: Literal["date"] = Field(description="This form.")
    style: DateStyle = Field(
        "iso",
        description="`iso` 2024-03-05, `year_month` 2024-03, `year` 2024, `chinese` 2024年3月5日, "
        "`english` March 5, 2024.",
    )

    def as_format(self) -> OutputFormat:
        return OutputFormat(self.type, self.style)


AnswerFormat = Annotated[
    JsonSchemaFormat | RegexFormat | ChoiceFormat | GrammarFormat | DateFormat, Field(discriminator="type")
]
