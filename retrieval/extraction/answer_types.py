"""What kind of thing a question asks for, and which sentences have one; by rules, in English and Chinese."""

from __future__ import annotations

import re
from typing import Literal

AnswerType = Literal["date", "number", "person", "place", "reason"]

_HAN_NUMERAL = "零〇一二三四五六七八九十百千万亿两几半"

# The first that matches decides: "how long" is a number before "how" is anything.
_ASKS: tuple[tuple[AnswerType, re.Pattern[str]], ...] = (
    (
        "date",
        re.compile(
            r"\bwhen\b|\b(?:what|which|in what|on what)\s+(?:\w+\s+)?(?:year|date|day|month|century|decade|time)\b"
            r"|何时|何年|何月|何日|什么时候|什么时间|什么日期|哪(?:一)?(?:年|天|月|日|个月)|几(?:月|号|点|时)|多久以前|时间是|日期",
            re.IGNORECASE,
        ),
    ),
    (
        "number",
        re.compile(
            r"\bhow\s+(?:many|much|long|far|high|tall|old|big|large|fast|often|deep|wide|heavy|great)\b"
            r"|\b(?:number|amount|percentage|proportion|share|rate|ratio|price|cost|population|size|age|total|value)\s+of\b"
            r"|\bwhat\s+(?:\w+\s+)?(?:percent\w*|fraction|number|amount|temperature|distance|score)\b"
            r"|多少|几(?!乎|何)|多(?:大|长|高|远|重|宽|深|久|快)|百分之|比例|占比|金额|数量|第几",
            re.IGNORECASE,
        ),
    ),
    ("person", re.compile(r"\bwho(?:m|se)?\b|谁|何人|哪(?:一)?(?:位|名|些人|个人)|什么人", re.IGNORECASE)),
    (
        "place",
        re.compile(
            r"\bwhere\b|\b(?:what|which)\s+(?:\w+\s+)?(?:city|country|state|place|town|region|county|location|continent)\b"
            r"|哪里|哪儿|何处|何地|什么地方|哪(?:个|座|一个)?(?:国家|城市|省|市|地区|地方|县|国|州)|位于哪",
            re.IGNORECASE,
        ),
    ),
    (
        "reason",
        re.compile(r"\bwhy\b|\bwhat\s+caused?\b|\breasons?\b|为什么|为何|原因|缘由|理由", re.IGNORECASE),
    ),
)

_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_HAS: dict[AnswerType, re.Pattern[str]] = {
    "date": re.compile(
        rf"\b(?:1[0-9]|20)\d\d(?:s|年)?(?!\d)|\b{_MONTH}\.?\s+\d|\b\d{{1,2}}(?:st|nd|rd|th)?\s+{_MONTH}\b"
        r"|\b\d{1,4}[-/]\d{1,2}[-/]\d{1,4}\b|\b\d{1,2}:\d\d\b|\b\d+(?:st|nd|rd|th)\s+century"
        r"|\b(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day\b|\b(?:century|decade|BCE?|AD)\b"
        rf"|[\d{_HAN_NUMERAL}×]\s*(?:年|月|日|号|世纪|年代|点钟|时许)|(?:公元|初|建安|贞观|康熙|乾隆)[前\d{_HAN_NUMERAL}]"
    ),
    "number": re.compile(
        rf"\d|[{_HAN_NUMERAL}]\s*(?:个|人|名|位|次|年|月|天|日|元|美元|倍|种|件|条|座|家|岁|米|里|斤|尺|丈|万|亿|成|公里|部|场|支|级|层)"
        r"|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozens?|hundreds?|thousands?|millions?"
        r"|billions?|half|third|quarter|twice|once|several|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety)\b",
        re.IGNORECASE,
    ),
    "person": re.compile(
        r"\b[A-Z][a-zà-öø-ÿ]+(?:\s+(?:[A-Z]\.|de|van|von|der|la|bin|al))*\s+[A-Z][a-zà-öø-ÿ]+"
        r"|\b(?:Mr|Mrs|Ms|Dr|Sir|King|Queen|President|Professor|Emperor)\b"
        r"|[\u4e00-\u9fff]{1,8}·[\u4e00-\u9fff]{1,8}"
        # A surname and a name, after no other character than one that such names follow. Surnames
        # that are everyday words (石, 高, 马) are left out.
        r"|(?:(?<![\u4e00-\u9fff])|(?<=[由是被和与及为向让]))[赵钱孙李周吴郑王冯陈卫蒋沈韩杨朱秦许何吕张孔曹严魏陶姜谢邹窦章苏潘葛范"
        r"彭郎鲁韦俞袁柳鲍唐薛雷贺倪汤罗郝傅康余孟黄萧尹姚邵汪毛戴宋庞熊项祝董梁杜阮蓝季贾郭梅林徐邱夏蔡田樊胡凌霍卢莫丁邓洪崔"
        r"龚程邢裴陆荣翁荀甄巫侯刘景叶][\u4e00-\u9fff]{1,2}"
        r"|(?:先生|女士|教授|博士|将军|皇帝|国王|总统|主席|院长|导演|作家|法官|原告|被告|某)"
    ),
    "place": re.compile(
        r"\b(?:in|at|near|from|to|of|into)\s+(?:the\s+)?[A-Z][a-z]+"
        r"|(?:位于|坐落|在|于|至|到)[\u4e00-\u9fff]{2,}|[\u4e00-\u9fff](?:省|市|县|区|州|国|镇|村|路|街|岛|山|河|湖|港|城)"
    ),
    "reason": re.compile(
        r"\b(?:because|since|due\s+to|therefore|thus|as\s+a\s+result|so\s+that|in\s+order\s+to|caused?|reasons?|owing|led\s+to)\b"
        r"|因为|由于|因此|所以|原因|导致|为了|以致|因而|从而|使得|故",
        re.IGNORECASE,
    ),
}


def asked_type(question: str) -> AnswerType | None:
    """What the question asks for; None where no rule can tell."""
    return next((kind for kind, pattern in _ASKS if pattern.search(question)), None)


def matches_type(text: str, kind: AnswerType | None, question: str) -> float:
    """1 where `text` has something of `kind` that the question does not say itself, -1 where it
    has none, 0 where nothing particular is asked for."""
    if kind is None:
        return 0.0
    said = question.casefold()
    found = any(match.group().casefold() not in said for match in _HAS[kind].finditer(text))
    return 1.0 if found else -1.0
