"""Which sentence of the passages supports which sentence of a written answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from generation.answer_draft import Statement
from generation.citations import Quote
from retrieval.passages import Passage
from retrieval.sentences import split_sentences
from retrieval.term_weights import terms_of

MIN_COVERAGE = 0.6
"""Share of an answer sentence's words that its source must have to count as support."""

FEW_WORDS = 4
MIN_ASKED = 0.4
"""A sentence of fewer words stands anywhere: its source must also have so much of the question."""

_QUESTION_WEIGHT = 0.5
_MARK = re.compile(r"\s*\[(\d{1,3})\]")
_NUMBER = re.compile(r"\d[\d,.]*")


@dataclass(frozen=True, slots=True)
class Attribution:
    """The answer's sentences, without the model's marks, each with its support if it has any."""

    statements: tuple[Statement, ...]

    @property
    def unsupported(self) -> tuple[str, ...]:
        """Sentences that say something which nothing supports."""
        return tuple(s.text for s in self.statements if s.quote is None and terms_of(s.text))


@dataclass(frozen=True, slots=True)
class _Source:
    quote: Quote
    passage_number: int  # as the prompt numbers it, from 1
    words: frozenset[str]
    numbers: frozenset[str]


def attribute(answer: str, question: str, passages: Sequence[Passage]) -> Attribution:
    """The best supporting sentence for each sentence of `answer`, found by words.

    A source must hold at least `MIN_COVERAGE` of the answer sentence's words and every number in
    it; for a sentence of few words it must hold a good part of the question too. Among those, the words of the question decide, so that "six" is cited where the question is
    answered rather than where any six stands. A mark like `[2]` that the model gave confines the
    search to that passage when it supports the sentence; marks of passages that do not exist are
    ignored.

    Args:
        passages: in the order the prompt numbered them.
    """
    sources = [source for number, p in enumerate(passages, 1) for source in _sources(p, number)]
    question_words = terms_of(question)
    statements: list[Statement] = []
    sentences = split_sentences(answer)
    for sentence, following in zip(sentences, [*sentences[1:], None], strict=True):
        marked = {int(number) for number in _MARK.findall(sentence.text)}
        text = strip_marks(sentence.text)
        if not text:
            continue
        best = _best(text, question_words, [s for s in sources if s.passage_number in marked])
        best = best or _best(text, question_words, sources)
        between = answer[sentence.end : following.start] if following else ""
        statements.append(Statement(text, best.quote if best else None, between))
    return Attribution(tuple(statements))


def strip_marks(text: str) -> str:
    """The text without citation marks such as `[2]`."""
    return _MARK.sub("", text).strip()


def _sources(passage: Passage, number: int) -> list[_Source]:
    return [
        _Source(
            quote=Quote(
                document_id=passage.document_id,
                document_name=passage.document_name,
                start=passage.start + sentence.start,
                end=passage.start + sentence.end,
                text=sentence.text,
            ),
            passage_number=number,
            words=terms_of(sentence.text),
            numbers=_numbers(sentence.text),
        )
        for sentence in split_sentences(passage.text)
    ]


def _best(text: str, question_words: frozenset[str], sources: Sequence[_Source]) -> _Source | None:
    words, numbers = terms_of(text), _numbers(text)
    if not words:
        return None
    best: _Source | None = None
    best_score = 0.0
    for source in sources:
        coverage = len(words & source.words) / len(words)
        if coverage < MIN_COVERAGE or not numbers <= source.numbers:
            continue
        asked = len(question_words & source.words) / max(1, len(question_words))
        if len(words) < FEW_WORDS and asked < MIN_ASKED:
            continue
        score = coverage + _QUESTION_WEIGHT * asked
        if score > best_score:
            best, best_score = source, score
    return best


def _numbers(text: str) -> frozenset[str]:
    return frozenset(number.rstrip(".,").replace(",", "") for number in _NUMBER.findall(text))
