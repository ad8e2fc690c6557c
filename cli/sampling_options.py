"""How a written answer is sampled: options of commands that ask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import typer

Preset = Literal["deterministic", "precise", "balanced", "general", "creative", "long_form"]
Length = Literal["short", "paragraph", "long"]

_PANEL = "Sampling (answers that the model writes)"


def _option(*names: str, help: str, metavar: str | None = None) -> Any:
    return typer.Option(*names, help=help, metavar=metavar, rich_help_panel=_PANEL)


PresetOption = Annotated[
    Preset | None, _option("--preset", help="A base for the rest; without one: deterministic.")
]
LengthOption = Annotated[
    Length | None, _option("--length", help="short: 100 tokens; paragraph: 300; long: 1,000.")
]
MaxTokensOption = Annotated[int | None, _option("--max-tokens", metavar="N", help="Most tokens to write.")]
MinTokensOption = Annotated[int | None, _option("--min-tokens", metavar="N", help="No end before so many.")]
TemperatureOption = Annotated[float | None, _option("--temperature", metavar="T", help="0: greedy.")]
TopPOption = Annotated[float | None, _option("--top-p", metavar="P", help="Nucleus sampling.")]
TopKOption = Annotated[int | None, _option("--top-k", metavar="K", help="The K likeliest tokens only.")]
MinPOption = Annotated[float | None, _option("--min-p", metavar="P", help="At least P of the likeliest.")]
RepetitionPenaltyOption = Annotated[
    float | None,
    _option("--repetition-penalty", metavar="R", help="Above 1: against tokens of prompt and answer."),
]
PresencePenaltyOption = Annotated[
    float | None, _option("--presence-penalty", metavar="X", help="Against tokens of the answer.")
]
FrequencyPenaltyOption = Annotated[
    float | None, _option("--frequency-penalty", metavar="X", help="The same, each time they come.")
]
NoRepeatOption = Annotated[
    int | None, _option("--no-repeat-ngram-size", metavar="N", help="No N tokens come twice.")
]
SeedOption = Annotated[int | None, _option("--seed", metavar="N", help="The same seed, the same answer.")]
StopOption = Annotated[
    list[str] | None, _option("--stop", metavar="TEXT", help="Text that ends it; repeatable.")
]
SamplesOption = Annotated[
    int | None, _option("--samples", "-n", metavar="N", help="Draw N answers; give what most say.")
]
LogitBiasOption = Annotated[
    list[str] | None, _option("--logit-bias", metavar="ID=X", help="For a token, -100 to 100; repeatable.")
]
BadWordOption = Annotated[
    list[str] | None, _option("--bad-word", metavar="TEXT", help="Text that is not written; repeatable.")
]
BeamWidthOption = Annotated[int | None, _option("--beam-width", metavar="N", help="Search with N beams.")]
LengthPenaltyOption = Annotated[
    float | None, _option("--length-penalty", metavar="X", help="Of beams; above 1: longer answers.")
]


def given_options(*, logit_bias: Sequence[str] | None, **options: object) -> dict[str, Any]:
    """The options that were given, as the API takes them.

    Raises:
        typer.BadParameter: a bias is not `ID=X`.
    """
    given = {name: value for name, value in options.items() if value is not None}
    return given | ({"logit_bias": dict(map(_bias, logit_bias))} if logit_bias else {})


def _bias(text: str) -> tuple[str, float]:
    token, _, bias = text.partition("=")
    try:
        return str(int(token)), float(bias)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not ID=X, such as 1234=-100.", param_hint="--logit-bias"
        ) from None
