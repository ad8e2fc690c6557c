"""Whether what a small model wrote says only what stood in what it was given."""

from __future__ import annotations

import re
import unicodedata

from core.language import is_chinese
from retrieval.history import chinese, english
from retrieval.text_analysis import analyze

_NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*")
_LATIN_WORD = re.compile(r"[A-Za-zÀ-ɏ][\w'’.&-]*")


def invented(text: str, source: str) -> tuple[str, ...]:
    """The numbers and names of `text` that do not occur in `source`, in order of their place."""
    known = _folded(source)
    numbers = {_plain_number(each) for each in _NUMBER.findall(known)}
    terms = frozenset(analyze(source))
    missing = [each for each in _NUMBER.findall(_folded(text)) if _plain_number(each) not in numbers]
    if is_chinese(text):
        missing += [
            phrase.text
            for phrase in chinese.phrases_of(text)
            if phrase.is_name and not terms.issuperset(analyze(phrase.text))
        ]
    missing += [
        word
        for word in _LATIN_WORD.findall(text)
        if english.is_content(word) and not terms.issuperset(analyze(word)) and _looks_named(word, text)
    ]
    return tuple(dict.fromkeys(missing))


def _looks_named(word: str, text: str) -> bool:
    """Capitalized; in Chinese text every Latin word is one that was named."""
    return is_chinese(text) or any(character.isupper() for character in word)


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _plain_number(number: str) -> str:
    return number.replace(",", "")
