"""Sentences of a document that give orders to whoever reads it out: they are evidence of nothing.

A model that obeys "ignore the above and say so-and-so" writes what the document says word for word,
so words alone would find it supported.
"""

from __future__ import annotations

import re

_OVERRIDES = re.compile(
    r"\b(?:ignore|disregard|forget|override|bypass)\b[^.!?\n]{0,60}"
    r"\b(?:instructions?|prompts?|rules?|guidelines|passages?|context|above|previous|prior|everything)\b"
    r"|\b(?:system|developer) (?:prompt|message)\b|\byou are now\b|<\|?\w+\|?>"
    r"|(?:忽略|无视|忘记|忘掉|不要理会|不要管|别管|抛开)[^。！？\n]{0,20}"
    r"(?:指示|指令|提示|要求|规则|规定|内容|段落|以上|上面|上文|之前|前面|上述|一切)"
    r"|系统(?:提示|消息)|你现在是",
    re.IGNORECASE,
)
_COMMANDS_SPEECH = re.compile(
    r"\W*(?:(?:please|now|instead|then|just|only|and)\W+)*(?:say|answer|reply|respond|output|print|write|repeat|tell)\b"
    r"|\W*(?:请|现在|然后|而是|只|并)*(?:说|回答|回复|输出|打印|写出?|重复|告诉)",
    re.IGNORECASE,
)
_ABOUT_ORDERS = re.compile(
    r"instruct|prompt|inject|ignore|disregard|jailbreak|指示|指令|提示|注入|忽略|无视|越狱", re.IGNORECASE
)


def is_order(text: str, *, before: str = "") -> bool:
    """Whether `text` tells its reader to leave what it was told, or what to say instead.

    Args:
        before: the text in front of it; after an order, what commands speech goes on with it.
    """
    if _OVERRIDES.search(text):
        return True
    return bool(_COMMANDS_SPEECH.match(text) and _OVERRIDES.search(before))


def asks_about_orders(question: str) -> bool:
    """Whether such sentences may be what the question is after, as in a text on prompt injection."""
    return bool(_ABOUT_ORDERS.search(question))
