"""What speaks for and against a sentence answering a question, as numbers between -1 and about 1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retrieval.passages import Passage
from retrieval.sentence_vectors import SentenceVectors
from retrieval.sentences import split_sentences
from retrieval.support.answer_types import AnswerFinder
from retrieval.support.background import BACKGROUND_TERMS, background_slice, is_han
from retrieval.support.question_words import content_weights, is_question
from retrieval.support.years import year_conflicts
from retrieval.term_weights import TermWeights, terms_of

MAX_SENTENCES = 32
"""Sentences looked at: fewer than extraction scores, so that few have to be embedded for this."""

_OVERLAP_WEIGHT = 0.5


@dataclass(frozen=True, slots=True)
class Evidence:
    """One sentence held against one question.

    Args:
        lead: how far it is from unrelated text (0) towards the question (1).
        window: share of the question's weight in words that it has with its neighbours, the headings
            and the title.
        source: the same of its whole passage.
        answer: 1 where it names the kind of thing asked for, -1 where it does not (`AnswerFinder`).
        year_conflict: 1 where it is about another year than the question, 0.5 where that is unknown.
        has_vectors: False where nothing was embedded; `lead` is then 0.
        shares_words: False where the question and the passage nearest to it are in different scripts.
        is_han: whether the question is Chinese.
        missing_words: of the question, in no passage; the weightiest three.
    """

    lead: float
    window: float
    source: float
    answer: float
    year_conflict: float
    has_vectors: bool
    shares_words: bool
    is_han: bool
    missing_words: tuple[str, ...] = ()

    def objections(self) -> tuple[str, ...]:
        """What speaks against an answer, in words, for logs and for whoever tunes."""
        found = []
        if self.shares_words and self.missing_words:
            found.append("Not in the passages: " + ", ".join(self.missing_words) + ".")
        if self.answer < 0:
            found.append("The sentence nearest to the question does not name what it asks for.")
        if self.year_conflict == 1:
            found.append("The sentence nearest to the question is about another year.")
        return tuple(found) or ("No sentence is near enough to the question.",)


@dataclass(frozen=True, slots=True)
class _Place:
    """A sentence with what is known of it without its vector."""

    text: str
    window: float
    source: float
    year_conflict: float
    worth: float
    is_in_han: bool  # its passage


def weigh_sentences(
    question: str,
    passages: Sequence[Passage],
    *,
    vectors: SentenceVectors | None,
    query_vector: NDArray[np.float32] | None,
    background: NDArray[np.float32] | None,
) -> list[Evidence]:
    """At most `MAX_SENTENCES`, those with most of the question's words; empty where there is no text.

    Args:
        vectors: of the sentences. Without, or without `query_vector`, the words alone are weighed.
        background: (num_sentences, dimension), the vectors of `BACKGROUND_SENTENCES`.
    """
    cut = [[sentence.text for sentence in split_sentences(passage.text)] for passage in passages]
    texts = [terms_of(text) for sentences in cut for text in sentences]
    if not texts:
        return []
    weights = content_weights(TermWeights.of(question, [*texts, *BACKGROUND_TERMS]))
    places = _choose(question, cut, passages, weights)
    leads = np.zeros(len(places))
    if vectors is not None and query_vector is not None and background is not None:
        leads = _leads([place.text for place in places], vectors, query_vector, background)
    finder, chinese = AnswerFinder.of(question), is_han(question)
    missing = _missing(weights, passages)
    nearest = int(np.argmax([place.window for place in places] if vectors is None else leads))
    return [
        Evidence(
            lead=float(lead),
            window=place.window,
            source=place.source,
            answer=finder.match(place.text),
            year_conflict=place.year_conflict,
            has_vectors=vectors is not None,
            shares_words=chinese == places[nearest].is_in_han,
            is_han=chinese,
            missing_words=missing,
        )
        for place, lead in zip(places, leads, strict=True)
    ]


def _choose(
    question: str, cut: Sequence[Sequence[str]], passages: Sequence[Passage], weights: TermWeights
) -> list[_Place]:
    """The best by words and passage; questions in the text only where it has nothing else."""
    top = max((passage.score for passage in passages), default=0.0)
    told: list[_Place] = []
    asked: list[_Place] = []
    for sentences, passage in zip(cut, passages, strict=True):
        share = passage.score / top if top > 0 else 1.0
        for place in _places(question, sentences, passage, weights, share):
            (asked if is_question(place.text) else told).append(place)
    return sorted(told or asked, key=lambda place: -place.worth)[:MAX_SENTENCES]


def _places(
    question: str, sentences: Sequence[str], passage: Passage, weights: TermWeights, share: float
) -> Iterator[_Place]:
    heading = " ".join((passage.document_title, *passage.headings))
    around, terms = terms_of(heading), [terms_of(text) for text in sentences]
    source = weights.overlap(around.union(*terms))
    conflicts, is_in_han = year_conflicts(question, heading, sentences), is_han(passage.text)
    for i, (text, conflict) in enumerate(zip(sentences, conflicts, strict=True)):
        window = weights.overlap(around.union(*terms[max(0, i - 1) : i + 2]))
        worth = _OVERLAP_WEIGHT * weights.overlap(terms[i]) + share
        yield _Place(text, window, source, conflict, worth, is_in_han)


def _leads(
    texts: Sequence[str],
    vectors: SentenceVectors,
    query_vector: NDArray[np.float32],
    background: NDArray[np.float32],
) -> NDArray[np.float64]:
    """For each text how far it is from unrelated ones in its own language towards the question."""
    similarities = (vectors.embed(texts) @ query_vector).astype(np.float64)
    floors = background @ query_vector
    zero = np.array([float(floors[background_slice(text)].mean()) for text in texts])
    leads: NDArray[np.float64] = (similarities - zero) / np.maximum(1e-6, 1.0 - zero)
    return leads


def _missing(weights: TermWeights, passages: Sequence[Passage]) -> tuple[str, ...]:
    everywhere = frozenset().union(
        *(terms_of(" ".join((p.document_title, *p.headings))) | terms_of(p.text) for p in passages)
    )
    absent = ((-weight, term) for term, weight in weights.weights.items() if term not in everywhere)
    return tuple(term for _, term in sorted(absent)[:3])
