"""From text to the terms that BM25 counts; the same for documents and questions."""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

import rjieba
import snowballstemmer

MAX_TERM_CHARACTERS = 64

_HAN = r"\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_KANA = r"\u3041-\u3096\u30a1-\u30fa\u30fc"
_HANGUL = r"\u1100-\u11ff\uac00-\ud7a3"
_RUNS = re.compile(
    rf"(?P<han>[{_HAN}]+)|(?P<kana>[{_KANA}]+)|(?P<hangul>[{_HANGUL}]+)"
    r"|(?P<number>\d+(?:[.,:]\d+)*)"
    rf"|(?P<word>(?:(?![{_HAN}{_KANA}{_HANGUL}\d_])\w)+"
    rf"(?:['’](?:(?![{_HAN}{_KANA}{_HANGUL}\d_])\w)+)*)"
)
_THOUSANDS = re.compile(r",(?=\d{3}(?:\D|$))")
_LATIN = re.compile(r"[a-zà-öø-ÿā-ɏ'’]+")

_local = threading.local()  # a Snowball stemmer keeps its word in itself: one a thread


def analyze(text: str) -> list[str]:
    """Terms of `text` in order: NFKC, case folded, cut by script, never holding white space.

    Latin words become English Snowball stems; Han becomes rjieba's search words, and bigrams
    where the dictionary knows only single characters (names, new words); kana and hangul become
    bigrams; numbers stay whole (`1,234` as `1234`); words of other scripts stay as they are.
    """
    terms: list[str] = []
    for match in _RUNS.finditer(unicodedata.normalize("NFKC", text).casefold()):
        run, script = match.group(), match.lastgroup
        if script == "word":
            terms.append(_stem(run))
        elif script == "number":
            terms.append(_THOUSANDS.sub("", run))
        elif script == "han":
            terms.extend(_han_terms(run))
        else:
            terms.extend(_bigrams(run))
    return [term[:MAX_TERM_CHARACTERS] for term in terms]


def _han_terms(run: str) -> Iterator[str]:
    """Search words, and the bigrams of every stretch that fell into single characters."""
    yield from rjieba.cut_for_search(run)
    yield from _bigrams_of_unknown(run)


def _bigrams_of_unknown(run: str) -> Iterator[str]:
    stretch = ""
    for word in rjieba.cut(run):
        if len(word) == 1:
            stretch += word
            continue
        if len(stretch) > 1:
            yield from _bigrams(stretch)
        stretch = ""
    if len(stretch) > 1:
        yield from _bigrams(stretch)


def _bigrams(run: str) -> list[str]:
    return [run[i : i + 2] for i in range(len(run) - 1)] or [run]


def _stem(word: str) -> str:
    return _stem_latin(word) if _LATIN.fullmatch(word) else word


@lru_cache(maxsize=1 << 16)
def _stem_latin(word: str) -> str:
    stemmer = getattr(_local, "stemmer", None)
    if stemmer is None:
        stemmer = _local.stemmer = snowballstemmer.stemmer("english")
    stem: str = stemmer.stemWord(word.replace("’", "'"))
    return stem
