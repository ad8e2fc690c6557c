"""What kind of thing a question asks for, and whether a text names one."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

_MONTHS = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_HAN_NUMBER = r"[〇零一二两三四五六七八九十百千万亿数]+"
_MEASURE = (
    r"(?:个|名|位|人|次|年|岁|月|日|天|号|时|分|秒|元|块|米|里|寸|尺|丈|斤|两|吨|升|倍|成|度|级|层|座|所|家|间|条|支|艘|架|辆|部"
    r"|本|册|集|章|回|卷|首|场|届|种|类|项|件|把|合|骑|州|郡|县|户|口|世纪|公里|平方|公斤|千克|毫米|厘米)"
)
_NUMBER_WORD = (
    r"\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozen|twenty|thirty|forty|fifty"
    r"|sixty|seventy|eighty|ninety|hundred|thousand|million|billion|half|third|quarter|once|twice)s?\b"
)

_NUMBER = re.compile(rf"\d+(?:[.,]\d+)*|{_NUMBER_WORD}|{_HAN_NUMBER}{_MEASURE}|百分之|第{_HAN_NUMBER}", re.I)
_TIME = re.compile(
    rf"\b\d{{3,4}}s?\b|\d+\s*[年月日号时点:：]|\b{_MONTHS}\b|\b\d+(?:st|nd|rd|th)\b|centur|世纪|{_HAN_NUMBER}[年月日]"
    r"|monday|tuesday|wednesday|thursday|friday|saturday|sunday|\b(?:hours?|days?|weeks?|months?|years?)\b"
    r"|[春夏秋冬]季?|初年|末年|时期|年间|期间|星期|周[一二三四五六日]|上午|下午|凌晨|今日|当日|昨日|明日",
    re.I,
)
_NAME = re.compile(r"\b[A-ZÀ-Þ][\w'’.-]+")
_PLACE = re.compile(
    r"\b[A-ZÀ-Þ][\w'’.-]+|[省市县区州国岛镇乡村街路港湾洲洋海河湖山城府郡寺楼馆院校园站场厂]"
    r"|法院|公司|境内|家中|附近|[东西南北中]部"
)


@dataclass(frozen=True, slots=True)
class AnswerType:
    """`asked` finds it in a question, `named` finds what could be an answer in a text."""

    name: str
    asked: re.Pattern[str]
    named: re.Pattern[str]

    def answers_in(self, text: str) -> set[str]:
        """What in `text` could be the answer, case folded."""
        return {match.group().casefold() for match in self.named.finditer(text)}


_TYPES = (
    AnswerType(
        "time",
        re.compile(
            r"\bwhen\b|\b(?:what|which|in which) (?:year|date|day|month|time|century|decade)\b|\bhow long\b"
            r"|何时|何年|何日|什么时候|什么时间|哪一?[年天日月]|几[年月日号点]|多久|多长时间|(?:时间|日期|年份)(?:是|为|$|？)"
            r"|\bdate$",
            re.I,
        ),
        _TIME,
    ),
    AnswerType(
        "number",
        re.compile(
            r"\bhow (?:many|much|far|tall|high|old|big|large|fast|deep|wide|heavy|often)\b"
            r"|\bwhat (?:percent|percentage|number|proportion|share|amount|rate)\b"
            r"|多少|几[个名位人次岁元米斤所家条座种届场层集回章本]|多[大长高重宽深远]|第几"
            r"|(?:数量|人数|次数|比例|增长率|面积|高度|长度|重量|票房|价格|金额)(?:是|为|$|？)",
            re.I,
        ),
        _NUMBER,
    ),
    AnswerType(
        "place",
        re.compile(
            r"\bwhere\b|\b(?:what|which) (?:city|country|state|town|county|province|place|location)\b"
            r"|\blocation$|哪里|哪儿|何处|何地|什么地方|哪个?[省市县区州国]|哪个(?:城市|国家|地区|地方)|(?:地点|举办地)(?:是|为|$|？)",
            re.I,
        ),
        _PLACE,
    ),
    AnswerType("person", re.compile(r"\b(?:who|whom|whose)\b", re.I), _NAME),
)


def expected_type(question: str) -> AnswerType | None:
    """The first kind that `question` asks for; None where anything could answer."""
    return next((kind for kind in _TYPES if kind.asked.search(question)), None)


def names_answer(question: str) -> Callable[[str], bool]:
    """Whether a text names something of the kind asked for that the question does not itself name.

    Always true where the question asks for nothing in particular.
    """
    kind = expected_type(question)
    if kind is None:
        return lambda text: True
    known = kind.answers_in(question)
    return lambda text: not kind.answers_in(text) <= known
