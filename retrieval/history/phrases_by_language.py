"""What a text is about, by the rules of its language."""

from __future__ import annotations

from core.language import is_chinese
from retrieval.history import chinese, english
from retrieval.history.phrases import Need, Phrase


def need_of(question: str) -> Need:
    """How far the question depends on what was said before."""
    return chinese.need_of(question) if is_chinese(question) else english.need_of(question)


def phrases_of(text: str) -> list[Phrase]:
    """Names and runs of content words, in order of their place."""
    return list(chinese.phrases_of(text) if is_chinese(text) else english.phrases_of(text))
