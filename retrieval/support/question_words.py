"""The words that make a question a question."""

from __future__ import annotations

import re
from functools import lru_cache

import rjieba

from retrieval.term_weights import TermWeights
from retrieval.text_analysis import analyze

QUESTION_WORDS = frozenset(
    term
    for phrase in (
        "what which who whom whose when where why how many much long did does do is are was were be been",
        "the a an of in to for on at by with and or from as that this it its tell me please",
        "describe explain list give show say summarize summarise briefly own words using can could you",
        "name named called kind type time date year place happen according",
        "什么 谁 哪 哪个 哪些 哪里 哪儿 哪位 哪年 哪一年 哪一 何 何时 何地 何处 为何 如何 怎么 怎样 怎么样",
        "多少 几 几个 多久 多长 多大 是多少 是什么 是谁 叫 叫做 请问 请",
        "是 的 了 吗 呢 吧 在 于 为 有 由 被 把 和 与 及 其 该 个 分别 是否 怎么办 因何 如果 大概 大约 具体 根据",
        "介绍 说明 解释 列出 列举 简述 描述 讲述 谈谈 概括 自己 的话",
        "名字 名称 时间 日期 时候 年份 地点 地方 哪些地方 原因 理由 东西 事情 情况 结果 方式",
    )
    for term in analyze(phrase)
)
"""Terms of questions that a text has no need of to answer them."""

_ASKS = re.compile(r"[?？][\"'”’」』]?\s*$|^(?:请问|你们?知道)")
_HAN = re.compile(r"[\u3400-\u9fff]+")
_FUNCTION_CHARACTERS = frozenset(
    "谁什么哪几多少何怎吗呢吧的地得了着过是在于为有由被把和与及其该这那此每位个些让给对从到向以而所曾将会能可要也都还又再最很不没"
    "上中下里内外后前时第年月日姓叫名"
)


def content_weights(weights: TermWeights) -> TermWeights:
    """Without question words, which no text that answers repeats: the fewer the words of a question,
    the more they would count. All of them where nothing else is left.
    """
    content = {term: weight for term, weight in weights.weights.items() if says_something(term)}
    return TermWeights(content) if content else weights


@lru_cache(maxsize=1 << 12)
def says_something(term: str) -> bool:
    """Whether a text that answers could be expected to repeat it.

    A single Chinese character is not, nor is a bigram of no word with a character that joins words:
    the 谁在 of 谁在何时.
    """
    if term in QUESTION_WORDS:
        return False
    if _HAN.fullmatch(term) is None or len(term) > 2:
        return True
    return len(term) == 2 and (_FUNCTION_CHARACTERS.isdisjoint(term) or len(list(rjieba.cut(term))) == 1)


def is_question(sentence: str) -> bool:
    """Whether `sentence` asks itself: it may repeat a question word by word and does not answer it."""
    return _ASKS.search(sentence) is not None
