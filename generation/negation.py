"""Which clauses of a text deny something, in English and Chinese."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from retrieval.term_weights import terms_of


@dataclass(frozen=True, slots=True)
class Clause:
    """A stretch between commas or conjunctions: its terms, and whether it denies."""

    terms: frozenset[str]
    denies: bool


_BREAK = re.compile(
    r"[,;:，；：、。！？!?\n]|\.(?=\s|$)|(?<=\s)(?:but|although|though|while|whereas|however|yet)(?=\s)|但是|但|然而|虽然|尽管",
    re.IGNORECASE,
)
_ENGLISH = re.compile(
    r"\b(?:not|no|never|none|neither|nor|nobody|nothing|nowhere|without|cannot|unable|hardly|scarcely|fail(?:s|ed|ing)?"
    r"|lack(?:s|ed|ing)?|den(?:y|ies|ied)|refus(?:e|es|ed|ing)|forbid(?:s|den)?|forbade|prohibit(?:s|ed)?"
    r"|impossible|absent|except|excluding|instead of|rather than|no longer)\b|n['’]t\b",
    re.IGNORECASE,
)
_ENGLISH_IDIOMS = re.compile(
    r"\bnot only\b|\bno\.\s?\d|\bno (?:more|less|fewer|later|earlier) than\b|\bnot least\b|\bno doubt\b"
    r"|\bwhether or not\b",
    re.IGNORECASE,
)
_CHINESE = re.compile("[不没沒未无無非别勿莫毋否]|缺乏|拒绝|禁止|除外|失败")
_CHINESE_IDIOMS = re.compile(
    "不仅|不但|不只|不同|不断|不少|不久|不过|不得不|不论|不管|不如说|不锈钢|不等式|不动产|差不多|是否|能否|可否|与否|要不要|是不是"
    "|有没有|会不会|能不能|无论|无线|无锡|无数|无疑|无人机|未来|未必不|非常|非洲|非但|除非|无非|莫非|莫斯科|别墅|别人|别名|特别|分别|区别"
    "|类别|级别|性别|个别|识别|辨别|差别|告别|莫大|沉没|淹没|没收|出没|埋没|否则|对不起|了不起|来不及|不可思议|不由得|不禁|不约而同"
)


@lru_cache(maxsize=1 << 13)
def clauses_of(text: str) -> tuple[Clause, ...]:
    """The clauses of `text` that hold words, in order."""
    pieces = _BREAK.split(_ENGLISH_IDIOMS.sub(" ", _CHINESE_IDIOMS.sub(" ", text)))
    return tuple(Clause(terms, _denies(piece)) for piece in pieces if (terms := terms_of(piece)))


def denies(text: str) -> bool:
    """Whether any clause of `text` denies something."""
    return any(clause.denies for clause in clauses_of(text))


def contradicts_by_negation(statement: str, source: str) -> bool:
    """Whether `statement` denies what `source` affirms, or affirms what it denies.

    Each clause of the statement is held against the clauses of the source that share most words
    with it. Without shared words (another language) it counts whether either denies at all.
    """
    theirs = clauses_of(source)
    pairs = [
        (ours, _nearest(ours, theirs, same=True), _nearest(ours, theirs, same=False))
        for ours in clauses_of(statement)
    ]
    if not any(same or opposite for _, same, opposite in pairs):
        return denies(statement) != denies(source)
    return any(opposite > same for _, same, opposite in pairs) or _denies_out_of_nothing(statement, source)


def _nearest(ours: Clause, theirs: tuple[Clause, ...], *, same: bool) -> int:
    """Most words shared with a clause of the same polarity, or of the other."""
    return max(
        (len(ours.terms & clause.terms) for clause in theirs if (clause.denies == ours.denies) == same),
        default=0,
    )


def _denies_out_of_nothing(statement: str, source: str) -> bool:
    return denies(statement) and not denies(source)


def _denies(piece: str) -> bool:
    return bool(_ENGLISH.search(piece) or _CHINESE.search(piece))
