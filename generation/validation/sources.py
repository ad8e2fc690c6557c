"""Where in the passages a value is stated."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from generation.citations import Quote
from generation.dates import plain_date
from generation.numerals import numbers_of
from generation.orders import asks_about_orders, is_order
from retrieval.passages import Passage
from retrieval.sentences import split_sentences
from retrieval.short_answer import phrases
from retrieval.term_weights import terms_of

_MAX_DATE_CHARACTERS = 40
_CONTEXT_WEIGHT = 0.4  # of words in the sentence before, to which "it" may point


@dataclass(frozen=True)
class _Sentence:
    quote: Quote
    context: str

    @cached_property
    def plain(self) -> str:
        return plain_text(self.quote.text)

    @cached_property
    def terms(self) -> frozenset[str]:
        return terms_of(self.quote.text)

    @cached_property
    def context_terms(self) -> frozenset[str]:
        return terms_of(self.context)

    @cached_property
    def numbers(self) -> frozenset[str]:
        return numbers_of(self.quote.text).given

    @cached_property
    def dates(self) -> frozenset[str]:
        """As `plain_date` has them; a date says its year and its month too."""
        text = self.quote.text
        found = {plain_date(text[start:end]) for start, end in phrases.times(text)}
        return frozenset(d[:length] for d in found if d for length in (4, 7, 10) if len(d) >= length)


class SourceIndex:
    """The sentences of some passages, to look values up in.

    Sentences that give orders to whoever reads them state nothing, unless the question is about such.
    """

    def __init__(self, question: str, passages: Sequence[Passage]) -> None:
        self._question_terms = terms_of(question)
        self._orders_count = asks_about_orders(question)
        self._sentences = [s for passage in passages for s in self._of_passage(passage)]

    def find(self, value: str, *, hint: str = "", is_number: bool = False) -> Quote | None:
        """The sentence that states `value`: verbatim, the same number, or the same date.

        Of several the one with most words of `hint` and of the question, then the first.
        """
        stating = [s for s in self._sentences if states(s, value, is_number=is_number)]
        return self._best(stating, hint)

    def evidence(self, hint: str) -> Quote | None:
        """The sentence that speaks most of the question and of `hint`; None where none does at all."""
        wanted = terms_of(hint) | self._question_terms
        speaking = [s for s in self._sentences if s.terms & wanted]
        return self._best(speaking, hint)

    def _best(self, sentences: Sequence[_Sentence], hint: str) -> Quote | None:
        wanted = terms_of(hint)
        if not sentences:
            return None

        def fit(sentence: _Sentence) -> float:
            return _overlap(sentence, wanted) + 0.5 * _overlap(sentence, self._question_terms)

        return max(sentences, key=fit).quote

    def _of_passage(self, passage: Passage) -> list[_Sentence]:
        found, before = [], ""
        for sentence in split_sentences(passage.text):
            if self._orders_count or not is_order(sentence.text, before=before):
                quote = Quote(
                    passage.document_id,
                    passage.document_name,
                    passage.start + sentence.start,
                    passage.start + sentence.end,
                    sentence.text,
                )
                found.append(_Sentence(quote, before))
            before = sentence.text
        return found


def _overlap(sentence: _Sentence, wanted: frozenset[str]) -> float:
    if not wanted:
        return 0.0
    own = sentence.terms & wanted
    return (len(own) + _CONTEXT_WEIGHT * len((sentence.context_terms & wanted) - own)) / len(wanted)


def states(sentence: _Sentence, value: str, *, is_number: bool = False) -> bool:
    """Whether the sentence has the value: as a number, as a date, or letter by letter."""
    if is_number:
        return plain_number(value) in sentence.numbers
    wanted_date = plain_date(value) if len(value) <= _MAX_DATE_CHARACTERS else None
    if wanted_date is not None and wanted_date in sentence.dates:
        return True
    plain = plain_text(value)
    if not plain:
        return False
    # A word is found as a word: "art" is not stated by "part".
    edge_before = r"(?<![a-z0-9])" if plain[0].isascii() and plain[0].isalnum() else ""
    edge_after = r"(?![a-z0-9])" if plain[-1].isascii() and plain[-1].isalnum() else ""
    return re.search(f"{edge_before}{re.escape(plain)}{edge_after}", sentence.plain) is not None


def plain_text(text: str) -> str:
    """For comparing: one width, one case, white space as single blanks."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def plain_number(text: str) -> str:
    """`numbers_of`'s form of a JSON number; the sign is left out, as texts write it in many ways."""
    try:
        value = f"{abs(float(text)):.10f}" if "e" in text.lower() else text.lstrip("-+")
    except (ValueError, OverflowError):
        return text
    return value.rstrip("0").rstrip(".") if "." in value else value.lstrip("0") or "0"
