"""Bytes of unknown encoding to text, with a warning wherever the guess may be wrong.

What proves itself comes first (byte order marks, valid UTF-8, what a page declares). The rest is
decided by reading a sample in every candidate encoding and asking how common the characters are
that come out: detectors by byte patterns alone confuse GBK, Big5, Shift-JIS and EUC-KR.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import ingest.common_characters as common

_SAMPLE_BYTES = 16 * 1024
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# What a declared name really means in the wild (WHATWG Encoding Standard).
_DECLARED = {
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "x-gbk": "gb18030",
    "big5": "big5hkscs",
    "shift_jis": "cp932",
    "shift-jis": "cp932",
    "sjis": "cp932",
    "euc-kr": "cp949",
    "ks_c_5601-1987": "cp949",
    "iso-8859-1": "cp1252",
    "latin1": "cp1252",
    "us-ascii": "cp1252",
    "ascii": "cp1252",
    "iso-8859-9": "cp1254",
}
_MAX_BAD_UTF8_SHARE = 0.1
_NON_ASCII = re.compile(rb"[\x80-\xff]")
_CONFIDENT_SCORE = 0.3
_CONFIDENT_MARGIN = 0.1
_CONFIDENT_BYTES = 12  # beyond ASCII; below that, any language can look like any other


@dataclass(frozen=True, slots=True)
class DecodedText:
    """`warning` is empty where the encoding is certain."""

    text: str
    encoding: str
    warning: str = ""


def decode_text(data: bytes, *, declared: str = "") -> DecodedText:
    """`data` as text; `declared` is the encoding that the document claims, if it does.

    Never fails: bytes that cannot be read become U+FFFD, and the warning counts them.
    """
    encoding = _find_certain(data, declared)
    if encoding:
        return _decode(data, encoding)
    if _is_mostly_utf8(data):
        return _decode(data, "utf-8")
    sample = _sample_non_ascii(data)
    best, second = _rank_legacy(sample)[:2]
    decoded = _decode(data, best.encoding)
    is_confident = (
        best.score >= _CONFIDENT_SCORE
        and best.score - second.score >= _CONFIDENT_MARGIN
        and len(_NON_ASCII.findall(sample)) >= _CONFIDENT_BYTES
    )
    if decoded.warning or is_confident:
        return decoded
    return DecodedText(
        decoded.text,
        decoded.encoding,
        f"The text's encoding was guessed as {best.encoding} and may be wrong; "
        "if characters look garbled, save the file as UTF-8 and upload it again.",
    )


def looks_like_text(data: bytes) -> bool:
    """Whether the beginning of a file is text in any encoding, rather than binary data."""
    if any(data.startswith(bom) for bom, _ in _BOMS):
        return True
    sample = data[:_SAMPLE_BYTES]
    if b"\x00" in sample:
        return bool(_find_utf16(sample))
    controls = sum(byte < 32 and byte not in b"\t\n\x0b\x0c\r\x1b\x08" for byte in sample)
    return controls <= 0.3 * len(sample)


def _find_certain(data: bytes, declared: str) -> str:
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            return encoding
    if b"\x00" in data[:_SAMPLE_BYTES] and (utf16 := _find_utf16(data[:_SAMPLE_BYTES])):
        return utf16
    if any(escape in data for escape in (b"\x1b$B", b"\x1b$@", b"\x1b(J")):
        return "iso2022_jp_ext"
    if _can_decode(data, "utf-8"):
        return "utf-8"
    declared = declared.strip().lower()
    declared = _DECLARED.get(declared, declared)
    return declared if declared and _can_decode(data, declared) else ""


def _can_decode(data: bytes, encoding: str) -> bool:
    try:
        data.decode(encoding)
    except (UnicodeError, LookupError):
        return False
    return True


def _decode(data: bytes, encoding: str) -> DecodedText:
    text = data.decode(encoding, errors="replace")
    num_bad = text.count("\ufffd")
    if not num_bad or _can_decode(data, encoding):
        return DecodedText(text, encoding)
    return DecodedText(
        text,
        encoding,
        f"{num_bad} characters could not be read as {encoding} and show as U+FFFD; "
        "save the file as UTF-8 and upload it again.",
    )


def _is_mostly_utf8(data: bytes) -> bool:
    """Few bad bytes among many good sequences: damaged UTF-8, not another encoding."""
    text = data.decode("utf-8", errors="replace")
    num_bad = text.count("\ufffd")
    num_good = sum(character > "\x7f" for character in text) - num_bad
    return num_bad <= _MAX_BAD_UTF8_SHARE * num_good


def _find_utf16(sample: bytes) -> str:
    """`utf-16-le` or `utf-16-be` where the sample reads well so, else nothing."""
    even_length = sample[: len(sample) // 2 * 2]
    for encoding in ("utf-16-le", "utf-16-be"):
        text = even_length.decode(encoding, errors="replace")
        if text and _share(text, _is_implausible) < 0.02 and _share(text, _is_everyday) > 0.4:
            return encoding
    return ""


def _share(text: str, test: Callable[[str], bool]) -> float:
    return sum(test(character) for character in text) / len(text)


def _is_implausible(character: str) -> bool:
    if character in "\t\n\r\f":
        return False
    return character == "\ufffd" or unicodedata.category(character) in {"Cc", "Cn", "Co", "Cs"}


def _is_everyday(character: str) -> bool:
    return (
        character.isascii()
        or character in common.SIMPLIFIED
        or character in common.TRADITIONAL
        or character in common.KANJI
        or character in common.HANGUL
        or "\u3000" <= character <= "\u30ff"
        or "\u0400" <= character <= "\u044f"
        or "\uff01" <= character <= "\uff5e"
    )


@dataclass(frozen=True, slots=True)
class _Candidate:
    encoding: str
    score: float


def _rank_legacy(sample: bytes) -> list[_Candidate]:
    """All candidates, best first; those that read the sample alike count once."""
    ranked: dict[str, _Candidate] = {}
    for encoding, judge, handicap in _JUDGES:
        text = codecs.getincrementaldecoder(encoding)(errors="replace").decode(sample)
        candidate = _Candidate(encoding, judge(text) - handicap)
        if text not in ranked or ranked[text].score < candidate.score:
            ranked[text] = candidate
    return sorted(ranked.values(), key=lambda candidate: -candidate.score)


def _sample_non_ascii(data: bytes) -> bytes:
    """Lines that say something about the encoding, up to the sample's size."""
    found = _NON_ASCII.search(data)
    start = data.rfind(b"\n", 0, found.start()) + 1 if found else 0
    lines: list[bytes] = []
    size = 0
    for line in data[start : start + 64 * _SAMPLE_BYTES].splitlines(keepends=True):
        if not line.isascii():
            lines.append(line)
            size += len(line)
        if size >= _SAMPLE_BYTES:
            break
    sample = b"".join(lines)
    offset = max(0, sample.find(found.group()) - _SAMPLE_BYTES // 2) if found else 0
    return sample[offset : offset + _SAMPLE_BYTES]


def _judge_wide(weigh: Callable[[str], float]) -> Callable[[str], float]:
    """The mean weight of the characters beyond ASCII: 1 all common, below 0 rubbish."""

    def judge(text: str) -> float:
        counts = Counter(character for character in text if character > "\x7f")
        total = sum(counts.values())
        return sum(weigh(character) * n for character, n in counts.items()) / total if total else -1.0

    return judge


def _weigh_shared(character: str) -> float | None:
    """What every CJK encoding has, and what none should yield."""
    if "\u3001" <= character <= "\u301f" or "\uff01" <= character <= "\uff5e" or character in "　“”‘’—…·":
        return 0.5
    if _is_implausible(character) or character < "\xa0":
        return -4.0
    return None


def _is_level_one(character: str, encoding: str, lead_bytes: range) -> bool:
    """Whether a national standard lists the character among its frequent ones."""
    encoded = character.encode(encoding, errors="ignore")
    return len(encoded) == 2 and encoded[0] in lead_bytes


def _weigh_han(
    known: frozenset[str], encoding: str, level_one: range, *, kana: float
) -> Callable[[str], float]:
    @cache
    def weigh(character: str) -> float:
        if character in known:
            return 1.0
        shared = _weigh_shared(character)
        if shared is not None:
            return shared
        if "\u3040" <= character <= "\u30ff":
            return kana
        if "\u4e00" <= character <= "\u9fff":
            return 0.2 if _is_level_one(character, encoding, level_one) else -0.6
        return -0.5

    return weigh


@cache
def _weigh_korean(character: str) -> float:
    if character in common.HANGUL:
        return 1.0
    shared = _weigh_shared(character)
    if shared is not None:
        return shared
    if "\uac00" <= character <= "\ud7a3":
        return 0.3 if _is_level_one(character, "euc_kr", range(0xB0, 0xC9)) else -0.6
    return -0.4


def _judge_letters(frequent: str, script: str, *, mixes: bool) -> Callable[[str], float]:
    """Judge single-byte readings: frequent letters, sane capitals, words of one script.

    `script` is how Unicode names of its letters begin; `mixes` says that ASCII letters stand in
    the same words (Latin scripts).
    """

    def judge(text: str) -> float:
        weights = list(_weigh_letters(text, frequent, script, mixes=mixes))
        return sum(weights) / len(weights) if weights else -1.0

    return judge


def _weigh_letters(text: str, frequent: str, script: str, *, mixes: bool) -> Iterator[float]:
    padded = f" {text} "
    for i in range(1, len(padded) - 1):
        character = padded[i]
        if character < "\x80":
            continue
        before, after = padded[i - 1], padded[i + 1]
        if not (character.isalpha() or unicodedata.category(character) in {"Mn", "Mc"}):
            yield _weigh_symbol(character)
        elif not unicodedata.name(character, "").startswith(script):
            yield -0.6
        elif character.isupper() and before.islower():
            yield -1.0
        elif mixes:
            yield _weigh_accented(character, before, after, frequent)
        elif _is_ascii_letter(before) or _is_ascii_letter(after):
            yield -1.5
        else:
            yield 1.0 if character.lower() in frequent else 0.3


def _weigh_accented(character: str, before: str, after: str, frequent: str) -> float:
    """Accents stand among plain letters; a word of nothing but accents is another script."""
    if before > "\x7f" and before.isalpha() and after > "\x7f" and after.isalpha():
        return -0.4 if character in frequent else -0.8
    if not (before.isalpha() or after.isalpha()):
        return 0.3
    if not (_is_ascii_letter(before) or _is_ascii_letter(after)):
        return -0.4
    return 1.0 if character.lower() in frequent else 0.2


def _is_ascii_letter(character: str) -> bool:
    return character.isascii() and character.isalpha()


def _weigh_symbol(character: str) -> float:
    if _is_implausible(character) or character < "\xa0":
        return -4.0
    if character in "¿¡":
        return 0.9
    return 0.5 if character in "“”‘’„–—…•€£©®°§«»·½№\xa0،؟" else -0.6


# (encoding, judge of a reading, handicap): handicaps break ties towards what is met more often.
_JUDGES: tuple[tuple[str, Callable[[str], float], float], ...] = (
    ("gb18030", _judge_wide(_weigh_han(common.SIMPLIFIED, "gb2312", range(0xB0, 0xD8), kana=-0.3)), 0.0),
    ("big5hkscs", _judge_wide(_weigh_han(common.TRADITIONAL, "big5", range(0xA4, 0xC9), kana=-0.3)), 0.0),
    ("cp932", _judge_wide(_weigh_han(common.KANJI, "euc_jp", range(0xB0, 0xD0), kana=1.0)), 0.0),
    ("euc_jp", _judge_wide(_weigh_han(common.KANJI, "euc_jp", range(0xB0, 0xD0), kana=1.0)), 0.0),
    ("cp949", _judge_wide(_weigh_korean), 0.0),
    ("utf-16-le", _judge_wide(_weigh_han(common.SIMPLIFIED, "gb2312", range(0xB0, 0xD8), kana=0.5)), 0.1),
    ("utf-16-be", _judge_wide(_weigh_han(common.SIMPLIFIED, "gb2312", range(0xB0, 0xD8), kana=0.5)), 0.1),
    ("cp1252", _judge_letters(common.WESTERN, "LATIN", mixes=True), 0.0),
    ("cp1250", _judge_letters(common.CENTRAL_EUROPEAN, "LATIN", mixes=True), 0.05),
    ("cp1254", _judge_letters(common.WESTERN + common.TURKISH, "LATIN", mixes=True), 0.05),
    ("mac_roman", _judge_letters(common.WESTERN, "LATIN", mixes=True), 0.15),
    ("cp850", _judge_letters(common.WESTERN, "LATIN", mixes=True), 0.15),
    ("cp1251", _judge_letters(common.CYRILLIC, "CYRILLIC", mixes=False), 0.0),
    ("koi8_r", _judge_letters(common.CYRILLIC, "CYRILLIC", mixes=False), 0.0),
    ("cp866", _judge_letters(common.CYRILLIC, "CYRILLIC", mixes=False), 0.0),
    ("iso8859_5", _judge_letters(common.CYRILLIC, "CYRILLIC", mixes=False), 0.1),
    ("cp1253", _judge_letters(common.GREEK, "GREEK", mixes=False), 0.1),
    ("cp1255", _judge_letters(common.HEBREW, "HEBREW", mixes=False), 0.05),
    ("cp1256", _judge_letters(common.ARABIC, "ARABIC", mixes=False), 0.05),
    ("cp874", _judge_letters(common.THAI, "THAI", mixes=False), 0.1),
)
