"""Times, numbers and their units in English and Chinese text."""

from __future__ import annotations

import re
from typing import Literal

UnitFit = Literal["right", "unknown", "wrong"]

_HAN_DIGITS = "〇零一二三四五六七八九十百千万亿两几半数"
# 三点五十分 is a time of day, and 一点一点 no number at all.
_HAN_DECIMAL = rf"[{_HAN_DIGITS}]+点[〇零一二三四五六七八九]+(?![〇零一二三四五六七八九十百点])"
_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_UNIT = (
    r"(?:%|％|‰|个百分点|[万亿千百十]*(?:美元|欧元|英镑|港元|日元|元|人民币|人次|人|名|位|个|次|年|岁|月|天|日|号|时|小时|分钟|分|秒"
    r"|块|公里|千米|米|平方公里|平方米|平方|立方米|里|寸|尺|丈|斤|公斤|千克|克|吨|升|倍|成|度|级|层|座|所|家|间|条|支|艘|架|辆|部"
    r"|本|册|集|章|回|卷|首|场|届|种|类|项|件|把|合|骑|州|郡|县|户|口|世纪|毫米|厘米|票|枚|台|只|头|匹|发|轮|连胜|强|点|代|股|字"
    r"|页|笔|篇|张|段|组|队|国|万|亿|千|百))"
)

TIME = re.compile(
    r"(?:\d{2,4}年)?(?:\d{1,2}月)?\d{1,2}[日号](?:[上下]午|晚)?|\d{2,4}年(?:\d{1,2}月)?|\d{1,2}月"
    rf"|[{_HAN_DIGITS}]+年(?:[{_HAN_DIGITS}]+月)?(?:[{_HAN_DIGITS}]+[日号])?|\d{{1,2}}[:：]\d\d|\d+[时点](?!\d)"
    rf"|\d+世纪|\d+年代|[{_HAN_DIGITS}]+世纪|\d{{4}}-\d\d?-\d\d?|[\u3400-\u9fff]{{1,2}}[朝代][初末]?|[初末中]年|时期|年间"
    rf"|[上下]午|[春夏秋冬][季天]|(?:\d+|[{_HAN_DIGITS}]+)(?:个?月|天|周|小时|分钟)"
    rf"|\b{_MONTH}\.?\s+\d{{1,2}}(?:st|nd|rd|th)?(?:,?\s+\d{{4}})?|\b\d{{1,2}}(?:st|nd|rd|th)?\s+{_MONTH}(?:,?\s+\d{{4}})?"
    rf"|\b{_MONTH}\s+\d{{4}}|\b1\d{{3}}(?:s|\b)|\b20\d\d\b|\b\d+(?:st|nd|rd|th)\s+centur(?:y|ies)"
    r"|\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b|\b\d+ (?:years?|months?|days?|weeks?|hours?|minutes?)\b",
    re.IGNORECASE,
)
NUMBER = re.compile(
    rf"\d+(?:[.,]\d+)*\s*{_UNIT}?|[{_HAN_DIGITS}]+分之(?:{_HAN_DECIMAL}|[{_HAN_DIGITS}]+)"
    rf"|{_HAN_DECIMAL}\s*{_UNIT}?|[{_HAN_DIGITS}]+\s*{_UNIT}|第[{_HAN_DIGITS}\d]+"
    r"|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozen|twenty|thirty|forty|fifty|sixty"
    r"|seventy|eighty|ninety|hundred|thousand|million|billion|half|third|quarter|once|twice)s?\b",
    re.IGNORECASE,
)
UNSAYING_NUMBER = re.compile(
    r"\d{1,4}\s*[年月日号时]$|一\s*[个名位辆座次场支种条家项件部只张段组届级句双对队天年]|[两几数]"
)
"""What counts nothing: a date, the 一 that is an article, 几."""

_UNITS = tuple(
    (re.compile(asked, re.IGNORECASE), re.compile(named, re.IGNORECASE))
    for asked, named in (
        (r"增长|增速|率|比例|百分|占比|percent|proportion|share|\brate", r"%|％|‰|百分|成$|倍|percent"),
        (
            r"票房|营收|收入|gdp|金额|价|费|钱|收益|利润|市值|资金|投资|额|revenue|cost|price|much|\bpay",
            r"元|万|亿|\$|£|€|dollar|million|billion|块|镑",
        ),
        (r"人数|多少[人名位]|几[个名位]?人|人口|people", r"人|名|位|万|people|\d$"),
        (r"震级", r"级"),
        (r"点数", r"点"),
        (r"次数|[几多]少?次|times", r"次|回|times|once|twice"),
        (r"排名|成绩|第几|名次", r"第|名|强|军"),
        (r"产量", r"吨|万|亿|桶|台|辆|米"),
        (r"交付量|销量", r"辆|台|部|万|套"),
        (r"面积", r"平方|亩|公顷|畝|square|acre|hectare"),
        (
            r"[长高宽深]度|多[高长宽深远]|tall|long|high|far|deep|wide",
            r"米|里|尺|丈|km|met|feet|foot|mile|inch",
        ),
    )
)
_COUNTED = re.compile(r"(?:多少|几)([\u3400-\u9fff])")
_NO_UNIT = frozenset("的是")


def unit_fit(question: str, number: str) -> UnitFit:
    """Whether `number`, with what follows it, is in a unit that answers `question`."""
    for asked, named in _UNITS:
        if asked.search(question):
            return "right" if named.search(number) else "wrong"
    counted = _COUNTED.search(question)
    if counted is None or counted[1] in _NO_UNIT:
        return "unknown"
    return "right" if counted[1] in number else "wrong"
