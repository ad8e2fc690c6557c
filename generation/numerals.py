"""The numbers that a text states, whatever way it writes them: `14`, `fourteen`, `十四`, `1.4万`."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class Numbers:
    """`stated` are numbers that whoever repeats the text must find in its source, as often as they
    stand; `given` are those and others that the text may be read as giving (`one of them`, `the
    second`, `May` for 5)."""

    stated: Mapping[str, int]
    given: frozenset[str]


_DIGITS = re.compile(
    r"(?<![\d.])(?P<version>\d+(?:\.\d+){2,})"
    r"|(?P<digits>\d+(?:,\d{3})*(?:\.\d+)?)\s?(?P<unit>[百千万亿]+|(?:thousand|million|billion|trillion)\b)?"
)
_HAN_DIGITS = {c: i % 10 for i, c in enumerate("零一二三四五六七八九〇壹贰叁肆伍陆柒捌玖")} | {"两": 2}
_HAN_UNITS = {"十": 10, "拾": 10, "百": 100, "佰": 100, "千": 1000, "仟": 1000}
_HAN_MYRIADS = {"万": 10**4, "亿": 10**8}
_TRADITIONAL = str.maketrans("兩萬億貳參陸", "两万亿贰叁陆")
_HAN_RUN = re.compile("[零一二三四五六七八九〇壹贰叁肆伍陆柒捌玖两十拾百佰千仟万亿]+")
# 三点五十分 is a time of day, and 一点一点 no number at all.
_HAN_DECIMAL = re.compile(
    f"({_HAN_RUN.pattern})点([零一二三四五六七八九〇]+)(?![零一二三四五六七八九〇十点])([百千万亿]*)"
)
_NO_NUMBER = ("千万", "万一", "一一", "万千", "千百")
_MEASURES = frozenset(
    "个颗只条名位人年月日天次种项件台部座间家岁斤两公米里元块度级届倍成章回卷节页层楼号分秒时点篇册株棵匹头艘架辆枚"
)

_WORDS = {
    word: i
    for i, word in enumerate(
        [
            "zero",
            "one",
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "eleven",
            "twelve",
            "thirteen",
            "fourteen",
            "fifteen",
            "sixteen",
            "seventeen",
            "eighteen",
            "nineteen",
        ]
    )
}
_WORDS |= {
    word: 10 * i
    for i, word in enumerate(
        ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"], start=2
    )
}
_ORDINALS = {
    word: i
    for i, word in enumerate(
        [
            "third",
            "fourth",
            "fifth",
            "sixth",
            "seventh",
            "eighth",
            "ninth",
            "tenth",
            "eleventh",
            "twelfth",
            "thirteenth",
            "fourteenth",
            "fifteenth",
            "sixteenth",
            "seventeenth",
            "eighteenth",
            "nineteenth",
            "twentieth",
        ],
        start=3,
    )
}
_SCALES = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_WORD = re.compile(r"[a-z]+")
_RUN_GAP = re.compile(r"[\s-]+(?:and\s+)?")
_MONTHS = re.compile(
    r"\b(Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?"
    r"|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)\b"
)
_MONTH_KEYS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


@lru_cache(maxsize=1 << 13)
def numbers_of(text: str) -> Numbers:
    """The numbers of an English or Chinese text, each in one plain form."""
    plain = unicodedata.normalize("NFKC", text).translate(_TRADITIONAL)
    plain, decimals = _take_han_decimals(plain)
    stated = Counter([*decimals, *_from_digits(plain), *_from_words(plain.lower())])
    given = {str(_MONTH_KEYS.index(month[:3]) + 1) for month in _MONTHS.findall(plain)}
    if re.search(r"\b(?:one|first)\b", plain, re.IGNORECASE):
        given.add("1")
    if re.search(r"\bsecond\b", plain, re.IGNORECASE):
        given.add("2")
    for run, following, is_ordinal in _han_runs(plain):
        value = _han_value(run)
        if value is None:
            continue
        certain = len(run) > 1 or is_ordinal or following in _MEASURES
        if certain and value != 1:
            stated[_plain(Decimal(value))] += 1
        else:
            given.add(_plain(Decimal(value)))
    return Numbers(stated, frozenset({*stated, *given}))


def _from_digits(text: str) -> Iterator[str]:
    for match in _DIGITS.finditer(text):
        if match["version"]:
            yield match["version"]
            continue
        value = Decimal(match["digits"].replace(",", ""))
        for unit in _units(match["unit"] or ""):
            value *= unit
        yield _plain(value)


def _take_han_decimals(text: str) -> tuple[str, list[str]]:
    """The text without its decimals in Chinese numerals, and these: `二点四` is 2.4, `一点四万` 14000."""
    found: list[str] = []

    def take(match: re.Match[str]) -> str:
        whole, part, unit = match.groups()
        value = _han_value(whole)
        if value is None:
            return match[0]
        decimal = Decimal(f"{value}.{''.join(str(_HAN_DIGITS[character]) for character in part)}")
        for factor in _units(unit):
            decimal *= factor
        found.append(_plain(decimal))
        return " "

    return _HAN_DECIMAL.sub(take, text), found


def _units(text: str) -> Iterator[int]:
    if text in _SCALES:
        yield _SCALES[text]
        return
    yield from (_HAN_UNITS.get(character) or _HAN_MYRIADS[character] for character in text)


def _plain(value: Decimal) -> str:
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text.lstrip("0") or "0"


def _han_runs(text: str) -> Iterator[tuple[str, str, bool]]:
    """Stretches of numerals, what follows each, and whether 第 stands before it."""
    for match in _HAN_RUN.finditer(text):
        before = text[match.start() - 1 : match.start()]
        following = text[match.end() : match.end() + 1]
        is_very = match.group() == "十" and following == "分"
        if match.group() in _NO_NUMBER or is_very or before.isdigit():
            continue
        yield match.group(), following, before == "第"


def _han_value(run: str) -> int | None:
    """`八十二` is 82, `一九九八` 1998; None for `七八` (about) and for units alone."""
    if all(character in _HAN_DIGITS for character in run):
        if len(run) == 2:
            return None
        return int("".join(str(_HAN_DIGITS[character]) for character in run))
    if run[0] in _HAN_MYRIADS or (len(run) == 1 and run != "十"):
        return None
    total = section = digit = 0
    for character in run:
        if character in _HAN_DIGITS:
            digit = _HAN_DIGITS[character]
        elif character in _HAN_UNITS:
            section += (digit or 1) * _HAN_UNITS[character]
            digit = 0
        else:
            total = (total + section + digit) * _HAN_MYRIADS[character]
            section = digit = 0
    return total + section + digit


def _from_words(text: str) -> Iterator[str]:
    """`twenty-one thousand` is one number, `one` alone is none."""
    run: list[str] = []
    last_end = 0
    for match in _WORD.finditer(text):
        word = match.group()
        if word == "and" and run:
            continue
        known = word in _WORDS or word in _SCALES or word in _ORDINALS
        if run and not (known and _RUN_GAP.fullmatch(text[last_end : match.start()])):
            yield from _value_of_words(run)
            run = []
        if known:
            run.append(word)
            last_end = match.end()
    yield from _value_of_words(run)


def _value_of_words(run: list[str]) -> Iterator[str]:
    total = group = 0
    for word in run:
        if word in _SCALES:
            scale = _SCALES[word]
            if scale == 100:
                group = max(1, group) * 100
            else:
                total, group = total + max(1, group) * scale, 0
        else:
            group += _WORDS.get(word, 0) or _ORDINALS.get(word, 0)
    is_number = any(word in _WORDS or word in _ORDINALS for word in run) or len(run) > 1
    if is_number and run != ["one"]:
        yield str(total + group)
