"""What kind of thing a question asks for, and whether a sentence names one that the question does not."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import rjieba

from retrieval.support.background import is_han
from retrieval.support.quantities import NUMBER, TIME, UNSAYING_NUMBER, UnitFit, unit_fit

AnswerType = Literal["time", "place", "number", "person"]

_MAX_TYPES = 2  # "when and where": two; more is a misreading

_END = r"(?:分别)?(?:是|为|有|$|？|\?)"
_ASKS: dict[AnswerType, re.Pattern[str]] = {
    "time": re.compile(
        r"\bwhen\b|\b(?:what|which|in which)\s+(?:\w+\s+)?(?:year|date|day|month|time|century|decade)\b"
        r"|\bhow long\b|\bdate\b|何时|何年|何日|什么时候|什么时间|哪一?[年天日月]|几[年月日号点]|多久|多长时间|时间|日期|年份",
        re.IGNORECASE,
    ),
    "place": re.compile(
        r"\bwhere\b|\b(?:what|which)\s+(?:\w+\s+)?(?:city|country|state|town|county|province|place|location)\b"
        r"|\blocation$|哪里|哪儿|何处|何地|什么地方|在哪|哪个?[省市县区州国]|哪个(?:城市|国家|地区|地方)|地点|举办地|起点|终点",
        re.IGNORECASE,
    ),
    "number": re.compile(
        r"\bhow\s+(?:many|much|far|tall|high|old|big|large|fast|deep|wide|heavy|often)\b"
        r"|\bwhat\s+(?:\w+\s+)?(?:percent\w*|number|proportion|share|amount|rate|revenue|population)\b"
        r"|多少|几[个名位人次岁元米斤所家条座种届场层集回章本]|多[大长高重宽深远]|第几"
        r"|(?:数量|人数|次数|比例|率|面积|高度|长度|重量|票房|价格|金额|产量|交付量|销量|营收|收入|震级|点数|GDP|售价|增长|排名|成绩)"
        + _END,
        re.IGNORECASE,
    ),
    "person": re.compile(
        r"\b(?:who|whom|whose)\b|谁|哪一?(?:位|名|些人)|何人|什么人"
        r"|(?:主演|导演|编剧|主角|冠军|亚军|季军|火炬手|创始人|作者|演员|人物|总统|主席|市长|首相|男主|女主|配角)"
        + _END,
        re.IGNORECASE,
    ),
}

_DIGITS = re.compile(r"\d+(?:[.,]\d+)*")
_CAPITALIZED = re.compile(
    r"\b[A-ZÀ-Þ][\w'’.-]*(?:[ -](?:of |the |de |van |von |la |and )?[A-ZÀ-Þ0-9][\w'’.-]*)*"
)
_QUOTED = re.compile(r"(?<=[“\"「『《‘])[^”\"」』》’]{1,30}(?=[”\"」』》’])")
_FOREIGN = re.compile(r"[\u3400-\u9fff]{1,8}(?:·[\u3400-\u9fff]{1,8})+")
_PLACE_END = re.compile(r".[省市县区州国镇村路街岛山河湖港城馆场站]$")
_PERSON_TAGS = frozenset({"nr", "nrt", "nrfg", "nz", "nt", "ns"})  # teams and countries win too
_PLACE_TAGS = frozenset({"ns", "nt", "nz"})
_UNKNOWN_TAGS = frozenset({"n", "v", "zg", "d", "a"})  # what the dictionary takes a rare name for
_SURNAMES = frozenset(
    "赵钱孙李周吴郑王冯陈卫蒋沈韩杨朱秦许何吕张孔曹严魏陶姜谢邹窦章苏潘葛范彭郎鲁韦俞袁柳鲍唐薛雷贺倪汤罗郝傅康余孟黄萧尹姚邵汪毛戴宋庞熊项祝董"
    "梁杜阮蓝季贾郭梅林徐邱夏蔡田樊胡凌霍卢莫丁邓洪崔龚程邢裴陆荣翁荀甄侯刘景叶高马殷隋舒曾海童"
)


def asked_types(question: str) -> tuple[AnswerType, ...]:
    """What `question` asks for, at most two kinds; empty where anything could answer."""
    return tuple(kind for kind, asks in _ASKS.items() if asks.search(question))[:_MAX_TYPES]


@dataclass(frozen=True, slots=True)
class AnswerFinder:
    """Looks for what could answer one question. Made by `of`."""

    question: str
    types: tuple[AnswerType, ...]
    numbers: frozenset[str]

    @classmethod
    def of(cls, question: str) -> AnswerFinder:
        question = unicodedata.normalize("NFKC", question)
        return cls(question.casefold(), asked_types(question), frozenset(_DIGITS.findall(question)))

    def match(self, sentence: str) -> float:
        """1 where `sentence` names something of the kind asked for that the question does not name itself.

        0 where nothing in particular is asked for, -1 where nothing is named. A number counts 1 in
        the unit asked for, 0.5 where no unit is known, -0.5 in another.
        """
        sentence = unicodedata.normalize("NFKC", sentence)
        return max((self._match(sentence, kind) for kind in self.types), default=0.0)

    def _match(self, sentence: str, kind: AnswerType) -> float:
        named = (
            (text, following)
            for text, following in _names(sentence, kind)
            if text.casefold() not in self.question
        )
        if kind == "number":
            fits = (unit_fit(self.question, text + following) for text, following in named)
            return max((_WORTH[fit] for fit in fits), default=-1.0)
        if kind == "time":
            return 1.0 if any(self._is_new_time(text) for text, _ in named) else -1.0
        return 1.0 if any(True for _ in named) else -1.0

    def _is_new_time(self, text: str) -> bool:
        digits = _DIGITS.findall(text)
        return not digits or not self.numbers.issuperset(digits)


_WORTH: dict[UnitFit, float] = {"right": 1.0, "unknown": 0.5, "wrong": -0.5}


def _names(sentence: str, kind: AnswerType) -> Iterator[tuple[str, str]]:
    """What in `sentence` is of that kind, each with the character after it."""
    if kind == "time":
        yield from _found(TIME, sentence)
    elif kind == "number":
        yield from (pair for pair in _found(NUMBER, sentence) if not UNSAYING_NUMBER.match(pair[0]))
    else:
        yield from _found(_CAPITALIZED, sentence)
        if is_han(sentence):
            yield from _found(_FOREIGN, sentence)
            if kind == "person":
                yield from _found(_QUOTED, sentence)
            yield from ((word, "") for word, tag in rjieba.tag(sentence) if _is_name(word, tag, kind))


def _found(pattern: re.Pattern[str], sentence: str) -> Iterator[tuple[str, str]]:
    for match in pattern.finditer(sentence):
        text = match.group().strip()
        if text:
            yield text, sentence[match.end() : match.end() + 1]


def _is_name(word: str, tag: str, kind: AnswerType) -> bool:
    if kind == "place":
        return tag in _PLACE_TAGS or _PLACE_END.search(word) is not None
    if len(word) < 2:
        return False
    return tag in _PERSON_TAGS or (tag in _UNKNOWN_TAGS and word[0] in _SURNAMES)
