"""Which sentences of the passages support which sentence of a written answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from generation.answer_draft import Statement
from generation.citations import Quote
from generation.names import misnames
from generation.negation import contradicts_by_negation
from generation.numerals import numbers_of
from generation.orders import asks_about_orders, is_order
from retrieval.passages import Passage
from retrieval.sentence_vectors import SentenceVectors
from retrieval.sentences import split_sentences
from retrieval.support import BACKGROUND_SENTENCES, background_slice, is_han
from retrieval.term_weights import terms_of

MIN_COVERAGE = 0.6
"""Share of an answer sentence's words that its source must have to count as support."""

FEW_WORDS = 4
MIN_ASKED = 0.4
"""A sentence of fewer words stands anywhere: its source must also have so much of the question."""

MIN_PARAPHRASE_COVERAGE = 0.4
MIN_PARAPHRASE_LEAD = 0.65
MIN_TRANSLATION_LEAD = 0.45
"""How much more alike than unrelated sentences, on the way to identity, a paraphrase must be.

On 565 aligned sentences of XQuAD with multilingual-e5-small, sources being their own and three more
paragraphs in the other language: 0.45 finds 66 % (Chinese in English) and 59 % (English in Chinese),
nearly always the right sentence; where that is taken away, another passes for 2.3 % and 1.2 %.
"""

MAX_COMPARED = 48
"""Sentences whose vectors are compared for one answer: most have been computed by then."""

NEAR_COPY = 0.8
"""Of so many shared words a sentence is a copy of its source, but for what was changed in it."""

_QUESTION_WEIGHT = 0.5
_MARK = re.compile(r"\s*[\[［【]\s*(\d{1,3}(?:\s*[,，、;；]\s*\d{1,3})*)\s*[\]］】]")
_BARE_REPLY = re.compile(
    r"(?:yes|no|correct|true|false|是的?|不是|不|对|不对|否|没有|有|可以|不可以|能|不能)[.,!。，！]?",
    re.IGNORECASE,
)
_PARTS = re.compile(
    r"[,;，；]\s*(?:and\s+|but\s+|while\s+)?|\s+(?:and|but|while)\s+|而且|并且|以及|同时|但是?|而"
)


@dataclass(frozen=True, slots=True)
class Attribution:
    """The answer's sentences, without the model's marks, each with its support if it has any."""

    statements: tuple[Statement, ...]

    @property
    def is_supported(self) -> bool:
        """Whether anything in the answer has support."""
        return any(statement.quotes for statement in self.statements)


def attribute(
    answer: str,
    question: str,
    passages: Sequence[Passage],
    *,
    vectors: SentenceVectors | None = None,
) -> Attribution:
    """The supporting stretch of the passages for each sentence of `answer`.

    A source is one sentence, or two that adjoin, of a passage. It must hold at least `MIN_COVERAGE`
    of the answer sentence's words and, if these are few, a good part of the question too. Never is
    a source one that lacks a number of the sentence, names another where the sentence has a name,
    denies what it affirms, or gives orders to whoever reads it (`generation/orders.py`). Among sources the words of the question decide, so that "six" is cited
    where the question is answered rather than where any six stands. A sentence that no single
    source supports is supported by several if each of its clauses has one.

    Marks such as `[2]` that the model gave confine the search to those passages where one of them
    supports the sentence; marks of passages that do not exist mean nothing.

    Args:
        passages: in the order the prompt numbered them.
        vectors: with these, paraphrases are found too, also in the other language; without, words
            alone decide.
    """
    finder = _SourceFinder(question, passages, vectors)
    statements = []
    for text, marks, separator in _sentences(answer):
        statements.append(Statement(text, finder.find(_spoken(text), marks), separator))
    return Attribution(tuple(statements))


def strip_marks(text: str) -> str:
    """The text without citation marks such as `[2]`."""
    return _MARK.sub("", text).strip()


