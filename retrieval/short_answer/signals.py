"""What tells the answer among the phrases of a sentence."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from retrieval.short_answer.candidates import Candidate, clauses
from retrieval.short_answer.words import Word
from retrieval.support.question_words import says_something
from retrieval.term_weights import TermWeights, terms_of

SIGNAL_NAMES = (
    "left", "right", "left_if_object", "right_if_subject", "left_by_place", "right_by_place",
    "repeats", "last_repeats", "has_head", "name", "joined", "tail", "clause", "length", "length_squared",
    "after_cue", "first", "last", "digits", "quoted", "after_preposition", "before_preposition",
    "before_copula", "after_verb", "before_verb", "clause_overlap", "rank",
)  # fmt: skip

_CUE = re.compile(
    r"(?:\b(?:is|are|was|were|be|called|named|known as|termed|as|by|became|become|include[sd]?|including)\s+(?:the\s|an?\s)?"
    r"|是|为|叫|叫做|称为|称作|名为|即|由|被|包括|有|称|成为)[\"“「『《‘]?$",
    re.IGNORECASE,
)
_CUE_WINDOW = 24
_SUBJECT_ASKED = re.compile(
    r"^\W*(?:who|what|which\s+\w+|what\s+\w+)\s+"
    r"(?!(?:is|are|was|were|do|does|did|can|could|has|have|had|will|would|s)\b)\w+|^(?:谁|什么|哪[个位家种些])",
    re.IGNORECASE,
)
_HEAD = re.compile(
    r"\b(?:what|which)\s+(?:(?:type|kind|name|sort)\s+of\s+)?(\w+)|(?:什么|哪[个位家种些座部款项场条支]?)([\u4e00-\u9fff]{1,4})",
    re.IGNORECASE,
)
_PREPOSITIONS = frozenset(
    ("in", "at", "of", "by", "to", "for", "from", "with", "on", "into", "as", "between", "than", "through", "under", "over")
)  # fmt: skip
_COPULAS = frozenset(
    ("is", "are", "was", "were", "be", "has", "have", "had", "can", "could", "will", "would", "may", "did", "does", "do")
)  # fmt: skip
_OPENING = frozenset('“"「『《‘')


@dataclass(frozen=True, slots=True)
class AskedWords:
    """What of a question its answer is told by.

    `head`: terms of the noun that "which" asks for. `is_subject`: whether the answer does what the
    question's verb says. `place`: where in the question the answer is left out, from 0 to 1.
    """

    weights: TermWeights
    head: frozenset[str]
    is_subject: bool
    place: float

    @classmethod
    def of(cls, question: str, weights: TermWeights) -> AskedWords:
        head = _HEAD.search(question)
        return cls(
            weights=weights,
            head=terms_of(head[1] or head[2]) if head else frozenset(),
            is_subject=_SUBJECT_ASKED.search(question) is not None,
            place=head.start() / len(question) if head else 0.5,
        )


class SentenceSignals:
    """Gives the signals of phrases of one sentence, the `rank`th from 0."""

    def __init__(self, asked: AskedWords, text: str, words: Sequence[Word], *, rank: int) -> None:
        self._asked = asked
        self._text = text
        self._words = words
        self._rank = rank
        weights = asked.weights.weights
        total = sum(weights.values()) or 1.0
        self._hits = [
            (i, max(weights.get(term, 0.0) for term in word.terms) / total)
            for i, word in enumerate(words)
            if not word.terms.isdisjoint(weights)
        ]
        self._clauses = [
            (start, end, asked.weights.overlap(_terms([w for w in words if start <= w.start < end])))
            for start, end in clauses(text)
        ]

    def of(self, candidate: Candidate) -> dict[str, float] | None:
        """Values by `SIGNAL_NAMES`; None where the phrase says nothing that the question does not."""
        inside = [i for i, w in enumerate(self._words) if w.start < candidate.end and w.end > candidate.start]
        repeats = self._repeated(inside)
        if repeats == 1.0:
            return None
        return (
            self._nearness(inside[0], inside[-1])
            | self._shape(candidate, inside)
            | self._surroundings(candidate, inside[0], inside[-1])
            | {"repeats": repeats, "rank": float(self._rank)}
        )

    def _repeated(self, inside: Sequence[int]) -> float:
        """The share of the words that say something which the question has too."""
        words = [self._words[i] for i in inside]
        content = [word for word in words if any(map(says_something, word.terms))] or words
        if not content:
            return 1.0
        return sum(not word.terms.isdisjoint(self._asked.weights.weights) for word in content) / len(content)

    def _nearness(self, first: int, last: int) -> dict[str, float]:
        left = sum(weight / math.sqrt(1 + first - i) for i, weight in self._hits if i < first)
        right = sum(weight / math.sqrt(1 + i - last) for i, weight in self._hits if i > last)
        asked = self._asked
        return {
            "left": left,
            "right": right,
            "left_if_object": 0.0 if asked.is_subject else left,
            "right_if_subject": right if asked.is_subject else 0.0,
            "left_by_place": asked.place * left,
            "right_by_place": asked.place * right,
        }

    def _shape(self, candidate: Candidate, inside: Sequence[int]) -> dict[str, float]:
        length = math.log(len(inside))
        text = self._text[candidate.start : candidate.end]
        terms = _terms([self._words[i] for i in inside])
        last_terms = self._words[inside[-1]].terms
        return {
            **{shape: float(candidate.shape == shape) for shape in ("name", "joined", "tail", "clause")},
            "length": length,
            "length_squared": length * length,
            "digits": float(any(character.isdigit() for character in text)),
            "quoted": float(candidate.start > 0 and self._text[candidate.start - 1] in _OPENING),
            "has_head": float(not self._asked.head.isdisjoint(terms)),
            "last_repeats": float(not last_terms.isdisjoint(self._asked.weights.weights)),
        }

    def _surroundings(self, candidate: Candidate, first: int, last: int) -> dict[str, float]:
        before, after = self._before(candidate, first), self._after(candidate, last)
        before_text = before.text.casefold() if before else ""
        after_text = after.text.casefold() if after else ""
        cue = _CUE.search(self._text[max(0, candidate.start - _CUE_WINDOW) : candidate.start])
        return {
            "after_cue": float(cue is not None),
            "first": float(first == 0),
            "last": float(after is None),
            "after_preposition": float(
                before_text in _PREPOSITIONS or (before is not None and before.tag == "p")
            ),
            "before_preposition": float(
                after_text in _PREPOSITIONS or (after is not None and after.tag == "p")
            ),
            "before_copula": float(after_text in _COPULAS),
            "after_verb": float(before is not None and before.tag.startswith("v")),
            "before_verb": float(after is not None and after.tag.startswith("v")),
            "clause_overlap": max(
                (overlap for start, end, overlap in self._clauses if start <= candidate.start < end),
                default=0.0,
            ),
        }

    def _before(self, candidate: Candidate, first: int) -> Word | None:
        """The word right before, none where punctuation is between."""
        if not first or self._text[self._words[first - 1].end : candidate.start].strip():
            return None
        return self._words[first - 1]

    def _after(self, candidate: Candidate, last: int) -> Word | None:
        if last + 1 == len(self._words) or self._text[candidate.end : self._words[last + 1].start].strip():
            return None
        return self._words[last + 1]


def _terms(words: Sequence[Word]) -> frozenset[str]:
    return frozenset(term for word in words for term in word.terms)
