"""The questions inside a plainly compound one, found by its marks and conjunctions."""

from __future__ import annotations

import re
from collections.abc import Iterator

from core.language import is_chinese
from retrieval.history.phrases_by_language import phrases_of

_ASKS_EN = re.compile(
    r"\b(?:who|whom|whose|what|when|where|which|why|how|is|are|was|were|do|does|did|can|could|has|have"
    r"|had|will|would|should|tell|explain|describe|list|name)\b",
    re.IGNORECASE,
)
_ASKS_ZH = re.compile(
    r"谁|什么(?!的)|哪|多少|几(?!乎)|怎|如何|为何|何[时地人处种]|是否|能否|可否|有无|吗|多[久大长高远深宽重快]"
    r"|是不是|有没有|能不能|可不可以|会不会"
)
_BEGINS_ASKING_EN = re.compile(
    rf"\W*(?:and\s+|in\s+|at\s+|for\s+|to\s+|by\s+)?{_ASKS_EN.pattern}", re.IGNORECASE
)
_NOT_ASKED = re.compile(
    r"^\s*(?:无论|不管|不论|任凭|如果|假如)|\b(?:no matter|regardless|whatever)\b", re.IGNORECASE
)

_MARKS = re.compile(r"[?？]+(?=\D|$)|[;；\n]+")  # of `?2` in an address the mark ends nothing
# "and" joins questions where a question word follows it, or a verb with its pronoun after a comma:
# "founded in 1990 and are still active" is one question, "founded in 1990, and is it still active" two.
_AND_EN = re.compile(
    r"\s*,?\s+(?:and|plus|as\s+well\s+as)\s+(?:also\s+)?(?=(?:who|whom|whose|what|when|where|which|why|how)\b)"
    r"|\s*,\s*(?:and\s+)?(?:also\s+)?(?=(?:is|are|was|were|do|does|did|can|could|has|have|had|will|would|should)"
    r"\s+(?:it|he|she|they|this|that|there|these|those)\b)",
    re.IGNORECASE,
)
_AND_ZH = re.compile(
    r"[，,、]?\s*(?:以及|并且|而且|同时|还有|另外|此外)[，,]?|[，,]\s*(?:和|与|且|并)?|(?:和|与|并|且)(?=.*[谁什哪多几怎如何])"
)
_LEADING = re.compile(
    r"^(?:and|also|as well as|plus)\b[\s,]*|^(?:以及|并且|而且|同时|还有|另外|此外)[，,\s]*", re.IGNORECASE
)
_EDGES = " \t\r\n,，、.。!！;；:："


def split_question(question: str, *, limit: int = 4) -> tuple[str, ...]:
    """The questions that `question` plainly consists of, in order; empty where it is one.

    Cut where each side asks something of its own: at question marks, semicolons and line breaks,
    at "and" before a question word, at 以及 and its like, at a Chinese comma. "A和B有什么区别" and
    "when and where was she born" stay whole. A later part may lean on an earlier one ("how long is
    it"). At most the first `limit` parts.
    """
    parts = [piece for whole in _at_marks(question) for piece in _at_conjunctions(whole)]
    distinct = list(dict.fromkeys(parts))
    return tuple(distinct[:limit]) if len(distinct) > 1 else ()


def asks(text: str) -> bool:
    """Whether `text` as a whole is a question or a request, and no statement."""
    if is_chinese(text):
        return bool(_ASKS_ZH.search(text))
    return text.rstrip().endswith(("?", "？")) or bool(_BEGINS_ASKING_EN.match(text))


def _at_marks(question: str) -> list[str]:
    pieces: list[str] = []
    start = 0
    for end, after in [*(match.span() for match in _MARKS.finditer(question)), (len(question),) * 2]:
        piece = _trimmed(question[start:end])
        # What asks nothing introduces what follows: "I rent a flat; when may I leave?"
        if piece and _asks(piece):
            pieces.append(piece)
            start = after
    # Nor is there a part after the last question: "… Thank you!"
    return pieces or [_trimmed(question)]


def _at_conjunctions(sentence: str) -> Iterator[str]:
    """`sentence` cut wherever both sides ask."""
    conjunction = _AND_ZH if is_chinese(sentence) else _AND_EN
    start = 0
    for match in conjunction.finditer(sentence):
        left, right = sentence[start : match.start()], sentence[match.end() :]
        if _stands(left) and _asks(right) and _says_something(right):
            yield _trimmed(left)
            start = match.end()
    yield _trimmed(sentence[start:])


def _stands(part: str) -> bool:
    """Whether it asks, and about something: the "when" of "when and where" is about nothing."""
    return _asks(part) and bool(phrases_of(part)) and not _NOT_ASKED.search(part)


def _asks(part: str) -> bool:
    return bool((_ASKS_ZH if is_chinese(part) else _ASKS_EN).search(part))


def _says_something(part: str) -> bool:
    """More than a question word: "how", 多久 alone belong to what is before them."""
    return len(part.strip(_EDGES)) > 2 if is_chinese(part) else len(part.split()) > 2


def _trimmed(part: str) -> str:
    return _LEADING.sub("", part.strip(_EDGES)).strip(_EDGES)