def _sentences(answer: str) -> list[tuple[str, frozenset[int], str]]:
    """Each sentence without marks, the numbers in its marks, and the white space after it.

    Marks after a sentence's end are its own, unless the answer begins with one: then they lead. A
    bare "Yes." is of one piece with the sentence after it.
    """
    found = split_sentences(answer)
    if not found:
        return []
    marks_lead = bool(_MARK.match(answer))
    texts: list[str] = []
    marks: list[set[int]] = []
    separators: list[str] = []
    for sentence, following in zip(found, [*found[1:], None], strict=True):
        leading, rest = ("", sentence.text) if marks_lead else _split_leading(sentence.text)
        if leading and marks:
            marks[-1] |= marks_of(leading)
        separator = answer[sentence.end : following.start] if following else ""
        text = strip_marks(rest)
        if not text:
            if separators:
                separators[-1] = separators[-1] or separator
            continue
        numbers = marks_of(rest)
        if texts and _BARE_REPLY.fullmatch(texts[-1]):
            texts[-1] += separators[-1] + text
            marks[-1] |= numbers
            separators[-1] = separator
            continue
        texts.append(text)
        marks.append(numbers)
        separators.append(separator)
    return [(t, frozenset(m), s) for t, m, s in zip(texts, marks, separators, strict=True)]


def _split_leading(text: str) -> tuple[str, str]:
    end = 0
    while match := _MARK.match(text, end):
        end = match.end()
    return text[:end], text[end:]


def marks_of(text: str) -> set[int]:
    """The numbers in the text's marks."""
    return {int(number) for mark in _MARK.findall(text) for number in re.findall(r"\d+", mark)}


def _spoken(text: str) -> str:
    """The sentence without the bare "Yes," it may begin with: that denies and affirms nothing more."""
    match = re.match(r"(?:yes|no|correct|是的?|不是|对|不对|否|没有)[,.!，。！]\s*", text, re.IGNORECASE)
    return text[match.end() :] if match and match.end() < len(text) else text


@dataclass(frozen=True)
class _Source:
    """A sentence of a passage, or two adjoining ones."""

    quote: Quote
    passage_number: int  # as the prompt numbers it, from 1
    context: str  # what its pronouns may point to

    def holds_any_of(self, others: Sequence[_Source]) -> bool:
        """Whether any of `others` stands within it."""
        mine = self.quote
        return any(
            mine.document_id == other.quote.document_id
            and mine.start <= other.quote.start
            and other.quote.end <= mine.end
            for other in others
        )

    @cached_property
    def words(self) -> frozenset[str]:
        return terms_of(self.quote.text)


