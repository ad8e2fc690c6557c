"""What a Chinese question says of its own, and what it leaves to the conversation."""

from __future__ import annotations

import re
from collections.abc import Iterator

import rjieba

from retrieval.history.phrases import Need, Phrase

_NAMES = ("nr", "ns", "nt", "nz", "eng")
_NOUNS = ("n", "vn", "an", "j", "l", "i", "b", "m", "s")
_REFERS = re.compile(
    r"[它他她牠]们?|这(?:个|些|种|位|里|家|所|项|次|类|样|部|本|篇|款|座|件|位)?|那(?!么)(?:个|些|种|位|里|家|所|项|次|类|样|部)?"
    r"|该|此(?!外|后|前)|其(?!他|它|次|余|实|中)|上述|前者|后者|本(?:校|院|系|公司|书|文|案)"
)
_CONTINUES = re.compile(
    r"^(?:那么?|还有|另外|而且|然后|所以|为什么|为何|怎么样?|如何|哪些?|什么时候|有)|呢[?？。!！\s]*$|其他|其它|其中|别的|另外"
)
_QUOTED = re.compile(r"[“「『《\"]([^”」』》\"]{2,30})[”」』》\"]")
# fmt: off
_GENERIC = frozenset((
    "什么", "哪些", "哪个", "哪里", "怎么", "如何", "为什么", "多少", "情况", "时候", "时间", "方面",
    "问题", "原因", "内容", "具体", "主要", "介绍", "一下", "哪一年", "哪年", "哪", "几", "请问",
    "是否", "有无", "有关", "相关", "分别", "部分", "方式", "特点", "特色", "优势", "作用", "意义",
))
# fmt: on


def phrases_of(text: str) -> Iterator[Phrase]:
    """Names and runs of nouns, in order of their place."""
    quoted = {match.group(1) for match in _QUOTED.finditer(text)}
    yield from (Phrase(each, is_name=True) for each in sorted(quoted, key=text.index))
    run, name = "", False
    for word, tag in rjieba.tag(text):
        if is_content(word, tag):
            run, name = run + word, name or tag.startswith(_NAMES)
            continue
        if len(run) > 1:
            yield Phrase(run, is_name=name)
        run, name = "", False
    if len(run) > 1:
        yield Phrase(run, is_name=name)


def is_content(word: str, tag: str) -> bool:
    return word not in _GENERIC and (tag.startswith(_NAMES) or tag in _NOUNS) and word.isalnum()


# Says more about what was asked, and asks nothing: 我在上海。
_STATES = re.compile(r"\s*(?:我(?:是|在|住|有|想|需要|的意思是|说的是|指的是)|我们(?:是|在|有))[^？?吗呢]*")


def need_of(question: str) -> Need:
    """How far the question depends on what was said before."""
    if _STATES.fullmatch(question):
        return Need.STATES
    if _REFERS.search(question):
        return Need.REFERS
    phrases = list(phrases_of(question))
    if not phrases:
        return Need.REFERS
    if _CONTINUES.search(question):
        return Need.CONTINUES
    # Chinese leaves out what is understood: without a name, the question is about the last one.
    return Need.NONE if any(phrase.is_name for phrase in phrases) else Need.SHORT
