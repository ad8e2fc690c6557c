"""What may be said of a summary, and what contradicts what."""

from __future__ import annotations

import json
import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal

from core.errors import EmptyInput, InvalidInput, TooLong
from core.ids import CollectionId, content_hash
from generation.sampling import LENGTH_TOKENS, Length
from retrieval.filters import DocumentFilter

Style = Literal["summary", "key_points", "changes_since_last", "prompt"]
Writer = Literal["auto", "extractive", "abstractive"]
Method = Literal["map_reduce", "refine"]
SummaryLanguage = Literal["auto", "en", "zh"]
Unsupported = Literal["flag", "remove"]

MIN_LENGTH_TOKENS, MAX_LENGTH_TOKENS = 16, 4000
MAX_PROMPT_CHARACTERS = 2_000
PLACEHOLDERS = ("language", "length", "title")


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryParameters:
    """`writer`: `extractive` chooses sentences of the documents, `abstractive` has the engine write.

    `prompt`: own instructions, with style `prompt`; `{language}`, `{length}` and `{title}` are filled in.
    `length_tokens` in place of `length`, counted as a model that speaks the language would. `refine`
    carries one summary through a single document, for a narrative that is understood in its order.
    `max_tokens` and `max_cost` end the run before it would exceed them.
    """

    style: Style = "summary"
    prompt: str = ""
    writer: Writer = "auto"
    method: Method = "map_reduce"
    length: Length = "paragraph"
    length_tokens: int | None = None
    language: SummaryLanguage = "auto"
    unsupported: Unsupported = "flag"
    filter: DocumentFilter = field(default_factory=DocumentFilter)
    max_tokens: int | None = None
    max_cost: Decimal | None = None

    @property
    def target_tokens(self) -> int:
        """How long the summary may get."""
        return self.length_tokens or LENGTH_TOKENS[self.length]

    def as_json(self) -> dict[str, Any]:
        """For `Summary.parameters`."""
        return {
            "style": self.style,
            "prompt": self.prompt,
            "writer": self.writer,
            "method": self.method,
            "length": self.length,
            "length_tokens": self.length_tokens,
            "language": self.language,
            "unsupported": self.unsupported,
            "filter": self.filter.as_json(),
            "max_tokens": self.max_tokens,
            "max_cost": None if self.max_cost is None else str(self.max_cost),
        }

    @classmethod
    def of_json(cls, stored: Mapping[str, Any]) -> SummaryParameters:
        """What `as_json` gave."""
        cost = stored["max_cost"]
        return cls(
            **dict(stored)
            | {
                "filter": DocumentFilter.of_json(stored["filter"]),
                "max_cost": None if cost is None else Decimal(cost),
            }
        )

    def definition(self, collection_id: CollectionId) -> str:
        """The same for runs that are versions of one summary: limits of a run are not part of it."""
        said = {name: value for name, value in self.as_json().items() if not name.startswith("max_")}
        return content_hash(json.dumps([collection_id, said], sort_keys=True))


def check_parameters(parameters: SummaryParameters) -> None:
    """
    Raises:
        InvalidInput: two of them contradict each other, or the prompt has a placeholder that is none.
        EmptyInput: style `prompt` without a prompt.
        TooLong: so is the prompt.
    """
    if parameters.style == "prompt":
        _check_prompt(parameters.prompt)
    elif parameters.prompt:
        raise InvalidInput(
            f"There is a prompt, but the style is `{parameters.style}`.",
            remedy="Leave one of them out: a prompt goes with style `prompt`.",
        )
    if parameters.method == "refine" and parameters.style == "changes_since_last":
        raise InvalidInput(
            "Method `refine` carries one summary through a narrative, which `changes_since_last` is not.",
            remedy="Use `map_reduce` for changes.",
        )
    tokens = parameters.length_tokens
    if tokens is not None and not MIN_LENGTH_TOKENS <= tokens <= MAX_LENGTH_TOKENS:
        raise InvalidInput(
            f"length_tokens is {tokens}; {MIN_LENGTH_TOKENS} to {MAX_LENGTH_TOKENS:,} can be asked for.",
            remedy="Choose a length between them, or one of `short`, `paragraph`, `long`.",
        )


def _check_prompt(prompt: str) -> None:
    if not any(character.isalnum() for character in prompt):
        raise EmptyInput(
            "The style is `prompt`, but the prompt says nothing.", remedy="Say in `prompt` what to write."
        )
    if len(prompt) > MAX_PROMPT_CHARACTERS:
        raise TooLong(
            f"The prompt has {len(prompt):,} characters; {MAX_PROMPT_CHARACTERS:,} are taken.",
            remedy="Say it in fewer words; the documents' text follows by itself.",
        )
    names = "`, `".join(f"{{{name}}}" for name in PLACEHOLDERS)
    try:
        parts = list(string.Formatter().parse(prompt))
    except ValueError as error:
        raise InvalidInput(
            f"The prompt is no template: {error}.", remedy=f"Write a brace twice, or one of `{names}`."
        ) from error
    for _, name, form, conversion in parts:
        if name is not None and (name not in PLACEHOLDERS or form or conversion):
            raise InvalidInput(
                f"The prompt has the placeholder {{{name}{':' + form if form else ''}}}, which is none.",
                remedy=f"There are `{names}`; the documents' text follows the prompt by itself.",
            )
