"""The forms that an answer's text can be held to."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from generation.constraints.schema_limits import for_engine
from inference.protocols import OutputConstraint

FormatKind = Literal["json_schema", "regex", "choice", "grammar", "date"]
DateStyle = Literal["iso", "year_month", "year", "chinese", "english"]

_FIELDS: Final[Mapping[FormatKind, str]] = {
    "json_schema": "schema",
    "regex": "pattern",
    "choice": "choices",
    "grammar": "grammar",
    "date": "style",
}
"""Under which name the API and the database keep a format's value."""

_MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_LONG, _SHORT = (
    ("January", "March", "May", "July", "August", "October", "December"),
    (
        "April",
        "June",
        "September",
        "November",
    ),
)


def _days(last: int) -> str:
    """1 to `last`, without leading zeros; `last` is 29, 30 or 31."""
    return {29: "[1-9]|1[0-9]|2[0-9]", 30: "[1-9]|[12][0-9]|30", 31: "[1-9]|[12][0-9]|3[01]"}[last]


DATE_STYLES: Final[Mapping[DateStyle, tuple[str, str]]] = {
    # No month has a day too many; the 29th of February in a common year is told by validation.
    "iso": (
        "[12][0-9]{3}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
        "|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|[12][0-9]))",
        "2024-03-05",
    ),
    "year_month": ("[12][0-9]{3}-(?:0[1-9]|1[0-2])", "2024-03"),
    "year": ("[12][0-9]{3}", "2024"),
    "chinese": (
        f"[12][0-9]{{3}}年(?:(?:[13578]|1[02])月(?:{_days(31)})|(?:[469]|11)月(?:{_days(30)})"
        f"|2月(?:{_days(29)}))日",
        "2024年3月5日",
    ),
    "english": (
        f"(?:(?:{'|'.join(_LONG)}) (?:{_days(31)})|(?:{'|'.join(_SHORT)}) (?:{_days(30)})"
        f"|February (?:{_days(29)})), [12][0-9]{{3}}",
        "March 5, 2024",
    ),
}
"""Each style's pattern and an example of it; years 1000 to 2999."""


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """`value`: a JSON schema, a pattern, texts to choose from, an EBNF grammar, or a `DateStyle`."""

    kind: FormatKind
    value: Mapping[str, Any] | str | Sequence[str]

    def as_json(self) -> dict[str, Any]:
        """`{"type": "regex", "pattern": "…"}`, as the API takes it."""
        value = list(self.value) if self.kind == "choice" else self.value
        return {"type": self.kind, _FIELDS[self.kind]: value}

    @classmethod
    def of_json(cls, stored: Mapping[str, Any]) -> OutputFormat:
        """What `as_json` gave."""
        kind: FormatKind = stored["type"]
        value = stored[_FIELDS[kind]]
        return cls(kind, tuple(value) if kind == "choice" else value)

    @property
    def schema(self) -> Mapping[str, Any]:
        assert isinstance(self.value, Mapping)
        return self.value

    @property
    def pattern(self) -> str:
        """The pattern of a regex or a date."""
        assert isinstance(self.value, str)
        return DATE_STYLES[self.value][0] if self.kind == "date" else self.value  # type: ignore[index]

    @property
    def choices(self) -> Sequence[str]:
        assert not isinstance(self.value, str | Mapping)
        return self.value

    def constraint(self) -> OutputConstraint:
        """What the engine is told."""
        match self.kind:
            case "json_schema":
                return OutputConstraint("json", for_engine(self.schema))
            case "choice":
                return OutputConstraint("choice", list(self.choices))
            case "grammar":
                assert isinstance(self.value, str)
                return OutputConstraint("grammar", self.value)
            case "regex" | "date":
                return OutputConstraint("regex", self.pattern)


def forced_inclusion(texts: Sequence[str]) -> OutputConstraint:
    """One line that holds `texts` in their order, with a few words before, between and after them."""
    # Bounds on characters are dear to compile; without any a model would not come to the point.
    gap = min(24, 96 // (len(texts) + 1))
    between = f"[^\\n\\r]{{0,{gap}}}"
    return OutputConstraint("regex", between + "".join(_literal(text) + between for text in texts))


def _literal(text: str) -> str:
    """`re.escape` would escape characters that xgrammar does not know escaped."""
    return "".join(re.sub(r"[\\^$.|?*+()\[\]{}/-]", r"\\\g<0>", character) for character in text)
