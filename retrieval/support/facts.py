"""The facts that a question asks for in one breath."""

from __future__ import annotations

import re

import rjieba

from retrieval.support.answer_types import asked_types
from retrieval.support.background import is_han
from retrieval.support.question_words import QUESTION_WORDS

_AND = frozenset({"和", "及"})  # 与 is a preposition as often, and 、 goes on
_TOGETHER = re.compile(r"之间|关系|区别|差别|差异|不同|相同|相差|总[共和计数]|合计|一共|共同|哪个更|比较")
_TITLE = re.compile(r"《[^》]*》|“[^”]*”")
_TITLE_MARK = "\uffff"  # stands for a title, so that no 和 inside it joins anything


def facts_asked(question: str) -> tuple[str, ...]:
    """`question` once for each of two things that it joins, without the other; itself where it joins none.

    香港和澳门的增长率是多少 asks for the growth of 香港 and for that of 澳门, and passages that have
    one of them answer half of it. In Chinese only; "and" joins too much in English.
    """
    question = question.replace(_TITLE_MARK, "")
    if not is_han(question) or _TOGETHER.search(question):
        return (question,)
    if "分别" not in question and not asked_types(question):
        return (question,)
    words = _words(question)
    middle = next((i for i, word in enumerate(words) if word in _AND and 0 < i < len(words) - 1), None)
    if middle is None or not QUESTION_WORDS.isdisjoint((words[middle - 1], words[middle + 1])):
        return (question,)
    left = middle - 2 if words[middle - 1] == "年" and middle > 1 else middle - 1
    right = middle + 2 if words[middle + 2 : middle + 3] == ["年"] else middle + 1
    return (
        "".join(words[:middle] + words[right + 1 :]),
        "".join(words[:left] + words[middle + 1 :]),
    )


def _words(question: str) -> list[str]:
    """Its words in order, each title as one."""
    titles = iter(_TITLE.findall(question))
    return [
        next(titles) if word == _TITLE_MARK else word
        for word in rjieba.cut(_TITLE.sub(_TITLE_MARK, question))
    ]
