"""Which of the two first-class languages a text is written in."""

from __future__ import annotations

import re

_HAN_RANGES = r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
_HAN = re.compile(f"[{_HAN_RANGES}]")
_KANA = re.compile(r"[\u3040-\u30ff]")
_OTHER_WORD = re.compile(rf"[^\W\d_{_HAN_RANGES}]+")


def is_chinese(text: str) -> bool:
    """Whether Han characters are at least half of the text's Han characters and other words.

    A Chinese sentence that names things in Latin script (`GPT-4 和 BERT 有什么区别`) is Chinese, an
    English one that quotes a character (`What does 龙 mean?`) is not. Kana make it Japanese.
    """
    num_han = len(_HAN.findall(text))
    if not num_han or _KANA.search(text):
        return False
    return num_han >= len(_OTHER_WORD.findall(text))
