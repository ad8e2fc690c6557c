"""RGB: questions with web pages that answer them and pages that only look as if they did."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from bench.metrics import contains_answer
from core.errors import NotFound

Condition = Literal["answerable", "noisy", "unanswerable"]
CONDITIONS: tuple[Condition, ...] = get_args(Condition)

_FILES = (
    ("zh_refine.100", "zh"),
    ("zh_int.50", "zh"),
    ("zh_fact", "zh"),
    ("en_fact", "en"),
)
_REFUSAL_SETS = ("zh_refine", "zh_int")
"""RGB's files for noise and rejection. The two `fact` files are for telling altered facts: their other pages
are cut short and often answer in other words ("premieres Nov. 15", "Tampa, Fla."), so that neither words
nor vectors tell them from those that count as answers (area under the curve .49).
"""

_NUM_POSITIVE, _NUM_NEGATIVE, _NUM_NOISE = 2, 5, 3
_QUICK_EVERY = 6


@dataclass(frozen=True, slots=True)
class GroundingQuestion:
    """`answers` has every accepted wording; a question for two facts accepts either."""

    id: str
    set_name: str
    language: str
    text: str
    answers: tuple[str, ...]
    positive: tuple[str, ...]
    negative: tuple[str, ...]

    @property
    def tests_refusal(self) -> bool:
        """Whether its pages are labelled well enough to say when a refusal is due."""
        return self.set_name in _REFUSAL_SETS

    def pages(self, condition: Condition) -> tuple[str, ...]:
        """What is there to read: the pages that answer; those and others; only others."""
        if condition == "answerable":
            return self.positive
        if condition == "noisy":
            return self.positive + self.negative[:_NUM_NOISE]
        return self.negative


def load_questions(data_dir: Path, *, held_out: bool, quick: bool) -> list[GroundingQuestion]:
    """Half of RGB's questions: those of odd number are `held_out`, the others may be looked at.

    A page that is marked as not answering, but holds the answer, is left out, and so is a question
    of which too few pages remain.

    Raises:
        NotFound: the data folder lacks RGB.
    """
    found = [
        question
        for file, language in _FILES
        for number, row in enumerate(read_rows(data_dir / f"qa-rgb/{file}.jsonl"))
        if number % 2 == held_out and (question := _question(file, language, number, row)) is not None
    ]
    return found[::_QUICK_EVERY] if quick else found


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSON Lines file.

    Raises:
        NotFound: there is no such file.
    """
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except FileNotFoundError as error:
        raise NotFound(
            f"There is no evaluation file {path}.", remedy="Pass --data or set LONGLEAF_DATA.", path=str(path)
        ) from error


def _question(file: str, language: str, number: int, row: dict[str, Any]) -> GroundingQuestion | None:
    answers = tuple(_flat(row["answer"]))
    parts = row["positive"] if isinstance(row["positive"][0], list) else [row["positive"]]
    # One page for each fact first, so that two facts are both there.
    positive = [pages[i] for i in range(_NUM_POSITIVE) for pages in parts if i < len(pages)]
    positive = positive[: max(_NUM_POSITIVE, len(parts))]
    negative = [page for page in row["negative"] if not contains_answer(page, answers)][:_NUM_NEGATIVE]
    if not contains_answer("\n".join(positive), answers) or len(negative) < _NUM_NOISE:
        return None
    return GroundingQuestion(
        id=f"{file}-{number}",
        set_name=file.partition(".")[0],
        language=language,
        text=row["query"],
        answers=answers,
        positive=tuple(positive),
        negative=tuple(negative),
    )


def _flat(value: str | Iterable[Any]) -> Iterator[str]:
    """The strings of a list of lists of strings."""
    if isinstance(value, str):
        yield value
    else:
        for item in value:
            yield from _flat(item)
