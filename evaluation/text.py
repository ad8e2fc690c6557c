"""How texts are compared: folded to find one in another, cut into tokens to score answers."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

_CITATION_MARK = re.compile(r"\s*\[\d+\]")
_HAN = r"\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_KANA = r"\u3041-\u3096\u30a1-\u30fa\u30fc"
_TOKEN = re.compile(rf"[{_HAN}{_KANA}]|[^\s{_HAN}{_KANA}]+")
_CJK = re.compile(rf"[{_HAN}{_KANA}]")
_ARTICLES = frozenset({"a", "an", "the"})
_ASCII_SYMBOLS = frozenset("$+<=>^`|~")
"""With all punctuation they are what SQuAD's script drops (Python's `string.punctuation`)."""


def strip_citation_marks(text: str) -> str:
    """An answer without its `[n]`."""
    return _CITATION_MARK.sub("", text).strip()


def tokens_of(text: str) -> list[str]:
    """Words of Latin and other scripts, and single Chinese (and Japanese) characters.

    As SQuAD's script does for English: case, punctuation and articles count for nothing. Width does
    not count either (NFKC). Articles stay in a text with Chinese, where `方案A` is no `方案`, and
    where they are all there is.
    """
    normalized = unicodedata.normalize("NFKC", text).casefold()
    kept = "".join(character for character in normalized if not _is_punctuation(character))
    tokens: list[str] = _TOKEN.findall(kept)
    if _CJK.search(kept):
        return tokens
    return [token for token in tokens if token not in _ARTICLES] or tokens


def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character).startswith("P") or character in _ASCII_SYMBOLS


@dataclass(frozen=True, slots=True)
class FoldedText:
    """A text without white space, in NFKD; `offsets[i]` is where its character i began."""

    text: str
    offsets: tuple[int, ...]

    def spans_of(self, part: str) -> list[tuple[int, int]]:
        """Every span of the text as it was that folds to what `part` folds to."""
        wanted = fold(part)
        spans: list[tuple[int, int]] = []
        if not wanted:
            return spans
        found = self.text.find(wanted)
        while found >= 0:
            last = self.offsets[found + len(wanted) - 1]
            spans.append((self.offsets[found], last + 1))
            found = self.text.find(wanted, found + 1)
        return spans


def fold(text: str) -> str:
    """`text` in NFKD without white space and soft hyphens: line breaks and widths do not count."""
    return fold_with_offsets(text).text


def fold_with_offsets(text: str) -> FoldedText:
    """`fold`, and where each of its characters came from."""
    # Decomposed, since a character at a time nothing can be composed.
    folded: list[str] = []
    offsets: list[int] = []
    for i, character in enumerate(text):
        for part in unicodedata.normalize("NFKD", character):
            if not part.isspace() and part != "\xad":
                folded.append(part)
                offsets.append(i)
    return FoldedText("".join(folded), tuple(offsets))
