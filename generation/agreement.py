"""How far several answers to one question say the same, in English and Chinese."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from generation.names import names_of
from generation.negation import contradicts_by_negation
from generation.numerals import numbers_of
from retrieval.sentence_vectors import SentenceVectors
from retrieval.short_answer.words import words_of
from retrieval.support import BACKGROUND_SENTENCES, background_slice, is_han
from retrieval.support.question_words import says_something
from retrieval.term_weights import terms_of

MIN_SHARED = 0.5
"""Share of the fewer words of two answers, those of the question aside, that both must have."""

MIN_FRAME = 0.45
"""Answers so much the same word by word say different things where they differ in a word."""

MIN_LEAD = 0.6
MIN_TRANSLATED_LEAD = 0.45
"""How much more alike than unrelated sentences, on the way to identity, answers in other words are."""

_NAME_WORDS = 3
_NUMERAL = re.compile("[0-9][0-9.,:]*|[零一二三四五六七八九〇十百千万亿两]+")
_CERTAIN = 2.0  # letter by letter: nothing is more alike


@dataclass(frozen=True, slots=True)
class Agreement:
    """Answers grouped by what they say; indices are into the answers given.

    `clusters` come largest first, each in the order of the answers. `chosen` is the answer of the
    first cluster that is most like the others in it; `score` is that cluster's share of all.
    """

    clusters: tuple[tuple[int, ...], ...]
    chosen: int
    score: float


def agreement_of(answers: Sequence[str], question: str, *, vectors: SentenceVectors) -> Agreement:
    """Which of the answers say the same, and what most of them say.

    Two agree if they are the same but for case and punctuation, or share most words that are not
    the question's, or are alike to the embedder; and never if they state other numbers, deny what
    the other affirms, or name another. A group is of answers that all agree with one another, made
    from the most alike pairs on. On 50 pairs written for it (tests/answer_pairs.py), half of them
    alike, multilingual-e5-small finds 19 of 25 that say the same, and takes 1 of 25 for it that does
    not: where it errs, it rather keeps answers apart. Of groups of one size the more alike counts, then the earlier.

    Args:
        answers: at least one; an empty one stands for a refusal.
    """
    likeness = _likeness(answers, question, vectors)
    clusters = _grouped(likeness)

    def inner(cluster: Sequence[int]) -> float:
        return float(likeness[np.ix_(cluster, cluster)].mean())

    ordered = sorted(clusters, key=lambda cluster: (-len(cluster), -inner(cluster), cluster[0]))
    first = list(ordered[0])
    chosen = first[int(likeness[np.ix_(first, first)].sum(axis=1).argmax())]
    return Agreement(tuple(ordered), chosen, len(first) / len(answers))


def _grouped(likeness: NDArray[np.float64]) -> list[tuple[int, ...]]:
    """Complete linkage: whatever is in a group agrees with all else in it."""
    groups: dict[int, tuple[int, ...]] = {i: (i,) for i in range(len(likeness))}
    pairs = combinations(range(len(likeness)), 2)
    for i, j in sorted(pairs, key=lambda pair: (-likeness[pair], pair)):
        if likeness[i, j] <= 0 or groups[i] == groups[j]:
            continue
        if (likeness[np.ix_(groups[i], groups[j])] > 0).all():
            merged = tuple(sorted(groups[i] + groups[j]))
            groups |= dict.fromkeys(merged, merged)
    return sorted(set(groups.values()))


def _likeness(
    answers: Sequence[str], question: str, vectors: SentenceVectors
) -> NDArray[np.float64]:  # (num_answers, num_answers); 0: they do not agree
    plain = [_plain(answer) for answer in answers]
    leads = _leads([answer for answer in dict.fromkeys(answers) if answer], vectors)
    found = np.full((len(answers), len(answers)), _CERTAIN)
    for i, j in combinations(range(len(answers)), 2):
        if plain[i] == plain[j]:
            continue
        lead = leads.get((answers[i], answers[j]), 0.0)
        found[i, j] = found[j, i] = _alike(answers[i], answers[j], question, lead)
    return found


def _alike(one: str, other: str, question: str, lead: float) -> float:
    """How alike two different answers are, above 0 if they agree."""
    if not one or not other or _contradict(one, other, question):
        return 0.0
    shared = _shared(one, other, question)
    translated = is_han(one) != is_han(other)
    agree = shared >= MIN_SHARED or lead >= (MIN_TRANSLATED_LEAD if translated else MIN_LEAD)
    return max(shared, lead, 1e-6) if agree else 0.0


def _contradict(one: str, other: str, question: str) -> bool:
    asked = numbers_of(question).given
    ours, theirs = numbers_of(one), numbers_of(other)
    stated, told = (
        Counter({number: count for number, count in numbers.stated.items() if number not in asked})
        for numbers in (ours, theirs)
    )
    if not (stated <= told or told <= stated) or (not stated) != (not told):
        return True
    if _is_reworded_in_place(one, other, question):
        return True
    if contradicts_by_negation(one, other) or contradicts_by_negation(other, one):
        return True
    # Across scripts a name cannot be compared; where one names nothing, it may mean the same.
    return is_han(one) == is_han(other) and bool(
        _names_besides(one, other, question) and _names_besides(other, one, question)
    )


def _is_reworded_in_place(one: str, other: str, question: str) -> bool:
    """Whether one is the other with something else in the place of something.

    "Sleep improves memory" and "exercise improves memory" are very much alike to any embedder.
    """
    ours, theirs = ([word.text.casefold() for word in words_of(text)] for text in (one, other))
    matcher = SequenceMatcher(a=ours, b=theirs, autojunk=False)
    if matcher.ratio() < MIN_FRAME:
        return False
    asked = terms_of(question)
    return any(
        kind == "replace" and _says(ours[a:b], asked) and _says(theirs[c:d], asked)
        for kind, a, b, c, d in matcher.get_opcodes()
    )


def _says(words: Sequence[str], asked: Set[str]) -> bool:
    """Whether they say anything that the question does not; numbers are compared as values elsewhere."""
    text = _NUMERAL.sub(" ", " ".join(words))
    return any(says_something(term) for term in terms_of(text) - asked)


def _names_besides(text: str, other: str, question: str) -> set[str]:
    """Names in `text` that neither `other` nor the question has. A capital at a sentence's beginning
    makes one only of an answer of a few words, which is likely all name."""
    names = names_of(text)
    found = names.certain | (names.initial if len(text.split()) <= _NAME_WORDS else frozenset())
    known = unicodedata.normalize("NFKC", f"{other}\n{question}").casefold()
    return {name for name in found if name.casefold() not in known}


def _shared(one: str, other: str, question: str) -> float:
    """The share of the shorter answer's words, the question's aside, that the longer one has too."""
    asked = _content(question)
    ours, theirs = _content(one) - asked, _content(other) - asked
    fewer = min(len(ours), len(theirs))
    return len(ours & theirs) / fewer if fewer else 0.0


def _content(text: str) -> set[str]:
    """Terms that say something, numbers as values however they are written."""
    words = {term for term in terms_of(_NUMERAL.sub(" ", text)) if says_something(term)}
    return words | {f"#{number}" for number in numbers_of(text).stated}


def _leads(answers: Sequence[str], vectors: SentenceVectors) -> dict[tuple[str, str], float]:
    """For each pair how much more alike than unrelated sentences it is; identity is 1."""
    if len(answers) < 2:
        return {}
    embedded = vectors.embed(answers).astype(np.float64)
    background = embedded @ vectors.embed_unbilled(BACKGROUND_SENTENCES).T.astype(np.float64)
    similarity = embedded @ embedded.T
    leads: dict[tuple[str, str], float] = {}
    for i, j in combinations(range(len(answers)), 2):
        floor = (
            background[i, background_slice(answers[j])].mean()
            + background[j, background_slice(answers[i])].mean()
        ) / 2
        lead = float((similarity[i, j] - floor) / max(1.0 - floor, 1e-9))
        leads[answers[i], answers[j]] = leads[answers[j], answers[i]] = lead
    return leads


def _plain(text: str) -> str:
    """Letters and digits alone, without case and width."""
    return "".join(c for c in unicodedata.normalize("NFKC", text).casefold() if c.isalnum())
