"""Sentences about nothing in particular: where a similarity starts to mean something."""

from __future__ import annotations

import re

from retrieval.term_weights import terms_of

_HAN = re.compile(r"[\u3400-\u9fff]")
_LETTER = re.compile(r"[^\W\d_]")
_MIN_HAN_SHARE = 0.3

_ENGLISH_BACKGROUND = (
    "The meeting was moved to the following week because the room was not available.",
    "Add the flour slowly and stir until the dough no longer sticks to the bowl.",
    "Several species of birds return to the lake every spring.",
    "The second half of the match ended without a goal.",
    "Customers may return the goods within fourteen days.",
    "She put the letter on the table and opened the window.",
    "The temperature of the water must be measured twice a day.",
    "The old bridge was closed to traffic for repairs.",
)
_CHINESE_BACKGROUND = (
    "由于会议室被占用，会议推迟到下周举行。",
    "把面粉慢慢倒入碗中，搅拌到面团不再粘手为止。",
    "每年春天都有许多种鸟类飞回这个湖边。",
    "比赛的下半场双方都没有进球。",
    "顾客可以在十四天之内退货。",
    "她把信放在桌子上，然后打开了窗户。",
    "水的温度每天必须测量两次。",
    "那座旧桥因为维修而禁止通行。",
)
BACKGROUND_SENTENCES = (*_ENGLISH_BACKGROUND, *_CHINESE_BACKGROUND)
"""How alike does a model find what has nothing in common?

Similarities of one model lie between 0.7 and 1, those of another between 0 and 1, and a Chinese
question is nearer to any Chinese sentence than to an English one. Measured from here a similarity
means the same for all of them. Their words count too, so that "the" and 的 are common in a short text.
"""

BACKGROUND_TERMS = tuple(terms_of(sentence) for sentence in BACKGROUND_SENTENCES)


def is_han(text: str) -> bool:
    """Whether `text` is Chinese rather than of an alphabet: 30 % of its letters are Han."""
    if text.isascii():
        return False
    num_letters = len(_LETTER.findall(text))
    return num_letters > 0 and len(_HAN.findall(text)) >= _MIN_HAN_SHARE * num_letters


def background_slice(text: str) -> slice:
    """Which of `BACKGROUND_SENTENCES` are in the language of `text`."""
    num_english = len(_ENGLISH_BACKGROUND)
    return slice(num_english, None) if is_han(text) else slice(num_english)
