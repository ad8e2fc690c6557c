"""A phrase of the best sentences that answers a question in short; by rules, without a model."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from core.ids import DocumentId
from retrieval.extraction import ExtractedSentence
from retrieval.short_answer import phrases
from retrieval.short_answer.asked import Asked, asked
from retrieval.short_answer.candidates import clauses, list_candidates, trimmed
from retrieval.short_answer.coefficients import coefficients_of
from retrieval.short_answer.phrases import Place
from retrieval.short_answer.signals import AskedWords, SentenceSignals
from retrieval.short_answer.words import words_of
from retrieval.support.background import BACKGROUND_TERMS, is_han
from retrieval.support.quantities import unit_fit
from retrieval.support.question_words import content_weights, says_something
from retrieval.term_weights import TermWeights, terms_of

NUM_SENTENCES = 3
"""How many sentences are looked at."""

_MEASURED: Final[Mapping[Asked, Callable[[str], Iterator[Place]]]] = {
    "time": phrases.times,
    "year": phrases.years,
    "duration": phrases.durations,
    "number": phrases.numbers,
}

_CLAUSE_GAP = 4  # words that the end of a clause counts for


@dataclass(frozen=True, slots=True)
class ShortAnswer:
    """Characters `start` to `end` of a document, word for word, inside one extracted sentence."""

    text: str
    document_id: DocumentId
    start: int
    end: int


def short_answer(question: str, sentences: Sequence[ExtractedSentence]) -> ShortAnswer | None:
    """What of `sentences`, best first, answers `question` by itself; the first three are looked at.

    A date, a length of time or a number where one is asked for: of the first sentence with one that
    the question does not say itself, the one nearest to the question's rare words. Else the name,
    noun phrase or clause that looks most like an answer. None where a sentence says it better: how,
    why, lists, yes or no, a date asked for and none there.
    """
    return next(iter(ranked_answers(question, sentences, most=1)), None)


def ranked_answers(
    question: str, sentences: Sequence[ExtractedSentence], *, kind: Asked | None = None, most: int
) -> list[ShortAnswer]:
    """Up to `most` phrases as `short_answer` chooses them, the likeliest first, no text twice.

    Args:
        kind: what is asked for, where the caller knows better than the question says.
    """
    question = unicodedata.normalize("NFKC", question)
    kind = kind or asked(question)
    if kind == "sentence":
        return []
    sentences = sentences[:NUM_SENTENCES]
    texts = [terms_of(sentence.text) for sentence in sentences]
    weights = content_weights(TermWeights.of(question, [*texts, *BACKGROUND_TERMS]))
    if list_places := _MEASURED.get(kind):
        found = [
            _at(sentence, place)
            for sentence in sentences
            for place in _by_nearness(
                _new_places(question, sentence.text, list_places, kind), sentence.text, weights
            )
        ]
    else:
        found = _by_likelihood(question, sentences, weights, kind)
    return list({answer.text: answer for answer in reversed(found)}.values())[::-1][:most]


def _new_places(
    question: str, text: str, list_places: Callable[[str], Iterator[Place]], kind: Asked
) -> list[Place]:
    """Those that the question does not name; of numbers those in the unit asked for, where any are."""
    places = [place for place in list_places(text) if _is_new(question, text[slice(*place)])]
    if kind != "number":
        return places
    fits = [unit_fit(question, text[start : end + 1]) for start, end in places]
    best = next((fit for fit in ("right", "unknown") if fit in fits), "wrong")
    return [place for place, fit in zip(places, fits, strict=True) if fit == best]


def _is_new(question: str, phrase: str) -> bool:
    if phrase.strip().casefold() in question.casefold():
        return False
    terms = terms_of(phrase)
    return not {term for term in terms if says_something(term)} <= terms_of(question) or not any(
        map(says_something, terms)
    )


def _by_nearness(places: Sequence[Place], text: str, weights: TermWeights) -> list[Place]:
    """Most of the question's weight beside it first, in its own clause rather; equals in text order."""
    words = words_of(text)
    starts = [start for start, _ in clauses(text)]
    clause_of = [bisect_right(starts, word.start) for word in words]
    hits = [
        (i, sum(weights.weights.get(term, 0.0) for term in word.terms))
        for i, word in enumerate(words)
        if not word.terms.isdisjoint(weights.weights)
    ]

    def nearness(place: Place) -> float:
        inside = [i for i, word in enumerate(words) if word.start < place[1] and word.end > place[0]]
        if not inside:
            return 0.0
        first, last = inside[0], inside[-1]
        return sum(
            weight / (1 + max(first - i, i - last) + _CLAUSE_GAP * abs(clause_of[i] - clause_of[first]))
            for i, weight in hits
            if not first <= i <= last
        )

    return sorted(places, key=nearness, reverse=True)


def _by_likelihood(
    question: str, sentences: Sequence[ExtractedSentence], weights: TermWeights, kind: Asked
) -> list[ShortAnswer]:
    coefficients = coefficients_of(is_name=kind == "name", is_han=is_han(question))
    wanted = AskedWords.of(question, weights)
    scored: list[tuple[float, ShortAnswer]] = []
    for rank, sentence in enumerate(sentences):
        words = words_of(sentence.text)
        signals = SentenceSignals(wanted, sentence.text, words, rank=rank)
        for candidate in list_candidates(sentence.text, words):
            values = signals.of(candidate)
            if values is None:
                continue
            score = sum(coefficients[name] * value for name, value in values.items())
            scored.append((score, _at(sentence, (candidate.start, candidate.end))))
    return [answer for _, answer in sorted(scored, key=lambda pair: pair[0], reverse=True)]


def _at(sentence: ExtractedSentence, place: Place) -> ShortAnswer:
    start, end = trimmed(sentence.text, *place)
    return ShortAnswer(
        sentence.text[start:end], sentence.document_id, sentence.start + start, sentence.start + end
    )
