"""The phrases of a sentence that could answer a question of a kind, as places in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from retrieval.short_answer.words import Word
from retrieval.support.quantities import NUMBER, TIME, UNSAYING_NUMBER

Place = tuple[int, int]
"""Characters from and to."""

_ERA = r"(?:公元前?|西元前?|前|约|大约)?"
_AGO = r"(?:\s*(?:BCE?|AD|CE)\b|前|底|初|末|中期|初期|末期|春天?|夏天?|秋天?|冬天?)?"
_TO = r"\s*(?:[-–—~～至到]|\bto\b|\band\b|\buntil\b|,)\s*"
_ONE_TIME = rf"{_ERA}(?:{TIME.pattern}){_AGO}"
_TIMES = re.compile(rf"{_ONE_TIME}(?:{_TO}{_ONE_TIME})*", re.IGNORECASE)

_SCALE = r"(?:hundred|thousand|million|billion|trillion|dozen|percent|per\s?cent|percentage points|%|％)"
_NUMBERS = re.compile(
    rf"(?:(?:US|HK|A|C)?[$£€¥￥]\s?|(?:RMB|USD|EUR|CNY)\s)?(?:约|近|超过|逾)?(?:{NUMBER.pattern})(?:[-–\s](?:{NUMBER.pattern}))*"
    rf"(?:\s?{_SCALE})*(?:多?(?:美元|欧元|英镑|港元|人民币|元))?",
    re.IGNORECASE,
)
_MEASURE = re.compile(
    r"[\s-]?(?:(?:square|cubic)\s)?(?:km²|m²|km|cm|mm|kg|mi|ft|years?|months?|weeks?|days?|hours?|minutes?|seconds?|miles?|met(?:er|re)s?"
    r"|kilomet(?:er|re)s?|feet|foot|inch(?:es)?|acres?|hectares?|tons?|tonnes?|pounds?|kilograms?|degrees?|yards?"
    r"|dollars?|euros?|yuan|times)\b",
    re.IGNORECASE,
)

_CAPITALS = re.compile(
    r"(?:\b[A-ZÀ-Þ][\w'’&.-]*|\b\d+(?=\s[A-ZÀ-Þ]))"
    r"(?:\s(?:(?:of|de|van|von|der|la|le|du|al|bin|for)\s(?:the\s)?)?[A-ZÀ-Þ][\w'’&-]*(?:\.(?=\s[A-Z]))?)*"
)
_QUOTED = re.compile(r"(?<=[“\"「『《‘])[^”\"」』》’“《]{1,40}(?=[”\"」』》’])|《[^》]{1,40}》")
_FOREIGN = re.compile(r"[\u3400-\u9fff]{1,8}(?:[·•][\u3400-\u9fff]{1,8})+")
_PERSON_TAGS = frozenset({"nr", "nrt", "nrfg"})
_PLACE_TAGS = frozenset({"ns"})
_NAME_TAGS = frozenset({"nr", "nrt", "nrfg", "ns", "nt", "nz"})
_NOUN_TAGS = frozenset(
    {"n", "nr", "nrt", "nrfg", "ns", "nt", "nz", "vn", "an", "a", "b", "m", "q", "eng", "j", "l", "i", "s", "f", "zg", "x", "ng", "k", "g", "nw", "t"}
)  # fmt: skip
_PLACE_END = re.compile(r"[省市县区州国镇村路街岛山河湖港城馆场站]$")

JOINING = re.compile(r"\s+(?:of|and|in|for|&)\s+(?:the\s+|an?\s+)?|的|和|与|及|、")
"""What makes one phrase of two."""

_JOINS = frozenset(
    "a an the and or but nor of in on at by for from to with without into onto over under between among during"
    " after before since until through across against about as than that which who whom whose where when while if"
    " because although though is are was were be been being am do does did has have had having can could may"
    " might must shall should will would not no it its he his him she her they their them we our us you your i my"
    " this these those there such so also both either neither each every any some other only just very more most"
    " then thus however therefore called named known like including include includes became become made".split()
)


def times(sentence: str) -> Iterator[Place]:
    for match in _TIMES.finditer(sentence):
        yield match.span()


def numbers(sentence: str) -> Iterator[Place]:
    """With currency, scale and measure, but not the 1 of a list or the 一 that is an article."""
    for match in _NUMBERS.finditer(sentence):
        if UNSAYING_NUMBER.fullmatch(match.group()):
            continue
        measure = _MEASURE.match(sentence, match.end())
        yield match.start(), measure.end() if measure else match.end()


def names(sentence: str, words: Sequence[Word], *, kind: str) -> Iterator[Place]:
    for match in _CAPITALS.finditer(sentence):
        if match.start() or " " in match.group():
            yield match.span()
        elif match.group().casefold() not in _JOINS:
            yield match.span()
    for pattern in (_FOREIGN, _QUOTED):
        for match in pattern.finditer(sentence):
            yield match.span()
    tags = _PERSON_TAGS if kind == "person" else _PLACE_TAGS
    yield from _runs(words, lambda word: word.tag in tags or (kind == "place" and word.tag.startswith("n") and len(word.text) > 1 and _PLACE_END.search(word.text) is not None))


def nouns(sentence: str, words: Sequence[Word]) -> Iterator[Place]:
    """Stretches of words between those that only join others."""
    yield from _runs(words, _is_noun)


def _is_noun(word: Word) -> bool:
    if word.tag:
        return word.tag in _NOUN_TAGS
    return word.text.casefold() not in _JOINS


def _runs(words: Sequence[Word], belongs) -> Iterator[Place]:
    start = None
    end = 0
    for word in words:
        if belongs(word):
            if start is not None and word.start - end > 1:
                yield start, end
                start = None
            start = word.start if start is None else start
            end = word.end
        elif start is not None:
            yield start, end
            start = None
    if start is not None:
        yield start, end