class _SourceFinder:
    """Finds the quotes for one answer's statements."""

    def __init__(self, question: str, passages: Sequence[Passage], vectors: SentenceVectors | None) -> None:
        self._question = question
        self._question_words = terms_of(question)
        self._vectors = vectors
        orders_count = asks_about_orders(question)
        self._single, self._double = (
            [
                source
                for number, passage in enumerate(passages, 1)
                for source in _sources(passage, number, length=length, orders_count=orders_count)
            ]
            for length in (1, 2)
        )
        self._common_words = frozenset(
            word for p in passages for word in re.findall(r"\b[a-z][\w'’-]+", p.text)
        )

    def find(self, text: str, marks: frozenset[int]) -> tuple[Quote, ...]:
        """What supports `text`: one quote, several for several clauses, or none."""
        source = self._find_one(text, marks)
        if source is not None:
            return (source.quote,)
        return self._find_by_parts(text, marks)

    def _find_one(self, text: str, marks: frozenset[int]) -> _Source | None:
        if not terms_of(text):
            return None
        marked = self._search(text, marks) if marks else None
        return marked or self._search(text, None)

    def _search(self, text: str, marks: frozenset[int] | None) -> _Source | None:
        """By words in one sentence, by words in two, by meaning; in the marked passages only, or in all."""
        single, double = (
            [source for source in sources if marks is None or source.passage_number in marks]
            for sources in (self._single, self._double)
        )
        return (
            self._best_by_words(text, single)
            or (self._best_by_words(text, double) if len(terms_of(text)) >= FEW_WORDS else None)
            or self._best_by_vectors(text, single)
        )

    def _find_by_parts(self, text: str, marks: frozenset[int]) -> tuple[Quote, ...]:
        parts = [part for part in _PARTS.split(text) if terms_of(part)]
        if len(parts) < 2 or any(len(terms_of(part)) < FEW_WORDS - 1 for part in parts):
            return ()
        found = [self._find_one(part, marks) for part in parts]
        quotes = [source.quote for source in found if source is not None]
        return tuple(dict.fromkeys(quotes)) if len(quotes) == len(parts) else ()

    def _best_by_words(self, text: str, sources: Sequence[_Source]) -> _Source | None:
        words = terms_of(text)
        denied = self._nearly_copied_but_contradicted(text)
        telling = frozenset(word for word in words if not numbers_of(word).given)  # numbers are held apart
        scored = []
        for source in sources:
            coverage = len(telling & source.words) / len(telling) if telling else 1.0
            asked = len(self._question_words & source.words) / max(1, len(self._question_words))
            if (
                source.holds_any_of(denied)
                or coverage < MIN_COVERAGE
                or (len(words) < FEW_WORDS and asked < MIN_ASKED)
            ):
                continue
            scored.append((coverage + _QUESTION_WEIGHT * asked, source))
        scored.sort(key=lambda pair: -pair[0])
        return next((source for _, source in scored if not self._contradicts(text, source)), None)

    def _best_by_vectors(self, text: str, sources: Sequence[_Source]) -> _Source | None:
        if self._vectors is None or len(terms_of(text)) < FEW_WORDS:
            return None
        words, han = terms_of(text), is_han(text)
        likely = sorted(sources, key=lambda s: -len((words | self._question_words) & s.words))
        compared = likely[:MAX_COMPARED]
        leads = self._leads(text, [source.quote.text for source in compared])
        for i in np.argsort(-leads, kind="stable"):
            source = compared[int(i)]
            translated = is_han(source.quote.text) != han
            if leads[i] < (MIN_TRANSLATION_LEAD if translated else MIN_PARAPHRASE_LEAD):
                continue
            if not translated and len(words & source.words) < MIN_PARAPHRASE_COVERAGE * len(words):
                continue
            if not self._contradicts(text, source):
                return source
        return None

    def _leads(self, text: str, sources: Sequence[str]) -> NDArray[np.float32]:
        """How far each source is above unrelated sentences in its language, 1 being the same text."""
        assert self._vectors is not None
        embedded = self._vectors.embed([text, *sources])
        similarities = embedded[1:] @ embedded[0]
        background = self._vectors.embed_unbilled(BACKGROUND_SENTENCES) @ embedded[0]
        floors = np.array([background[background_slice(source)].mean() for source in sources])
        leads: NDArray[np.float32] = (similarities - floors) / np.maximum(1e-6, 1.0 - floors)
        return leads

    def _nearly_copied_but_contradicted(self, text: str) -> list[_Source]:
        """Sentences that `text` copies but for what makes it untrue: no neighbour makes up for that."""
        words = terms_of(text)
        return [
            source
            for source in self._single
            if len(words & source.words) >= NEAR_COPY * len(words) and self._contradicts(text, source)
        ]

    def _repeats_a_number(self, text: str, source: _Source) -> bool:
        """Whether a near copy has a number more often than its source, so in place of another."""
        words = terms_of(text)
        if len(words) < FEW_WORDS or len(words & source.words) < NEAR_COPY * len(words):
            return False
        has = numbers_of(source.quote.text).stated
        return any(count > has.get(n, count) for n, count in numbers_of(text).stated.items())

    def _contradicts(self, text: str, source: _Source) -> bool:
        return (
            not numbers_of(text).stated.keys() <= numbers_of(source.quote.text).given
            or self._repeats_a_number(text, source)
            or contradicts_by_negation(text, source.quote.text)
            or misnames(
                text,
                source.quote.text,
                context=f"{source.context} {self._question}",
                common_words=self._common_words,
            )
        )


_CONTEXT_SENTENCES = 2


def _sources(passage: Passage, number: int, *, length: int, orders_count: bool) -> list[_Source]:
    """Every `length` adjoining sentences of the passage, but for those that hold an order."""
    sentences = split_sentences(passage.text)
    place = f"{passage.document_title} {' '.join(passage.headings)}"
    before = [
        passage.text[sentences[max(0, i - _CONTEXT_SENTENCES)].start : sentence.start]
        for i, sentence in enumerate(sentences)
    ]
    orders = [is_order(sentence.text, before=before[i]) for i, sentence in enumerate(sentences)]
    found = []
    for first in range(len(sentences) - length + 1):
        if any(orders[first : first + length]) and not orders_count:
            continue
        start, end = sentences[first].start, sentences[first + length - 1].end
        quote = Quote(
            document_id=passage.document_id,
            document_name=passage.document_name,
            start=passage.start + start,
            end=passage.start + end,
            text=passage.text[start:end],
        )
        found.append(_Source(quote, number, f"{place} {before[first]}"))
    return found
