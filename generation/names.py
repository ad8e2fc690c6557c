"""Names in a text, and whether a statement puts another name where its source has one.

English names are told by their capitals, Chinese ones by rjieba's tagger; Latin words inside
Chinese text are names too. Across scripts a name cannot be compared: `Neptune` is 海王星.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Set
from dataclasses import dataclass
from functools import lru_cache

import rjieba

from retrieval.support import is_han
from retrieval.term_weights import terms_of


@dataclass(frozen=True, slots=True)
class Names:
    """`certain` ones, and words that begin a sentence, whose capital may mean nothing."""

    certain: frozenset[str]
    initial: frozenset[str]

    @property
    def all(self) -> frozenset[str]:
        return self.certain | self.initial


_LATIN_WORD = re.compile(r"[A-Za-zÀ-ɏ][\w'’-]*")
_SENTENCE_START = re.compile(r"(?:^|[.!?。！？:：\n\"“‘(（*#-])\s*$")
_CHINESE_TAGS = frozenset({"nr", "nrt", "nrfg", "ns", "nt", "nz"})
_COMMON = frozenset(
    [
        "i",
        "the",
        "a",
        "an",
        "in",
        "on",
        "at",
        "by",
        "for",
        "from",
        "to",
        "of",
        "and",
        "or",
        "but",
        "it",
        "its",
        "this",
        "that",
        "these",
        "those",
        "there",
        "here",
        "he",
        "she",
        "they",
        "we",
        "you",
        "his",
        "her",
        "their",
        "our",
        "your",
        "as",
        "when",
        "while",
        "where",
        "after",
        "before",
        "since",
        "during",
        "because",
        "if",
        "although",
        "though",
        "with",
        "without",
        "under",
        "over",
        "between",
        "among",
        "about",
        "according",
        "also",
        "both",
        "each",
        "every",
        "some",
        "many",
        "most",
        "all",
        "no",
        "not",
        "only",
        "more",
        "one",
        "two",
        "three",
        "first",
        "second",
        "yes",
        "what",
        "who",
        "which",
        "how",
        "why",
        "then",
        "thus",
        "however",
        "therefore",
        "overall",
        "additionally",
        "finally",
        "instead",
        "both",
        "any",
        "another",
        "such",
        "other",
        "is",
        "are",
        "was",
        "were",
        "has",
        "have",
        "had",
        "do",
        "does",
        "did",
        "can",
        "could",
        "may",
        "might",
        "must",
        "shall",
        "should",
        "will",
        "would",
        "be",
        "mr",
        "mrs",
        "ms",
        "dr",
    ]
)
_PRONOUN = re.compile(
    r"\b(?:he|she|it|they|his|her|its|their|him|them|this|these|that|those|who|which)\b|[他她它其此该这那]",
    re.IGNORECASE,
)


@lru_cache(maxsize=1 << 13)
def names_of(text: str) -> Names:
    """The names in `text`, as they are written there."""
    certain: set[str] = set()
    initial: set[str] = set()
    plain = unicodedata.normalize("NFKC", text)
    chinese = is_han(plain)
    for match in _LATIN_WORD.finditer(plain):
        word = re.sub(r"['’]s$", "", match.group())
        if word.lower() in _COMMON or len(word) < 2:
            continue
        if chinese or any(letter.isupper() for letter in word[1:]):
            certain.add(word)
        elif word[0].isupper():
            begins = _SENTENCE_START.search(plain, 0, match.start())
            (initial if begins else certain).add(word)
    if chinese:
        certain |= {word for word, tag in rjieba.tag(plain) if tag in _CHINESE_TAGS and len(word) > 1}
    return Names(frozenset(certain), frozenset(initial))


def misnames(statement: str, source: str, *, context: str, common_words: Set[str]) -> bool:
    """Whether `statement` names somebody or something that `source` does not mean.

    A name that the source lacks may come from the context to which its pronouns point; not where
    the source names another instead, as in "London was chosen" for "Paris was chosen".

    Args:
        context: what stands before the source, headings and the document's title.
        common_words: words known to be written small, so that their capital at the beginning of a
            sentence makes no name of them.
    """
    if is_han(statement) != is_han(source):
        latin = names_of(statement).all if is_han(statement) else frozenset()
        return any(not _is_in(name, source) and not _is_in(name, context) for name in latin)
    unknown = _lacking(names_of(statement), source, common_words)
    if not unknown.all:
        return False
    if any(not _is_in(name, context) for name in unknown.certain):
        return True
    pronoun = _PRONOUN.search(source)
    if pronoun and any(not _is_in(name, context) for name in unknown.initial):
        return True
    return not pronoun and bool(_lacking(names_of(source), statement, common_words).all)


def _lacking(names: Names, text: str, common_words: Set[str]) -> Names:
    """Those that `text` does not hold."""
    return Names(
        frozenset(name for name in names.certain if not _is_in(name, text)),
        frozenset(
            name
            for name in names.initial
            if not name.endswith("ly") and name.lower() not in common_words and not _is_in(name, text)
        ),
    )


def _is_in(name: str, text: str) -> bool:
    return name.casefold() in unicodedata.normalize("NFKC", text).casefold() or terms_of(name) <= terms_of(
        text
    )
