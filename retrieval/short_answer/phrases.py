"""The phrases of a sentence that are of a kind: times, numbers, names, stretches of nouns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from retrieval.short_answer.words import Word
from retrieval.support.quantities import NUMBER, TIME, UNSAYING_NUMBER

Place = tuple[int, int]
"""Characters from and to."""

_TO = r"\s*(?:[-–—~～至到]|\bto\b|\band\b|\buntil\b|,)\s*"
_ONE_TIME = (
    r"(?:距今约?\d[\d,]*(?:万|亿)?年|\b\d[\d,.]*\s(?:million\s)?(?:BP\b|years\sago\b)"
    rf"|(?:公元前?|西元前?|前|约|大约)?(?<!\d)(?:{TIME.pattern}))"
    r"(?:\s*(?:BCE?|AD|CE)\b|前|底|初|末|中期|初期|末期|春天?|夏天?|秋天?|冬天?)?"
)
_TIMES = re.compile(rf"{_ONE_TIME}(?:{_TO}{_ONE_TIME})*", re.IGNORECASE)
_YEAR = re.compile(r"(?:公元前?|前)?\d{3,4}年|(?<!\d)[12]\d{3}(?!\d)(?:\s?BCE?\b)?")
_DURATION = re.compile(
    r"(?!.*\d(?:st|nd|rd|th)\b).*?\s?-?(?:years?|months?|weeks?|days?|hours?|minutes?|seconds?|decades?|centur(?:y|ies)"
    r"|个?小时|分钟|秒钟?|天|周|个月|世纪|(?<!\d{4})年)",
    re.IGNORECASE | re.DOTALL,
)

_NUMBERS = re.compile(
    rf"(?:(?:US|HK|A|C)?[$£€¥￥]\s?|(?:RMB|USD|EUR|CNY)\s)?(?:约|近|超过|逾)?(?:{NUMBER.pattern})"
    rf"(?:(?:[-–~～至到\s]|\sto\s)(?:{NUMBER.pattern}))*"
    r"(?:\s?(?:°[CF]|hundred|thousand|million|billion|trillion|dozen|percent|per\s?cent|percentage points|%|％))*"
    r"(?:多?(?:美元|欧元|英镑|港元|人民币|元))?",
    re.IGNORECASE,
)
_MEASURE = re.compile(
    r"[\s-]?(?:(?:square|cubic)\s)?(?:km²|m²|km|cm|mm|kg|mi|ft|years?|months?|weeks?|days?|hours?|minutes?"
    r"|seconds?|miles?|met(?:er|re)s?|kilomet(?:er|re)s?|feet|foot|inch(?:es)?|acres?|hectares?|tons?|tonnes?"
    r"|pounds?|kilograms?|degrees?|yards?|dollars?|euros?|yuan|times)\b|(?<=个)(?:月|小时|世纪|百分点)",
    re.IGNORECASE,
)

_CAPITALS = re.compile(
    r"(?:\b[A-ZÀ-Þ][\w'’&.-]*|\b\d+(?=\s[A-ZÀ-Þ]))"
    r"(?:\s(?:(?:of|de|van|von|der|la|le|du|al|bin|for)\s(?:the\s)?)?[A-ZÀ-Þ][\w'’&-]*(?:\.(?=\s[A-Z]))?)*"
)
_QUOTED = re.compile(r"(?<=[“\"「『《‘])[^”\"」』》’“《]{1,40}(?=[”\"」』》’])|《[^》]{1,40}》")
_FOREIGN = re.compile(r"[\u3400-\u9fff]{1,8}(?:[·•][\u3400-\u9fff]{1,8})+")
_NAME_TAGS = frozenset({"nr", "nrt", "nrfg", "ns", "nt"})
_PLACE_END = re.compile(r".[省市县区州国镇村路街岛山河湖港城馆场站]$")
_NOUN_WORD = re.compile(r"n|nrt?|nrfg|n[stzgw]|vn|an|[abmqjlisfxkgt]|eng|zg")  # rjieba's tags
_FUNCTION_WORD = re.compile(
    r"a|an|the|and|or|but|nor|of|in|on|at|by|for|from|to|with|without|into|onto|over|under|between"
    r"|among|during|after|before|since|until|through|across|against|about|as|than|that|which|who|whom"
    r"|whose|where|when|while|if|because|although|though|is|are|was|were|be|been|being|am|do|does|did"
    r"|has|have|had|having|can|could|may|might|must|shall|should|will|would|not|no|it|its|he|his|him"
    r"|she|her|they|their|them|we|our|us|you|your|i|my|this|these|those|there|such|so|also|both"
    r"|either|neither|each|every|any|some|other|only|just|very|more|most|then|thus|however|therefore"
    r"|called|named|known|like|including|include|includes|became|become|made",
    re.IGNORECASE,
)


def times(sentence: str) -> Iterator[Place]:
    """Points and stretches in time, `1990 to 1995` as one; no lengths of time."""
    for match in _TIMES.finditer(sentence):
        if not _DURATION.fullmatch(match.group()):
            yield match.span()


def years(sentence: str) -> Iterator[Place]:
    """Years without their month and day."""
    for match in _YEAR.finditer(sentence):
        yield match.span()


def durations(sentence: str) -> Iterator[Place]:
    """Lengths of time."""
    for start, end in numbers(sentence):
        if _DURATION.fullmatch(sentence, start, end):
            yield start, end


def numbers(sentence: str) -> Iterator[Place]:
    """Numbers with currency, scale and measure; neither dates nor the 一 that is an article."""
    for match in _NUMBERS.finditer(sentence):
        if UNSAYING_NUMBER.fullmatch(match.group()) and not _DURATION.fullmatch(match.group()):
            continue
        measure = _MEASURE.match(sentence, match.end())
        yield match.start(), measure.end() if measure else match.end()


def names(sentence: str, words: Sequence[Word]) -> Iterator[Place]:
    """Capitalised stretches, quoted titles, and what rjieba takes for people, places, organisations."""
    for match in _CAPITALS.finditer(sentence):
        if not _FUNCTION_WORD.fullmatch(match.group()):
            yield match.span()
    for pattern in (_FOREIGN, _QUOTED):
        for match in pattern.finditer(sentence):
            yield match.span()
    yield from _stretches(words, _is_name)


def nouns(words: Sequence[Word]) -> Iterator[Place]:
    """Stretches of words between those that only join others."""
    yield from _stretches(words, _is_noun)


def _is_name(word: Word) -> bool:
    return word.tag in _NAME_TAGS or (word.tag.startswith("n") and _PLACE_END.search(word.text) is not None)


def _is_noun(word: Word) -> bool:
    if word.tag:
        return _NOUN_WORD.fullmatch(word.tag) is not None
    return _FUNCTION_WORD.fullmatch(word.text) is None


def _stretches(words: Sequence[Word], belongs: Callable[[Word], bool]) -> Iterator[Place]:
    """Of words that belong, with no more than a space between two."""
    start = end = -1
    for word in words:
        if belongs(word) and start >= 0 and word.start - end <= 1:
            end = word.end
            continue
        if start >= 0:
            yield start, end
        start, end = (word.start, word.end) if belongs(word) else (-1, -1)
    if start >= 0:
        yield start, end
