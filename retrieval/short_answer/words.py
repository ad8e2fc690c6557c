"""The words of a text with their places in it, English and Chinese alike."""

from __future__ import annotations

import re
from dataclasses import dataclass

import rjieba

from retrieval.text_analysis import analyze

_RUN = re.compile(
    r"(?P<han>[\u3005\u3007\u3400-\u9fff]+)"
    r"|(?P<number>\d+(?:[.,:]\d+)*)"
    r"|(?P<word>[^\W\d_\u3005\u3007\u3400-\u9fff](?:[^\W_\u3005\u3007\u3400-\u9fff]|['’.&-](?=[^\W_\u3005\u3007\u3400-\u9fff]))*)"
)


@dataclass(frozen=True, slots=True)
class Word:
    """`terms` as questions are analysed; `tag` is rjieba's, empty where the word is not Chinese."""

    start: int
    end: int
    text: str
    terms: frozenset[str]
    tag: str


def words_of(text: str) -> list[Word]:
    """Every word of `text`, in order; punctuation and symbols are none."""
    found: list[Word] = []
    for match in _RUN.finditer(text):
        if match.lastgroup != "han":
            run = match.group()
            found.append(Word(match.start(), match.end(), run, frozenset(analyze(run)), ""))
            continue
        start = match.start()
        for word, tag in rjieba.tag(match.group()):
            found.append(Word(start, start + len(word), word, frozenset(analyze(word)), tag))
            start += len(word)
    return found
