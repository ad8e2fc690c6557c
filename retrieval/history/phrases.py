"""Pieces of a question that say what it is about."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True)
class Phrase:
    """Content words that stand together; `is_name`: a person, place, product or title among them."""

    text: str
    is_name: bool


class Need(Enum):
    """How far a question depends on the conversation before it."""

    NONE = "none"  # says all that it is about
    DEFINES = "defines"  # asks about a topic that it names: "what is a …"
    SHORT = "short"  # says so little that it may be about what came before
    STATES = "states"  # asks nothing, but says more about what was asked: "I am in Oslo."
    CONTINUES = "continues"  # takes up the thread: "and in 2020?", "what about …"
    REFERS = "refers"  # a pronoun, or nothing to search for at all
