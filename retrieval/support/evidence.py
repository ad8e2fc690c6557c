"""What speaks for and against passages answering a question, as numbers between 0 and about 1."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retrieval.passages import Passage
from retrieval.sentence_vectors import SentenceVectors
from retrieval.sentences import split_sentences
from retrieval.support.answer_types import expected_type, names_answer
from retrieval.support.background import BACKGROUND_TERMS, background_slice, is_han
from retrieval.support.question_words import content_weights, is_question
from retrieval.term_weights import TermWeights, terms_of

MAX_SENTENCES = 32
"""Sentences looked at: as many as extraction scores, so that few have to be embedded for this."""

_OVERLAP_WEIGHT = 0.5
_WINDOW_WEIGHT = 0.6  # of shared words beside similarity, where the sentence that answers is picked
_NUM_NEAR = 3
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


@dataclass(frozen=True, slots=True)
class Evidence:
    """One set of passages held against one question.

    Args:
        source: share of the question's weight in words that the nearest sentence's passage has.
        window: the same of the best sentence with its neighbours, headings and title, among those
            that name something of the kind asked for.
        numbers_missing: share of the question's numbers that stand in no passage.
        kind_missing: 1 where the question asks for a time, a number, a place or a person, and none of
            the sentences nearest to it names one.
        lead: how far the nearest sentence is from unrelated text (0) towards the question (1).
        has_vectors: False where nothing was embedded; `lead` is then 0.
        shares_words: False where question and passages are in different scripts.
        is_han: whether the question is Chinese.
    """

    source: float
    window: float
    numbers_missing: float
    kind_missing: float
    lead: float
    has_vectors: bool
    shares_words: bool
    is_han: bool
    missing_words: tuple[str, ...] = ()

    def objections(self) -> tuple[str, ...]:
        """What speaks against an answer, in words, for logs and for whoever tunes."""
        found = []
        if self.shares_words and self.missing_words:
            found.append("Not in the passages: " + ", ".join(self.missing_words) + ".")
        if self.kind_missing:
            found.append("No sentence near the question names what it asks for.")
        if self.numbers_missing:
            found.append("A number of the question is in no passage.")
        return tuple(found) or ("No sentence is near enough to the question.",)


@dataclass(frozen=True, slots=True)
class _Place:
    """A sentence, and its words together with its neighbours', the headings' and the title's."""

    text: str
    surroundings: str
    terms: frozenset[str]
    window: frozenset[str]
    passage_index: int
    worth: float


def weigh_evidence(
    question: str,
    passages: Sequence[Passage],
    *,
    vectors: SentenceVectors | None,
    query_vector: NDArray[np.float32] | None,
    background: NDArray[np.float32] | None,
) -> Evidence | None:
    """None where the passages hold no text. Without `vectors` the words alone are weighed.

    Args:
        background: (num_sentences, dimension), the vectors of `BACKGROUND_SENTENCES`.
    """
    raw = [_split(passage) for passage in passages]
    texts = [terms_of(text) for sentences in raw for text in sentences]
    if not texts:
        return None
    weights = content_weights(TermWeights.of(question, [*texts, *BACKGROUND_TERMS]))
    places = _choose(raw, passages, weights)
    overlaps = np.array([weights.overlap(place.window) for place in places])
    leads = np.zeros(len(places))
    if vectors is not None and query_vector is not None and background is not None:
        leads = _leads([place.text for place in places], vectors, query_vector, background)
    nearest = int(np.argmax(leads + _WINDOW_WEIGHT * overlaps if vectors is None else leads))
    names_one = names_answer(question)
    named = np.array([names_one(place.surroundings) for place in places])
    best = _best(leads + _WINDOW_WEIGHT * overlaps, named)
    words = [_words_of(passage) for passage in passages]
    everywhere = frozenset().union(*words)
    source = places[nearest].passage_index
    return Evidence(
        source=weights.overlap(words[source]),
        window=float(overlaps[best]),
        numbers_missing=_share_missing(_NUMBER.findall(question), passages),
        kind_missing=_kind_missing(question, names_one, places, leads + _OVERLAP_WEIGHT * overlaps),
        lead=float(leads.max()),
        has_vectors=vectors is not None,
        shares_words=is_han(question) == is_han(passages[source].text),
        is_han=is_han(question),
        missing_words=tuple(
            term for term, _ in sorted(weights.weights.items(), key=lambda w: -w[1]) if term not in everywhere
        )[:3],
    )


def _split(passage: Passage) -> list[str]:
    return [sentence.text for sentence in split_sentences(passage.text)]


def _words_of(passage: Passage) -> frozenset[str]:
    return terms_of(passage.text) | _words_around(passage)


def _words_around(passage: Passage) -> frozenset[str]:
    return terms_of(" ".join((passage.document_title, *passage.headings)))


def _choose(raw: Sequence[Sequence[str]], passages: Sequence[Passage], weights: TermWeights) -> list[_Place]:
    """At most `MAX_SENTENCES`, by words and passage; questions in the text only where it has no more."""
    top = max((passage.score for passage in passages), default=0.0)
    places = []
    for index, (sentences, passage) in enumerate(zip(raw, passages, strict=True)):
        around = _words_around(passage)
        share = passage.score / top if top > 0 else 1.0
        for i, text in enumerate(sentences):
            beside = sentences[max(0, i - 1) : i + 2]
            terms = terms_of(text)
            worth = _OVERLAP_WEIGHT * weights.overlap(terms) + share
            window = around.union(*map(terms_of, beside))
            places.append(_Place(text, " ".join(beside), terms, window, index, worth))
    told = [place for place in places if not is_question(place.text)] or places
    return sorted(told, key=lambda place: -place.worth)[:MAX_SENTENCES]


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


def _best(scores: NDArray[np.float64], named: NDArray[np.bool_]) -> int:
    """The best-scored among those that name what is asked for; of all where none does."""
    return int(np.argmax(np.where(named, scores, scores - 100.0)))


def _kind_missing(
    question: str, names_one: Callable[[str], bool], places: Sequence[_Place], scores: NDArray[np.float64]
) -> float:
    if expected_type(question) is None:
        return 0.0
    near = np.argsort(-scores, kind="stable")[:_NUM_NEAR]
    return float(not any(names_one(places[i].text) for i in near))


def _share_missing(numbers: Sequence[str], passages: Sequence[Passage]) -> float:
    if not numbers:
        return 0.0
    text = "\n".join(
        f"{passage.document_title} {' '.join(passage.headings)} {passage.text}" for passage in passages
    )
    return sum(number not in text for number in numbers) / len(numbers)
