"""The words that make a question a question."""

from __future__ import annotations

import re

from retrieval.term_weights import TermWeights
from retrieval.text_analysis import analyze

QUESTION_WORDS = frozenset(
    term
    for phrase in (
        "what which who whom whose when where why how many much long did does do is are was were be been",
        "the a an of in to for on at by with and or from as that this it its tell me please",
        "什么 谁 哪 哪个 哪些 哪里 哪儿 哪位 哪年 哪一年 哪一 何 何时 何地 何处 为何 如何 怎么 怎样 怎么样",
        "多少 几 几个 多久 多长 多大 是多少 是什么 是谁 叫 叫做 请问 请",
        "是 的 了 吗 呢 吧 在 于 为 有 由 被 把 和 与 及 其 该 个",
    )
    for term in analyze(phrase)
)
"""Terms of questions that a text has no need of to answer them."""

_ASKS = re.compile(r"[?？][\"'”’」』]?\s*$|^(?:请问|你们?知道)")


def content_weights(weights: TermWeights) -> TermWeights:
    """Without question words, which no text that answers repeats: the fewer the words of a question,
    the more they would count. All of them where nothing else is left.
    """
    content = {term: weight for term, weight in weights.weights.items() if term not in QUESTION_WORDS}
    return TermWeights(content) if content else weights


def is_question(sentence: str) -> bool:
    """Whether `sentence` asks itself: it may repeat a question word by word and does not answer it."""
    return _ASKS.search(sentence) is not None
