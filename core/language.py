"""Which of the two first-class languages a text is written in."""

from __future__ import annotations

import re

_HAN = re.compile(r"[㐀-䶿一-鿿豈-﫿\U00020000-\U0003134f]")
_KANA = re.compile(r"[぀-ヿ]")
_OTHER_WORD = re.compile(r"[^\W\d_㐀-䶿一-鿿豈-﫿\U00020000-\U0003134f]+")


def is_chinese(text: str) -> bool:
    """Whether Han characters are at least half of the text's Han characters and other words.

    A Chinese sentence that names things in Latin script (`GPT-4 和 BERT 有什么区别`) is Chinese, an
    English one that quotes a character (`What does 龙 mean?`) is not. Kana make it Japanese.
    """
    num_han = len(_HAN.findall(text))
    if not num_han or _KANA.search(text):
        return False
    return num_han >= len(_OTHER_WORD.findall(text))
