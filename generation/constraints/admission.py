"""What is checked of an answer's form when the question is accepted; it takes no model."""

from __future__ import annotations

from collections.abc import Sequence

from core.errors import InvalidInput
from generation.constraints.grammar_limits import check_grammar
from generation.constraints.output_format import DATE_STYLES, OutputFormat
from generation.constraints.regex_limits import check_regex
from generation.constraints.schema_limits import check_schema
from generation.sampling import SamplingChoice, given_controls

_FORBIDDING = ("n", "beam_width", "min_tokens", "stop", "bad_words", "no_repeat_ngram_size")
_PLAIN_SAMPLING = SamplingChoice()

MAX_CHOICES = 500
MAX_CHOICE_CHARACTERS = 1_000
MAX_ALL_CHOICES_CHARACTERS = 20_000
MAX_INCLUDED = 20
MAX_INCLUDED_CHARACTERS = 500


def admit_format(
    form: OutputFormat | None,
    must_include: Sequence[str],
    *,
    mode: str = "auto",
    sampling: SamplingChoice = _PLAIN_SAMPLING,
) -> None:
    """Nothing, where an answer can be held to `form` and can hold all of `must_include`.

    Raises:
        InvalidInput: what is wrong, and where; or `mode` does not write freely; or a control of
            `sampling` could forbid the only token that the form lets pass.
    """
    if form is None and not must_include:
        return
    if mode not in ("auto", "abstractive"):
        raise InvalidInput(
            f"An answer of mode `{mode}` cannot be held to a form: it is put together of quotes.",
            remedy="Leave `mode` out, or set it to `abstractive`.",
        )
    _check_sampling(sampling)
    _check_included(must_include)
    if form is None:
        return
    match form.kind:
        case "json_schema":
            check_schema(form.schema)
        case "regex":
            check_regex(form.pattern)
        case "grammar":
            assert isinstance(form.value, str)
            check_grammar(form.value)
        case "date":
            _check_date(form, must_include)
        case "choice":
            _check_choices(form.choices, must_include)


def _check_sampling(sampling: SamplingChoice) -> None:
    given = [name for name in _FORBIDDING if name in given_controls(sampling)]
    if given:
        raise InvalidInput(
            f"`{given[0]}` cannot stand beside a form: it may forbid, or cut off, what the form demands.",
            remedy=f"Leave out `{given[0]}`, or the form.",
        )


def _check_included(texts: Sequence[str]) -> None:
    if len(texts) > MAX_INCLUDED:
        raise InvalidInput(
            f"`must_include` has {len(texts)} texts; {MAX_INCLUDED} are taken.", remedy="Ask for fewer."
        )
    for text in texts:
        if not text.strip() or len(text) > MAX_INCLUDED_CHARACTERS or any(c in text for c in "\n\r\x00"):
            raise InvalidInput(
                f"A text of `must_include` is blank, has a line break, or has more than "
                f"{MAX_INCLUDED_CHARACTERS} characters.",
                remedy="Give short texts of one line.",
            )


def _check_date(form: OutputFormat, must_include: Sequence[str]) -> None:
    if form.value not in DATE_STYLES:
        raise InvalidInput(
            f"There is no date style `{form.value}`.", remedy=f"Choose from: {', '.join(DATE_STYLES)}."
        )
    if must_include:
        raise InvalidInput(
            "A date has no room for the texts of `must_include`.", remedy="Leave out one of the two."
        )


def _check_choices(choices: Sequence[str], must_include: Sequence[str]) -> None:
    if not 1 <= len(choices) <= MAX_CHOICES or sum(map(len, choices)) > MAX_ALL_CHOICES_CHARACTERS:
        raise InvalidInput(
            f"There are {len(choices)} choices of {sum(map(len, choices)):,} characters; 1 to {MAX_CHOICES} of "
            f"{MAX_ALL_CHOICES_CHARACTERS:,} together are taken.",
            remedy="Offer at least one, and no more than that.",
        )
    for choice in choices:
        if not choice.strip() or choice != choice.strip() or len(choice) > MAX_CHOICE_CHARACTERS:
            raise InvalidInput(
                f"A choice is blank, has white space at an end, or has more than {MAX_CHOICE_CHARACTERS:,} "
                "characters.",
                remedy="Trim it.",
            )
    if len(set(choices)) < len(choices):
        raise InvalidInput("Two choices are the same.", remedy="Offer each once.")
    if must_include and not any(all(text in choice for text in must_include) for choice in choices):
        raise InvalidInput(
            "No choice holds all texts of `must_include`.", remedy="Leave out what no choice holds."
        )
